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

# Measured in tensor2tensor#317 on the authors' checkpoint of 3.8 million steps.
OTHER_MEASURE = (
    "The paper's BLEU is not sacreBLEU: for English-German, a base model of its authors has 29.02 "
    "by their script and 27.52 by sacreBLEU on newstest2014, 26.50 and 26.25 on newstest2013."
)


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
