"""What the paper prints of a model on a corpus."""

from __future__ import annotations

from fairseq_aiayn.paper import TABLE_2, TABLE_3, Published

EN_DE, EN_FR = "wmt14_en_de", "wmt14_en_fr"  # as the recipes call the paper's corpora
TABLE_2_BLEU = {
    (row, corpus): getattr(model, column)
    for model in TABLE_2
    for name, row, corpus, column in (
        ("Transformer (base)", "base", EN_DE, "bleu_en_de"),
        ("Transformer (base)", "base", EN_FR, "bleu_en_fr"),
        ("Transformer (big)", "big", EN_DE, "bleu_en_de"),
        ("Transformer (big)", "big_en_fr", EN_FR, "bleu_en_fr"),
    )
    if model.model == name
}


def published(row: str | None, corpus: str | None, subset: str | None) -> Published | None:
    """Return Table 2's BLEU for a test set, and Table 3's results for newstest2013.

    The result is None if the paper prints nothing.
    """
    if subset == "test":
        bleu = TABLE_2_BLEU.get((row, corpus))
        return bleu and Published(bleu=bleu)
    if (corpus, subset) == (EN_DE, "valid"):
        return {model.name: model.published for model in TABLE_3}.get(row)
    return None
