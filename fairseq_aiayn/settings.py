"""A configuration of the paper as options of fairseq, for our models and stock fairseq's own.

Here fairseq's names meet the paper's symbols. Nothing here imports fairseq.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from fairseq_aiayn.nn.dimensions import Sharing
from fairseq_aiayn.paper import (
    ADAM,
    BASE,
    BIG_EN_FR,
    MULTI30K_TINY,
    PARSING_DECODING,
    ROWS,
    TABLE_3,
    TRANSLATION,
    VOCABULARY_EN_DE,
    VOCABULARY_EN_FR,
    Decoding,
    Row,
    learning_rate,
)

# For each size, fairseq has one option for the encoder and another for the decoder.
ENCODER_AND_DECODER = {
    "layers": "N",
    "embed_dim": "d_model",
    "ffn_embed_dim": "d_ff",
    "attention_heads": "h",
}
SIDES = ("encoder", "decoder")
SIZE_OPTIONS = {f"{side}_{name}": N for name, N in ENCODER_AND_DECODER.items() for side in SIDES}
SIZE_OPTIONS |= {"d_k": "d_k", "d_v": "d_v"}
EN_DE, EN_FR = "wmt14_en_de", "wmt14_en_fr"  # as the recipes call the paper's corpora
OURS = "aiayn_"  # begins every name that this plugin registers with fairseq
# Which embedding matrices are one, by the argument that is true
SHARING: dict[str, Sharing] = {
    "share_all_embeddings": "all",
    "share_decoder_input_output_embed": "target",
    "untied_embeddings": "none",
}


def argument(option: str) -> str:
    """Return the name of the argument that an option sets: --max-len-a sets max_len_a."""
    return option.removeprefix("--").replace("-", "_")


def option(name: str) -> str:
    """Return an argument's name as a command-line option, such as --encoder-embed-dim."""
    return "--" + name.replace("_", "-")


# --- the training settings of section 5, for any number of GPUs -------------------------------

TOLERANCE = 0.1  # a batch within this share of the paper's is "approximately" equal
USUAL_MAX_TOKENS = 4_096  # the most tokens per GPU without --max-tokens
LEAST_TOKENS = 16  # per GPU: fewer are no sentence, and rounded up more than TOLERANCE
LONG_SENTENCE = 512  # subwords, about those of 250 words, the most that the recipes keep
# A budget's options and their units, by the field of Row that each changes
BUDGET_OPTIONS = {
    "batch_tokens": ("--batch-tokens", "T", "source tokens per batch, and target tokens per batch"),
    "steps": ("--max-update", "U", "updates of the training"),
    "warmup": ("--warmup-updates", "U", "updates of the warm-up"),
    "lr_factor": ("--lr-factor", "F", "factor on Equation 3, the learning rate"),
    "checkpoint_updates": ("--save-interval-updates", "U", "updates between checkpoints"),
}


def with_budget(row: Row, **given: float | None) -> Row:
    """Return the row with a user's values of the fields that BUDGET_OPTIONS names, but for None.

    Unless it is given, the interval between checkpoints shrinks in proportion to the steps. Raises
    ValueError, with the option, for a number below 1, or an `lr_factor` that is not positive and
    finite.
    """
    budget: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, value in budget.items():
        option, *_ = BUDGET_OPTIONS[name]
        if name == "lr_factor" and not 0 < value < math.inf:
            raise ValueError(f"{option}: expected a positive number, got {value}")
        if name != "lr_factor" and value < 1:
            raise ValueError(f"{option}: expected at least 1, got {value}")
    if "steps" in budget:
        in_proportion = row.checkpoint_updates * budget["steps"] // row.steps
        budget.setdefault("checkpoint_updates", max(1, in_proportion))
    return replace(row, **budget)


def batch(row: Row, gpus: int, max_tokens: int | None = None) -> tuple[int, int]:
    """Return (max_tokens, update_freq) with gpus · max_tokens · update_freq ≈ the row's batch.

    fairseq's --max-tokens counts the longer side of the padded pairs, so that it bounds both the
    source tokens and the target tokens. Without `max_tokens`, the product equals the row's batch
    (rounded up). Raises ValueError, with the arithmetic, if no update frequency comes within 10% of
    the batch, or if the GPUs would have no whole sentences.
    """
    if gpus < 1:
        raise ValueError(f"expected at least 1 GPU, got {gpus}")
    most = max(1, row.batch_tokens // LEAST_TOKENS)
    if gpus > most:
        raise ValueError(
            f"expected at most {most} GPUs, each with at least {LEAST_TOKENS} tokens of a"
            f" batch of {row.batch_tokens:,} tokens (row {row.name}), got {gpus}"
        )
    if max_tokens is None:
        update_freq = math.ceil(row.batch_tokens / (gpus * USUAL_MAX_TOKENS))
        return math.ceil(row.batch_tokens / (gpus * update_freq)), update_freq
    if max_tokens < 1:
        raise ValueError(f"--max-tokens: expected at least 1, got {max_tokens}")
    update_freq = max(1, round(row.batch_tokens / (gpus * max_tokens)))
    tokens = gpus * max_tokens * update_freq
    if abs(tokens - row.batch_tokens) > TOLERANCE * row.batch_tokens:
        fitting, _ = batch(row, gpus)
        raise ValueError(
            f"{gpus} GPUs x {max_tokens} tokens x update frequency {update_freq} = {tokens:,}"
            f" tokens a batch, {tokens / row.batch_tokens - 1:+.0%} from the {row.batch_tokens:,}"
            f" of row {row.name} (section 5.1): try --max-tokens {fitting}"
        )
    return max_tokens, update_freq


def doubts(row: Row, gpus: int, max_tokens: int | None = None) -> Iterator[str]:
    """Yield what a training would lose: sentences, if each of several GPUs has less than a long
    one; most of what it could learn, if it ends in its warm-up. Raises ValueError as `batch`."""
    tokens, _ = batch(row, gpus, max_tokens)
    long = min(LONG_SENTENCE, row.batch_tokens // 2)  # small batches are for short sentences
    if gpus > 1 and tokens < long:
        text = f"a GPU has {tokens} tokens of the batch: fairseq leaves out longer sentences;"
        yield f"{text} {row.batch_tokens:,} are good for {row.batch_tokens // long} GPUs in all"
    if row.warmup >= row.steps:
        text = f"{row.steps:,} updates end in the warm-up of {row.warmup:,}, which learns little;"
        yield f"{text} a warm-up of {max(1, row.steps // 10):,} would be a tenth"


def regime_options(row: Row, gpus: int, max_tokens: int | None = None) -> dict[str, object]:
    """Return the row's regime as options that stock fairseq's models and ours share; raises
    ValueError as `batch` does."""
    max_tokens, update_freq = batch(row, gpus, max_tokens)
    return {
        "--label-smoothing": row.epsilon_ls,
        "--dropout": row.P_drop,
        "--adam-betas": f"{ADAM.beta_1},{ADAM.beta_2}",
        "--adam-eps": ADAM.epsilon,
        "--warmup-updates": row.warmup,
        "--clip-norm": 0.0,
        "--max-tokens": max_tokens,
        "--update-freq": update_freq,
        "--distributed-world-size": gpus,  # otherwise fairseq takes all GPUs that it sees
        "--max-update": row.steps,
        "--save-interval-updates": row.checkpoint_updates,
        "--keep-interval-updates": row.averaged,
    }


# Of a small text, base has thousands of epochs; one of its checkpoints takes 0.6 GB
REGIME_SWITCHES = ["--no-epoch-checkpoints"]


def as_words(options: dict[str, object]) -> list[str]:
    """Return options and values as the words of a command line."""
    return [str(part) for option in options.items() for part in option]


def train_flags(row: Row, gpus: int, max_tokens: int | None = None) -> list[str]:
    """Return the row's architecture and regime as arguments of fairseq-train. No argument needs
    quoting. Data, task, precision and directories are not included. Raises ValueError as `batch`
    does."""
    model: dict[str, object] = {
        "--arch": row.arch,
        "--criterion": "aiayn_label_smoothed_cross_entropy",
        "--lr-scheduler": "aiayn_inverse_sqrt",
        "--optimizer": "aiayn_adam",
    }
    if row.lr_factor != 1 or ROWS[row.name].lr_factor != 1:  # which --arch sets
        model["--lr-factor"] = row.lr_factor
    return as_words(model | regime_options(row, gpus, max_tokens)) + REGIME_SWITCHES


# --- a text of one's own ----------------------------------------------------------------------

MORE_DROPOUT = 0.3  # as usual for a few 100,000 pairs: fairseq's example for IWSLT14 has it


class Fit(NamedTuple):
    """What fits a text of at most so many pairs."""

    pairs: int
    row: Row
    vocabulary: int  # byte pairs of both languages


FITS = (
    # Of so few pairs, 10,000 merges would make whole words that are seen once or twice
    Fit(10_000, MULTI30K_TINY, 2_000),
    Fit(100_000, MULTI30K_TINY, 10_000),
    Fit(1_000_000, replace(BASE, P_drop=MORE_DROPOUT, steps=50_000), 10_000),
)


def fitting(pairs: int) -> Fit | None:
    """Return what fits a text of so many pairs; None for one that the paper's rows fit."""
    return next((fit for fit in FITS if pairs <= fit.pairs), None)


# --- the search of sections 6.1 and 6.3 -------------------------------------------------------

PARSING_TASK = "aiayn_parsing"


def decoding(row: Row) -> Decoding:
    """Return the search for the row's task; rows with two vocabularies are for parsing."""
    return TRANSLATION if row.shared_vocabulary else PARSING_DECODING


def task_of(row: Row) -> str:
    """Return the name of the plugin's task for a row."""
    return "aiayn_translation" if row.shared_vocabulary else PARSING_TASK


def averaged_of(row: Row, subset: object) -> int:
    """Return how many checkpoints are averaged; Table 3, on the validation set, averages none."""
    return 1 if subset == "valid" and row in TABLE_3 else row.averaged


def vocabulary_of(row: Row, corpus: str | None = None) -> int:
    """Return how many subwords the paper has for the languages of a row or corpus (section 5.1)."""
    is_french = row == BIG_EN_FR or corpus in (EN_FR, "wmt14_fr_en")
    return VOCABULARY_EN_FR if is_french else VOCABULARY_EN_DE


def is_about(vocabulary: int, paper: int) -> bool:
    """Return whether a vocabulary is within 5% of the paper's approximate size."""
    return abs(vocabulary / paper - 1) <= 0.05


def generate_options(search: Decoding) -> dict[str, object]:
    """Return beam size, α and longest output, input + b, as fairseq-generate's options."""
    return {
        "--beam": search.beam,
        "--lenpen": search.alpha,
        "--max-len-a": 1,
        "--max-len-b": search.extra_length,
    }


# --- stock fairseq's own Transformer, loss and schedule ---------------------------------------
#
# docs/deviations.md lists the differences that remain.

# Rows for which stock fairseq has a name; for others, explicit options set the shape.
NAMED = {
    "base": "transformer_wmt_en_de",
    "big": "transformer_vaswani_wmt_en_de_big",
    "big_en_fr": "transformer_vaswani_wmt_en_fr_big",
}
FIRST_RATE = 1e-7  # where the linear warm-up starts; Equation 3 starts at 0


def stock_flags(row: Row, gpus: int, max_tokens: int | None = None) -> list[str]:
    """Return stock fairseq's nearest model and the row's regime as arguments of fairseq-train. No
    argument needs quoting. Data, task, precision and directories are not included. Raises
    ValueError if d_k or d_v is not d_model / h, and as `batch` does."""
    if {row.h * row.d_k, row.h * row.d_v} != {row.d_model}:
        raise ValueError(
            f"row {row.name} has d_k {row.d_k} and d_v {row.d_v}; a head of stock fairseq has"
            f" d_model / h = {row.d_model} / {row.h} = {row.d_model / row.h:g} for both"
        )
    shape = {
        option(f"{side}_{name}"): getattr(row, symbol)
        for side in SIDES
        for name, symbol in ENCODER_AND_DECODER.items()
    }
    model = {
        "--arch": NAMED.get(row.name, "transformer"),
        **shape,
        "--criterion": "label_smoothed_cross_entropy",
        "--lr-scheduler": "inverse_sqrt",
        "--optimizer": "adam",
        "--weight-decay": 0.0,
        "--warmup-init-lr": FIRST_RATE,
        "--lr": f"{learning_rate(row.warmup, row.d_model, row.warmup, row.lr_factor):.9g}",  # peak
    }
    shared = "all-embeddings" if row.shared_vocabulary else "decoder-input-output-embed"
    switches = [f"--share-{shared}"]
    if row.learned_positions:
        switches += ["--encoder-learned-pos", "--decoder-learned-pos"]
    return as_words(model | regime_options(row, gpus, max_tokens)) + switches + REGIME_SWITCHES
