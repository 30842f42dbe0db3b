"""In what the paper and this plugin differ from stock fairseq, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StockDifference:
    """One choice, in a few words of Markdown; docs/differences.md prints them all."""

    what: str
    paper: str
    stock: str  # fairseq 0.12.3.1
    consequence: str


STOCK_DIFFERENCES = (
    StockDifference(
        "batch",
        "about 25,000 source and 25,000 target tokens on any number of GPUs",
        "`--max-tokens` on each GPU",
        "the batch shrinks with the GPUs, the learning rate does not",
    ),
    StockDifference(
        "length penalty",
        "log P / ((5 + |Y|)/6)^α",
        "log P / |Y|^α",
        "α 0.6 means something else",
    ),
    StockDifference(
        "end of the search",
        "when no open hypothesis can win any more",
        "when k hypotheses are finished",
        "a better hypothesis can be missed",
    ),
    StockDifference(
        "longest output",
        "the sentence's own input + 50",
        "200, or by the longest source in the batch",
        "a translation depends on the batch it is in",
    ),
    StockDifference(
        "label smoothing",
        "ε/K over all K classes",
        "ε/(K − 1) over the others",
        "the difference is negligible; perplexities stay comparable",
    ),
    StockDifference(
        "sinusoids",
        "interleaved, from position 0",
        "concatenated, other wavelengths, from position 2",
        "checkpoints are not interchangeable",
    ),
    StockDifference(
        "projections",
        "without bias",
        "with bias",
        "parameter counts differ",
    ),
    StockDifference(
        "size of a head",
        "d_k and d_v free",
        "d_model / h",
        "rows (B) of Table 3 cannot be built",
    ),
    StockDifference(
        "learning rate",
        "Equation 3 from step 1",
        "`--lr` is reached at the end of the warm-up",
        "you have to compute the peak",
    ),
    StockDifference(
        "batches",
        "pairs of nearly one length on both sides: 2% padding",
        "by source length: 5% (Multi30k)",
        "fewer tokens for the same `--max-tokens`",
    ),
    StockDifference(
        "BLEU",
        "tokenized; German quotes ASCII, compounds split",
        "of the tokens in the files",
        "it is not Table 2's measure",
    ),
    StockDifference(
        "test set",
        "every sentence",
        "up to seven sentences are dropped from the last batch by default",
        "another test set",
    ),
    StockDifference(
        "checkpoints on PyTorch ≥ 2.6",
        "load, with `weights_only` on",
        "do not load",
        "training cannot resume, models cannot translate",
    ),
    StockDifference(
        "resumed run",
        "the batches of an undisturbed run",
        "other batches after the first epoch",
        "runs cannot be repeated",
    ),
)
