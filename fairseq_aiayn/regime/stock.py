"""A row in stock fairseq: stock's own Transformer, loss and schedule, in the row's regime.

docs/differences.md lists the differences that remain.
"""

from __future__ import annotations

from fairseq_aiayn.paper import Row
from fairseq_aiayn.regime.names import ENCODER_AND_DECODER, SIDES, option
from fairseq_aiayn.regime.ours import as_words, regime_options
from fairseq_aiayn.training.learning_rate import learning_rate

# Rows for which stock fairseq has a name; for others, explicit options set the shape.
NAMED = {
    "base": "transformer_wmt_en_de",
    "big": "transformer_vaswani_wmt_en_de_big",
    "big_en_fr": "transformer_vaswani_wmt_en_fr_big",
}
FIRST_RATE = 1e-7  # where the linear warm-up starts; Equation 3 starts at 0


def stock_flags(row: Row, gpus: int, max_tokens: int | None = None) -> list[str]:
    """Return stock fairseq's nearest model and the row's regime as arguments of fairseq-train.

    No argument needs quoting. Data, task, precision and directories are not included. Raises
    ValueError if d_k or d_v is not d_model / h, and as `batch` does.
    """
    model = {
        "--arch": NAMED.get(row.name, "transformer"),
        **shape_options(row),
        "--criterion": "label_smoothed_cross_entropy",
        "--lr-scheduler": "inverse_sqrt",
        "--optimizer": "adam",
        "--weight-decay": 0.0,
        "--warmup-init-lr": FIRST_RATE,
        "--lr": f"{learning_rate(row.warmup, row.d_model, row.warmup, row.lr_factor):.9g}",  # peak
    }
    return as_words(model | regime_options(row, gpus, max_tokens)) + switches(row)


def shape_options(row: Row) -> dict[str, object]:
    """Return the row's shape as options of stock fairseq.

    Raises ValueError if d_k or d_v is not d_model / h.
    """
    if {row.h * row.d_k, row.h * row.d_v} != {row.d_model}:
        raise ValueError(
            f"row {row.name} has d_k {row.d_k} and d_v {row.d_v}; a head of stock fairseq has"
            f" d_model / h = {row.d_model} / {row.h} = {row.d_model / row.h:g} for both"
        )
    return {
        option(f"{side}_{name}"): getattr(row, symbol)
        for side in SIDES
        for name, symbol in ENCODER_AND_DECODER.items()
    }


def switches(row: Row) -> list[str]:
    """Return the switches for shared matrices (section 3.4) and learned positions (row E)."""
    words = ["--share-all-embeddings"]
    if not row.shared_vocabulary:
        words = ["--share-decoder-input-output-embed"]
    if row.learned_positions:
        words += ["--encoder-learned-pos", "--decoder-learned-pos"]
    return words
