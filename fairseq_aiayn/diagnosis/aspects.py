"""The aspects in which a training is compared with the paper, and what a difference costs.

A comparison is a function of what is known of a run and of a row of the paper. It returns a
Finding, or None if no file says it. They stand in the order in which a run is made: training
(section 5), model (section 3), averaging, search and BLEU (section 6.1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.paper import (
    ADAM,
    BASE,
    D_DROP0,
    D_LS0,
    E_LEARNED,
    TABLE_3,
    VOCABULARY_EN_DE,
    Row,
    learning_rate,
)
from fairseq_aiayn.runs.differences import EN_DE, EN_FR, averaged_of, is_about
from fairseq_aiayn.runs.logs import as_number
from fairseq_aiayn.settings import (
    ENCODER_AND_DECODER,
    PARSING_TASK,
    SIDES,
    SIZE_ARGUMENTS,
    TOLERANCE,
    batch,
    decoding,
    option,
    task_of,
)


class Weight(IntEnum):
    """How much a difference is expected to cost or gain; the heaviest comes first."""

    LARGE = 4  # 1 BLEU or more
    MEDIUM = 3  # 0.3 to 1 BLEU
    UNKNOWN = 2  # its effect on BLEU after a whole training has not been measured
    SMALL = 1  # less than 0.3 BLEU
    NONE = 0  # as in the paper, or of no effect


@dataclass(frozen=True)
class Finding:
    """What the paper did, what a training did, and what follows."""

    paper: str
    here: str
    weight: Weight = Weight.NONE
    effect: str = ""  # with its source; empty if this is as in the paper
    change: str = ""  # what to type instead

    @property
    def differs(self) -> bool:
        """Return whether the training differs from the paper."""
        return bool(self.effect)


Comparison = Callable[[Evidence, Row], Finding | None]


@dataclass(frozen=True)
class Aspect:
    """A comparison and the options of fairseq-train, by their argument names, that it reads."""

    name: str
    options: tuple[str, ...]
    compare: Comparison


ASPECTS: list[Aspect] = []


def aspect(name: str, *options: str) -> Callable[[Comparison], Comparison]:
    """Return a decorator that adds a comparison to ASPECTS."""

    def add(compare: Comparison) -> Comparison:
        ASPECTS.append(Aspect(name, options, compare))
        return compare

    return add


def finding(
    paper: str, here: str, same: bool, weight: Weight, effect: str, change: str = ""
) -> Finding:
    """Return a finding whose weight, effect and change count only if this is not the same."""
    return Finding(paper, here) if same else Finding(paper, here, weight, effect, change)


def choice(
    is_papers: bool | None, paper: str, stocks: str, weight: Weight, effect: str, change: str = ""
) -> Finding | None:
    """Compare what is either as in the paper or as in stock fairseq; None is not known."""
    if is_papers is None:
        return None
    return finding(paper, paper if is_papers else stocks, is_papers, weight, effect, change)


def number_finding(
    options: Mapping[str, object], name: str, paper: float, weight: Weight, effect: str
) -> Finding | None:
    """Compare the number of an option with the paper's."""
    here = as_number(options.get(name))
    if here is None:
        return None
    change = f"{option(name)} {paper:g}"
    return finding(f"{paper:,g}", f"{here:,g}", here == paper, weight, effect, change)


def bleu_gain(worse: Row, better: Row) -> float:
    """Return how much higher the BLEU is that the paper prints for the second row."""
    return (better.published.bleu or 0) - (worse.published.bleu or 0)


# Section 5: batches, steps, learning rate, Adam, regularization

# The target tokens of a batch are fewer than its --max-tokens: sides differ, and padding counts
FULL = 0.75
HALF = 0.5
TOKENS_OF_A_SENTENCE = 28  # about the mean of WMT14 in subwords
SMALL_BATCH = (
    "base with 4,096 tokens: 26.57, with 3,072: 25.15, after 500,000 updates (tensor2tensor#129); "
    "tiny with a quarter of its batch: 0.66 instead of 23.30 (docs/diagnosis.md)"
)
UPDATES = "base: 27.0 after 100,000, 27.4 after 200,000, 27.5 after 300,000 (tensor2tensor#444)"
EARLY = "fewer than this, which costs little where the development loss no longer falls"
FALLING = 0.01  # bits per token
SAME_RATE = 0.05  # a peak no further from the paper's is the same
RECIPE = "with its learning rate a known good recipe (Ott et al. 2018)"
OUR_RATE = "aiayn_inverse_sqrt"
OUR_LOSS, STOCKS_LOSS = "aiayn_label_smoothed_cross_entropy", "label_smoothed_cross_entropy"
CHOSEN = "chosen on section 22"  # the development set of the parser (section 6.3)
OTHER_DROPOUT = ("attention_dropout", "activation_dropout", "relu_dropout")
ABLATION = "docs/results.md#ablation_tiny"


@aspect("architecture", "arch")
def _architecture(run: Evidence, row: Row) -> Finding | None:
    name, paper = run.text("arch"), "Transformer with self-attention"
    if name is None:
        return None
    here = f"{name} ({run.model})" if run.model else name
    effect = "another architecture, which is not judged further"
    return finding(paper, here, run.is_transformer, Weight.UNKNOWN, effect, f"--arch {row.arch}")


@aspect("task", "task")
def _task(run: Evidence, row: Row) -> Finding | None:
    here = run.text("task")
    if here is None:
        return None
    same = here in ("translation", task_of(row))
    return finding("one pair of languages", here, same, Weight.UNKNOWN, "another task")


BEGINNINGS = ("finetune_from_model", "encoder_embed_path", "decoder_embed_path", "restore_file")


@aspect("beginning", *BEGINNINGS)
def _beginning(run: Evidence, row: Row) -> Finding | None:
    if "restore_file" not in run.options:
        return None
    here, effect = run.begun_from or "initial values", "the parameters are those of another model"
    return finding("initial values", here, not run.begun_from, Weight.UNKNOWN, effect)


@aspect(
    "batch",
    *("max_tokens", "batch_size", "max_sentences", "update_freq", "distributed_world_size"),
    *("lr_scheduler", "lr", "lr_factor", "warmup_updates", "encoder_embed_dim"),
)
def _batch(run: Evidence, row: Row) -> Finding | None:
    gpus = max(1, int(run.gpus or run.number("distributed_world_size") or 1))
    max_tokens = run.number("max_tokens")
    sentences = run.number("batch_size") or run.number("max_sentences")  # before fairseq 0.10
    size = _update_size(run, gpus, max_tokens or math.inf, sentences or math.inf)
    if size is None:
        return None
    tokens, least, here = size
    ratio = tokens / row.batch_tokens
    same = least <= ratio <= 1 + TOLERANCE
    weight = Weight.LARGE if ratio < HALF else Weight.MEDIUM if ratio < least else Weight.UNKNOWN
    known = SMALL_BATCH if ratio < 1 else "it needs a higher learning rate"
    if ratio > 1 and 1 - SAME_RATE <= (_rate_ratio(run, row) or 0) <= ratio:
        weight, known = Weight.NONE, RECIPE
    change = _batch_options(row, gpus, max_tokens) + (", without --batch-size" * bool(sentences))
    paper = f"about {row.batch_tokens:,} target tokens per update"
    return finding(paper, here, same, weight, f"{ratio:.2f} of this batch; {known}", change)


def _update_size(
    run: Evidence, gpus: int, max_tokens: float, sentences: float
) -> tuple[float, float, str] | None:
    """Return an update's target tokens, the share of the paper's that is enough, and their source.

    The log's statistics decide. Without them, it is the smaller of the two limits of a batch; None
    if there is neither.
    """
    if run.tokens_per_update:
        return run.tokens_per_update, FULL, f"{run.tokens_per_update:,.0f}, by the log"
    every = int(run.number("update_freq") or 1)
    times = f"{gpus} GPUs, --update-freq {every}"
    tokens_of_sentences = sentences * TOKENS_OF_A_SENTENCE
    tokens = min(max_tokens, tokens_of_sentences) * gpus * every
    if tokens == math.inf:
        return None
    if tokens_of_sentences < max_tokens:
        limit = f"--batch-size {sentences:g} with {TOKENS_OF_A_SENTENCE} tokens a sentence"
        return tokens, FULL, f"about {tokens:,.0f}: {limit}, {times}"
    return tokens, 1 - TOLERANCE, f"at most {tokens:,.0f}: --max-tokens {max_tokens:g}, {times}"


def _batch_options(row: Row, gpus: int, max_tokens: float | None) -> str:
    """Return the options that give the paper's batch on so many GPUs."""
    try:
        tokens, every = batch(row, gpus, int(max_tokens) if max_tokens else None)
    except ValueError:  # no whole number of such batches comes near
        tokens, every = batch(row, gpus)
    return f"--max-tokens {tokens} --update-freq {every}"


@aspect("batches", "task")
def _batches(run: Evidence, row: Row) -> Finding | None:
    effect = (
        "fewer tokens for the same --max-tokens; BLEU 22.03 against 23.17 (p = 0.04) after 1,450 "
        f"updates of tiny ({ABLATION})"
    )
    is_papers = run.has_our("task") if run.text("task") else None
    ways = "pairs of nearly one length on both sides", "by source length"
    return choice(is_papers, *ways, Weight.UNKNOWN, effect, f"--task {task_of(row)}")


@aspect("updates", "max_update", "max_epoch", "patience")
def _updates(run: Evidence, row: Row) -> Finding | None:
    """Judge what was done, or of a training that still runs, what it was asked for; a larger batch
    needs fewer updates."""
    is_done = run.is_finished is not False
    updates = run.updates if is_done else run.number("max_update")
    if not updates:
        return None
    here = f"{updates:,.0f}" + ("" if is_done else f" asked for, {run.updates or 0:,} done")
    size = run.tokens_per_update or row.batch_tokens
    ratio = updates / row.steps
    if ratio < 1:
        ratio = min(1.0, ratio * max(1, size / row.batch_tokens))
    weight = Weight.LARGE if ratio < HALF else Weight.MEDIUM
    effect = f"{'fewer' if ratio < 1 else 'more'} than this; {UPDATES}"
    change = f"--max-update {row.steps}"
    if run.number("max_epoch"):
        change += " --max-epoch 0"
    patience = run.number("patience") or 0
    if ratio < 1 and patience > 0:
        weight, change = Weight.UNKNOWN, "--patience -1"
        effect = f"{EARLY}; --patience {patience:g} may have ended it"
    if ratio < 1 and still_falls(run) is False:
        weight, effect = Weight.UNKNOWN, f"{EARLY}, as here"
    same = abs(ratio - 1) <= TOLERANCE
    return finding(f"{row.steps:,}", here, same, weight, effect, change)


def still_falls(run: Evidence) -> bool | None:
    """Return whether the development loss fell in the last fifth of a training; None if that is not
    known."""
    losses = run.curves.get("development loss", {})
    points = {update: value for update, value in losses.items() if math.isfinite(value)}
    last = max(points, default=0)
    before = [value for update, value in points.items() if update <= 0.8 * last]
    return min(before) - points[last] > FALLING if before else None


@aspect("learning rate", "lr_scheduler", "lr", "lr_factor", "warmup_updates", "encoder_embed_dim")
def _learning_rate(run: Evidence, row: Row) -> Finding | None:
    schedule = run.text("lr_scheduler")
    if schedule is None:
        return None
    peak = learning_rate(row.warmup, row.d_model, row.warmup, row.lr_factor)
    paper, ours = f"Equation 3, {peak:.3g} at its peak", f"--lr-scheduler {OUR_RATE}"
    if schedule not in ("inverse_sqrt", OUR_RATE):
        return Finding(paper, schedule, Weight.LARGE, "another schedule", ours)
    here, change = _peak(run, schedule), f"--lr {peak:.9g}, or {ours}"
    ratio = _rate_ratio(run, row)
    if not here or not ratio:
        return None
    weight = Weight.UNKNOWN if HALF <= ratio <= 1 / HALF else Weight.LARGE
    effect = f"{ratio:.2f} of the paper's rate after the warm-up"
    size = (run.tokens_per_update or 0) / row.batch_tokens
    if 1 + SAME_RATE < ratio <= size:
        weight, effect = Weight.NONE, f"{effect}, with {size:.1f} of its batch {RECIPE[5:]}"
    same = abs(ratio - 1) <= SAME_RATE
    return finding(paper, f"{schedule}, {here:.3g} at its peak", same, weight, effect, change)


def _rate_ratio(run: Evidence, row: Row) -> float | None:
    """Return the learning rate after the warm-up over the paper's.

    A longer warm-up has a lower peak, but the same rate after it; it is an aspect of its own.
    """
    schedule = run.text("lr_scheduler")
    here = _peak(run, schedule) if schedule in ("inverse_sqrt", OUR_RATE) else None
    peak = learning_rate(row.warmup, row.d_model, row.warmup, row.lr_factor)
    warmup = run.number("warmup_updates") or row.warmup
    return here * math.sqrt(warmup / row.warmup) / peak if here else None


def _peak(run: Evidence, schedule: str) -> float | None:
    """Return the highest learning rate."""
    if schedule != OUR_RATE:
        return run.number("lr")
    warmup, d_model = run.number("warmup_updates"), run.number("encoder_embed_dim")
    if not warmup or not d_model:
        return None
    return learning_rate(int(warmup), int(d_model), int(warmup), run.number("lr_factor") or 1.0)


@aspect("warm-up", "warmup_updates")
def _warm_up(run: Evidence, row: Row) -> Finding | None:
    effect = "negligible, or crucial where it prevents divergence (tensor2tensor#991)"
    return number_finding(run.options, "warmup_updates", row.warmup, Weight.UNKNOWN, effect)


@aspect("Adam", "optimizer", "adam_betas", "adam_eps")
def _adam(run: Evidence, row: Row) -> Finding | None:
    optimizer, betas = run.text("optimizer"), run.text("adam_betas")
    if optimizer is None:
        return None
    wanted = (ADAM.beta_1, ADAM.beta_2, ADAM.epsilon)
    form = "Adam, β1 {:g}, β2 {:g}, ε {:g}"
    change = "--optimizer adam --adam-betas {},{} --adam-eps {}".format(*wanted)
    paper = form.format(*wanted)
    if optimizer not in ("adam", "aiayn_adam") or betas is None:
        return Finding(paper, optimizer, Weight.LARGE, "another optimizer", change)
    numbers = (*map(as_number, re.findall(r"[\d.e-]+", betas)), run.number("adam_eps"))
    here = tuple(number for number in numbers if number is not None)
    text = form.format(*here) if len(here) == 3 else f"Adam, {betas}"
    return finding(paper, text, here == wanted, Weight.UNKNOWN, "other constants", change)


@aspect("clipping", "clip_norm")
def _clipping(run: Evidence, row: Row) -> Finding | None:
    effect = "the paper has no clipping"
    return number_finding(run.options, "clip_norm", 0, Weight.UNKNOWN, effect)


@aspect("weight decay", "weight_decay", "optimizer")
def _weight_decay(run: Evidence, row: Row) -> Finding | None:
    here = 0 if run.has_our("optimizer") else run.options.get("weight_decay")
    return number_finding(
        {"weight_decay": here}, "weight_decay", 0, Weight.UNKNOWN, "the paper has none"
    )


@aspect("dropout", "dropout")
def _dropout(run: Evidence, row: Row) -> Finding | None:
    here = run.number("dropout")
    if here and not row.shared_vocabulary:  # a parser's
        return Finding(CHOSEN, f"{here:g}")
    effect, weight = "another regularization", Weight.MEDIUM
    if here == 0:
        loss = bleu_gain(D_DROP0, BASE)
        effect, weight = f"{loss:.1f} BLEU less for base (Table 3, row D)", Weight.LARGE
    return number_finding(run.options, "dropout", row.P_drop, weight, effect)


@aspect("other dropout", *OTHER_DROPOUT)
def _other_dropout(run: Evidence, row: Row) -> Finding | None:
    if not run.has_our("arch") and not any(name in run.options for name in OTHER_DROPOUT):
        return None
    given = {name: value for name in OTHER_DROPOUT if (value := run.number(name))}
    here = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in given.items())
    paper, wrong, where = "none", list(given), "in attention weights or "
    if not row.shared_vocabulary:  # a parser's
        paper, where = f"in attention weights, {CHOSEN}; otherwise none", ""
        wrong = [name for name in given if name != "attention_dropout"]
    effect = f"the paper has none {where}within the feed-forward network"
    change = " ".join(f"{option(name)} 0" for name in wrong)
    return finding(paper, here or "none", not wrong, Weight.UNKNOWN, effect, change)


@aspect("label smoothing", "criterion", "label_smoothing")
def _smoothing(run: Evidence, row: Row) -> Finding | None:
    here = 0.0 if run.text("criterion") == "cross_entropy" else run.number("label_smoothing")
    if here is None:
        return None
    criterion = run.text("criterion") or OUR_LOSS
    change = f"--criterion {OUR_LOSS} --label-smoothing {row.epsilon_ls:g}"
    if criterion not in (OUR_LOSS, STOCKS_LOSS, "cross_entropy"):
        return Finding(f"{row.epsilon_ls:g}", criterion, Weight.UNKNOWN, "another loss", change)
    effect = "another loss: perplexities do not compare either"
    if here == 0:
        loss = bleu_gain(D_LS0, BASE)
        effect = f"{loss:.1f} BLEU less for base, perplexity better (Table 3, row D)"
    same = here == row.epsilon_ls
    return finding(f"{row.epsilon_ls:g}", f"{here:g}", same, Weight.MEDIUM, effect, change)


@aspect("spread of the smoothing", "criterion")
def _smoothing_spread(run: Evidence, row: Row) -> Finding | None:
    is_papers = {OUR_LOSS: True, STOCKS_LOSS: False}.get(run.text("criterion") or "")
    ways = "ε/K over all K types", "ε/(K - 1) over the other types"
    return choice(is_papers, *ways, Weight.NONE, "negligible for large K")


@aspect("precision", "fp16", "bf16", "amp", "autocast")
def _precision(run: Evidence, row: Row) -> Finding | None:
    if "fp16" not in run.options:
        return None
    kinds = [name for name in ("fp16", "bf16", "amp") if run.is_on(name)]
    autocast = run.text("autocast")
    here = " and ".join(kinds) or (f"autocast {autocast}" if autocast else "single")
    weight, effect, change = Weight.NONE, "", ""
    if "amp" in kinds:
        weight, change = Weight.UNKNOWN, "--fp16 or --bf16 instead"
        effect = "fairseq divides gradients by the loss scale twice: Adam's ε counts for far more"
    return Finding("single", here, weight, effect, change)


# Section 3: sizes, norms, positions, shared matrices, initial values

NORMALIZE_BEFORE = {f"{side}_normalize_before": side for side in SIDES}
LEARNED = ("learned_positions", *(f"{side}_learned_pos" for side in SIDES))
STOCK_SCHEME = "fairseq"  # the initial values of stock fairseq since March 2020


def sizes(run: Evidence, side: str) -> dict[str, int]:
    """Return the sizes of the encoder or the decoder by the paper's symbols."""
    found = {
        symbol: int(run.number(f"{side}_{name}") or 0)
        for name, symbol in ENCODER_AND_DECODER.items()
    }
    of_a_head = found["d_model"] // max(1, found["h"])
    return found | {name: int(run.number(name) or of_a_head) for name in ("d_k", "d_v")}


def has_sizes_of(run: Evidence, row: Row) -> bool:
    """Return whether encoder and decoder both have the row's sizes."""
    return all(
        getattr(row, symbol) == size for side in SIDES for symbol, size in sizes(run, side).items()
    )


@aspect("sizes", *SIZE_ARGUMENTS, "d_k", "d_v", "d_model")
def _sizes(run: Evidence, row: Row) -> Finding | None:
    if any(run.number(name) is None for name in SIZE_ARGUMENTS):
        return None
    sides = [sizes(run, side) for side in SIDES]
    wanted = {symbol: getattr(row, symbol) for symbol in sides[0]}
    paper, *here = (
        ", ".join(f"{symbol} {size}" for symbol, size in values.items())
        for values in (wanted, *sides)
    )
    same = next((other for other in TABLE_3 if has_sizes_of(run, other)), None)
    effect, weight = "another model", Weight.UNKNOWN
    if same and same.published.bleu and row.published.bleu:
        gain = bleu_gain(row, same)
        effect = f"the size of row {same.name}: {gain:+.1f} BLEU (Table 3)"
        weight = Weight.LARGE if abs(gain) >= 1 else Weight.MEDIUM
    both = " / ".join(dict.fromkeys(here))
    return finding(paper, both, has_sizes_of(run, row), weight, effect, f"--arch {row.arch}")


@aspect("norms", *NORMALIZE_BEFORE)
def _norms(run: Evidence, row: Row) -> Finding | None:
    if not run.has_our("arch") and not all(name in run.options for name in NORMALIZE_BEFORE):
        return None
    before = [side for name, side in NORMALIZE_BEFORE.items() if run.is_on(name)]
    paper = "after each sub-layer"
    here = f"before each sub-layer ({' and '.join(before)})" if before else paper
    effect = "worse on WMT14 en-de, easier to train without warm-up (Nguyen and Salazar 2019)"
    change = "leave --encoder-normalize-before and --decoder-normalize-before out"
    return finding(paper, here, not before, Weight.UNKNOWN, effect, change)


@aspect("ε of LayerNorm", "arch")
def _layer_norm(run: Evidence, row: Row) -> Finding | None:
    return choice(run.has_our("arch"), "1e-6", "1e-5", Weight.UNKNOWN, "not measured")


@aspect("place of Adam's ε", "optimizer")
def _place_of_epsilon(run: Evidence, row: Row) -> Finding | None:
    is_papers = {"aiayn_adam": True, "adam": False}.get(run.text("optimizer") or "")
    ways = "added to √v̂", "added to √v, before its bias is corrected"
    return choice(is_papers, *ways, Weight.NONE, "none but for gradients near 1e-9")


@aspect("positions", "no_token_positional_embeddings", *LEARNED)
def _positions(run: Evidence, row: Row) -> Finding | None:
    paper = "learned" if row.learned_positions else "sinusoids"
    change = f"--arch {row.arch}"
    if run.is_on("no_token_positional_embeddings"):
        effect = "the model does not see the order of words"
        return Finding(paper, "none", Weight.LARGE, effect, change)
    learned = [name.removesuffix("_learned_pos") for name in LEARNED if run.is_on(name)]
    here = f"learned ({learned[0]} only)" if learned in (["encoder"], ["decoder"]) else "learned"
    here = here if learned else "sinusoids"
    if here == paper == "sinusoids" and not run.has_our("arch"):
        stocks = "sinusoids concatenated, other wavelengths, from position 2"
        effect = (
            "development perplexity 10.16 against 10.27 with the paper's, after 1,450 updates of "
            f"tiny ({ABLATION})"
        )
        return Finding("sinusoids interleaved, from position 0", stocks, Weight.SMALL, effect)
    gain = bleu_gain(BASE, E_LEARNED)
    effect = f"{gain:+.1f} BLEU for learned positions (Table 3, row E)"
    return finding(paper, here, here == paper, Weight.SMALL, effect, change)


@aspect(
    "shared matrices",
    "share_all_embeddings",
    "share_decoder_input_output_embed",
    "untied_embeddings",
)
def _sharing(run: Evidence, row: Row) -> Finding | None:
    all_three, on_one_side = "both embeddings and the projection", "target embedding and projection"
    paper, change = on_one_side, "--share-decoder-input-output-embed"
    if row.shared_vocabulary:
        paper = all_three
        change = "--share-all-embeddings, with fairseq-preprocess --joined-dictionary"
    if run.is_on("share_all_embeddings"):
        here = all_three
    elif run.is_on("share_decoder_input_output_embed"):
        here = on_one_side
    else:  # our model shares what its row shares
        here = paper if run.has_our("arch") and not run.is_on("untied_embeddings") else "none"
    effect = "more parameters than the paper's model"
    return finding(paper, here, here == paper, Weight.UNKNOWN, effect, change)


@aspect("projections", "arch")
def _projections(run: Evidence, row: Row) -> Finding | None:
    has_biases = run.projection_biases
    is_papers = run.has_our("arch") if has_biases is None else not has_biases
    effect = f"none measured: perplexity within the spread of seeds ({ABLATION})"
    return choice(is_papers, "without biases", "with biases", Weight.NONE, effect)


@aspect("vocabulary")
def _vocabulary(run: Evidence, row: Row) -> Finding | None:
    here = run.vocabulary
    if here is None:
        return None
    if row.published.bleu is None:
        return Finding("that of its text", f"{here:,} types")
    effect = "another text, or another number of merges: perplexities per piece do not compare"
    change = f"subword-nmt learn-bpe --total-symbols -s {VOCABULARY_EN_DE}"
    paper, same = f"about {VOCABULARY_EN_DE:,} types (en-de)", is_about(here, VOCABULARY_EN_DE)
    return finding(paper, f"{here:,}", same, Weight.UNKNOWN, effect, change)


@aspect("initial values", "arch", "initialization", "batch_size", *BEGINNINGS)
def _initial_values(run: Evidence, row: Row) -> Finding | None:
    is_ours = run.has_our("arch")
    here, paper = run.text("initialization"), row.initialization
    if not is_ours and (run.has_groups or "batch_size" in run.options):  # since October 2020
        here = STOCK_SCHEME
    if not here or run.begun_from:
        return None
    effect = (
        "development perplexity 9.49 with fairseq, 10.19 with tensor2tensor, 10.27 with "
        f"fairseq-0.9 after 1,450 updates of tiny; the first two end level on Multi30k ({ABLATION})"
    )
    change = f"--initialization {paper}" if is_ours else ""
    return finding(paper, here, here == paper, Weight.UNKNOWN, effect, change)


@aspect("activation", "activation_fn")
def _activation(run: Evidence, row: Row) -> Finding | None:
    here = "relu" if run.has_our("arch") else run.text("activation_fn")
    if here is None:
        return None
    change = "--activation-fn relu"
    return finding("relu", here, here == "relu", Weight.UNKNOWN, "another network", change)


# Section 6.1: averaging, search, BLEU

NEWSTEST2014 = 3_003  # sentences
STOCKS_MULTIPLE = 8  # stock fairseq's default of --required-batch-size-multiple
TRACKER = "tensor2tensor#317"
OF_SACREBLEU = {  # by its tokenizer, what its figure is beside the paper's measure
    "13a": "the authors' base model has 27.52 by sacreBLEU and 29.02 by their script",
    "intl": "the authors' base model has 28.33 by sacreBLEU's intl and 29.02 by their script",
}
QUOTES_KEPT = (
    "depends on how many quotes are not ASCII; the demo has 24.29 with quotes kept, 24.23 with "
    "ASCII quotes (docs/deviations.md)"
)


@aspect("averaging")
def _averaging(run: Evidence, row: Row) -> Finding | None:
    if run.averaged is None:
        return None
    wanted = averaged_of(row, run.subset)
    paper = f"the last {wanted} checkpoints" if wanted > 1 else "none"
    here = f"the last {run.averaged}" if run.averaged > 1 else "none"
    change = f"aiayn average --last {wanted}" if wanted > 1 else "the last checkpoint itself"
    same = run.averaged == wanted
    effect = f"averaging gains up to 1 BLEU, usually less ({TRACKER})"
    return finding(paper, here, same, Weight.MEDIUM, effect, change)


@aspect("beam")
def _beam(run: Evidence, row: Row) -> Finding | None:
    return number_finding(run.search, "beam", decoding(row).beam, Weight.SMALL, "another search")


@aspect("α")
def _alpha(run: Evidence, row: Row) -> Finding | None:
    return number_finding(run.search, "lenpen", decoding(row).alpha, Weight.SMALL, "another search")


@aspect("length penalty")
def _length_penalty(run: Evidence, row: Row) -> Finding | None:
    ways = "log P / ((5 + |Y|)/6)^α", "log P / |Y|^α"
    effect = "the same α means something else; BLEU of one model 22.45 and 22.46 (row tiny)"
    return choice(run.is_our_search, *ways, Weight.SMALL, effect, f"--task {task_of(row)}")


@aspect("end of the search")
def _end_of_search(run: Evidence, row: Row) -> Finding | None:
    ways = "when no open hypothesis can win any more", "when k hypotheses are finished"
    effect = "a better hypothesis can be missed"
    return choice(run.is_our_search, *ways, Weight.SMALL, effect, f"--task {task_of(row)}")


@aspect("longest output")
def _longest_output(run: Evidence, row: Row) -> Finding | None:
    a, b = (as_number(run.search.get(name)) for name in ("max_len_a", "max_len_b"))
    if a is None or b is None:
        return None
    extra = decoding(row).extra_length
    paper = f"the sentence's own input + {extra}"
    change = f"--task {task_of(row)} --max-len-a 1 --max-len-b {extra}"
    if (a, b) == (1, extra) and run.is_our_search:
        return Finding(paper, paper)
    effect = "longer outputs are cut"
    if a == 0:
        here = f"{b:g}"
    elif run.is_our_search:
        here = f"{a:g} x the sentence's own input + {b:g}"
    else:
        here = f"{a:g} x the longest input of the batch + {b:g}"
        effect = "a translation depends on the batch that it is in"
    return Finding(paper, here, Weight.SMALL, effect, change)


@aspect("test set")
def _test_set(run: Evidence, row: Row) -> Finding | None:
    if not run.search:
        return None
    if run.is_our_search is None and run.translated is None:
        return None
    default = STOCKS_MULTIPLE if run.is_our_search is False else 1
    multiple = as_number(run.search.get("required_batch_size_multiple")) or default
    here = "every sentence" if run.translated is None else f"{run.translated:,} sentences"
    is_newstest2014 = run.corpus in (EN_DE, EN_FR) and run.subset == "test"
    is_short = is_newstest2014 and (run.translated or NEWSTEST2014) < NEWSTEST2014
    may_drop = multiple > 1 and run.translated != NEWSTEST2014
    effect = "sentences of the test set are left out, which makes it another test set"
    if is_short:
        here += f" of newstest2014's {NEWSTEST2014:,}"
    elif may_drop:
        here += f", batches in multiples of {multiple:g}"
        effect = f"up to {multiple - 1:g} sentences are left out"
    change = "--required-batch-size-multiple 1" if multiple > 1 else ""
    same = not is_short and not may_drop
    return finding("every sentence", here, same, Weight.SMALL, effect, change)


@aspect("text that is scored")
def _pieces(run: Evidence, row: Row) -> Finding | None:
    is_parser = not row.shared_vocabulary or run.search.get("task") == PARSING_TASK
    options = [name for name in ("post_process", "remove_bpe") if name in run.search]
    if is_parser or (run.has_subwords is None and not options):
        return None  # a parser is scored by its trees and has no BLEU
    joined = any(run.search[name] for name in options)
    if run.has_subwords is not None:
        joined = not run.has_subwords
    effect = "BLEU of byte pairs or word pieces is far higher than BLEU of words"
    here = "pieces joined to words" if joined else "as pieces"
    change = "--post-process subword_nmt or sentencepiece"
    return finding("words", here, joined, Weight.LARGE, effect, change)


@aspect("BLEU")
def _bleu(run: Evidence, row: Row) -> Finding | None:
    """Read a signature of sacreBLEU or of `aiayn bleu`, or a line of fairseq's."""
    if run.signature is None:
        return None
    parts = dict(re.findall(r"([a-z]+)[:.]([^|+ ]+)", run.signature))
    tokens = parts.get("tok", "")
    is_moses = tokens.startswith("sacremoses-")
    given = run.search.get("target_lang") or run.text("target_lang")
    language = tokens.rpartition("-")[2] if is_moses else given
    paper = "cased, of Moses tokens"
    if language in ("de", None):  # None: not known
        paper += ", Unicode quotes as ASCII, German compounds split"
    if is_moses:
        same = language != "de" or parts.get("quotes") == "ascii"
        change = "aiayn bleu --quotes ascii"
        return finding(paper, run.signature, same, Weight.UNKNOWN, QUOTES_KEPT, change)
    effect = OF_SACREBLEU.get(tokens, "without the splitting 0.7 to 1 lower")
    if language != "de":
        effect = f"English-German: {effect}"
    if parts.get("case") == "lc":
        effect += "; without case 0.5 higher"
    return Finding(paper, run.signature, Weight.LARGE, f"{effect} ({TRACKER})", "aiayn bleu")
