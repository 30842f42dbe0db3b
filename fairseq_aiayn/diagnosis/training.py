"""How a training was done, beside section 5: batch, steps, Adam, learning rate, regularization."""

from __future__ import annotations

import math
import re

from fairseq_aiayn.diagnosis.evidence import Evidence, as_number
from fairseq_aiayn.diagnosis.finding import Aspect, Finding, Weight, compare, number_aspect
from fairseq_aiayn.paper import ADAM, BASE, D_DROP0, D_LS0, Row, learning_rate
from fairseq_aiayn.settings import OURS, TOLERANCE, batch, option, task_of

# The target tokens of a batch are fewer than its --max-tokens: sides differ, and padding counts
FULL = 0.75
HALF = 0.5
TOKENS_OF_A_SENTENCE = 28  # about the mean of WMT14 in subwords
SMALL_BATCH = (
    "base with 4,096 tokens: 26.57, with 3,072: 25.15, after 500,000 updates (tensor2tensor#129); "
    "tiny with a quarter of its batch: 0.66 instead of 23.30 (docs/diagnosis.md)"
)
LARGE_BATCH = "it needs another learning rate"
UPDATES = "base: 27.0 after 100,000, 27.4 after 200,000, 27.5 after 300,000 (tensor2tensor#444)"
EARLY = "fewer than this, which costs little where the development loss no longer falls"
NO_PATIENCE = -1  # fairseq's default: never stop early

SAME_RATE = 0.05  # a peak no further from the paper's is the same
OUR_RATE = "aiayn_inverse_sqrt"
ADAMS = {"adam", "aiayn_adam"}

CHOSEN = "chosen on section 22"  # the development set


def _batch(found: Evidence, row: Row) -> Finding | None:
    gpus = max(1, int(found.gpus or found.number("distributed_world_size") or 1))
    size = _update_size(found, gpus)
    if size is None:
        return None
    tokens, least, here = size
    change = _batch_options(row, gpus, found.number("max_tokens"))
    if _batch_size(found):
        change += ", without --batch-size"
    ratio = tokens / row.batch_tokens
    weight = Weight.LARGE if ratio < HALF else Weight.MEDIUM if ratio < least else Weight.UNKNOWN
    effect = f"{ratio:.2f} of this batch; {SMALL_BATCH if ratio < 1 else LARGE_BATCH}"
    return compare(
        f"about {row.batch_tokens:,} target tokens per update",
        here,
        least <= ratio <= 1 + TOLERANCE,
        weight,
        effect,
        change,
    )


def _update_size(found: Evidence, gpus: int) -> tuple[float, float, str] | None:
    """Return an update's target tokens, the share of the paper's that is enough, and their source.

    The log's statistics decide. Otherwise --max-tokens and --batch-size both limit a batch.
    """
    if found.tokens_per_update:
        return found.tokens_per_update, FULL, f"{found.tokens_per_update:,.0f}, by the log"
    every = int(found.number("update_freq") or 1)
    updates = f"{gpus} GPUs, --update-freq {every}"
    longest = found.number("max_tokens") or math.inf
    sentences = _batch_size(found) or math.inf
    if sentences * TOKENS_OF_A_SENTENCE < longest:
        tokens = sentences * TOKENS_OF_A_SENTENCE * gpus * every
        limit = f"--batch-size {sentences:g} with {TOKENS_OF_A_SENTENCE} tokens a sentence"
        return tokens, FULL, f"about {tokens:,.0f}: {limit}, {updates}"
    if longest < math.inf:
        tokens = longest * gpus * every
        here = f"at most {tokens:,.0f}: --max-tokens {longest:g}, {updates}"
        return tokens, 1 - TOLERANCE, here
    return None


def _batch_size(found: Evidence) -> float | None:
    """Return a batch's largest number of sentences, which is max_sentences before fairseq 0.10."""
    return found.number("batch_size") or found.number("max_sentences")


def _batch_options(row: Row, gpus: int, longest: float | None) -> str:
    """Return the options that give the paper's batch on so many GPUs."""
    try:
        tokens, every = batch(row, gpus, int(longest) if longest else None)
    except ValueError:  # no whole number of such batches comes near
        tokens, every = batch(row, gpus)
    return f"--max-tokens {tokens} --update-freq {every}"


def _batches(found: Evidence, row: Row) -> Finding | None:
    task = found.text("task")
    if task is None:
        return None
    paper = "pairs of nearly one length on both sides"
    if task.startswith(OURS):
        return Finding(paper, paper)
    effect = (
        "fewer tokens for the same --max-tokens; BLEU 22.03 against 23.17 (p = 0.04) after 1,450 "
        "updates of tiny (docs/results.md#ablation_tiny)"
    )
    return Finding(paper, "by source length", Weight.UNKNOWN, effect, f"--task {task_of(row)}")


def _updates(found: Evidence, row: Row) -> Finding | None:
    if found.updates is None:
        return None
    ratio = found.updates / row.steps
    same = abs(ratio - 1) <= TOLERANCE
    patience = found.number("patience") or NO_PATIENCE
    weight = Weight.LARGE if ratio < HALF else Weight.MEDIUM
    effect = f"{'fewer' if ratio < 1 else 'more'} than this; {UPDATES}"
    change = f"--max-update {row.steps}"
    if ratio < 1 and patience > 0:
        weight, change = Weight.UNKNOWN, f"--patience {NO_PATIENCE}"
        effect = f"{EARLY}; --patience {patience:g} may have ended it"
    return compare(f"{row.steps:,}", f"{found.updates:,}", same, weight, effect, change)


def _rate(found: Evidence, row: Row) -> Finding | None:
    schedule = found.text("lr_scheduler")
    if schedule is None:
        return None
    peak = learning_rate(row.warmup, row.d_model, row.warmup, row.lr_factor)
    paper, ours = f"Equation 3, {peak:.3g} at its peak", f"--lr-scheduler {OUR_RATE}"
    if schedule not in ("inverse_sqrt", OUR_RATE):
        return Finding(paper, schedule, Weight.LARGE, "another schedule", ours)
    here, change = _peak(found, schedule), f"--lr {peak:.9g}, or {ours}"
    if not here:
        return None
    # A longer warm-up has a lower peak, but the same rate after it; it is an aspect of its own
    ratio = here * math.sqrt((found.number("warmup_updates") or row.warmup) / row.warmup) / peak
    weight = Weight.UNKNOWN if HALF <= ratio <= 1 / HALF else Weight.LARGE
    effect = f"{ratio:.2f} of the paper's rate after the warm-up"
    same = abs(ratio - 1) <= SAME_RATE
    return compare(paper, f"{schedule}, {here:.3g} at its peak", same, weight, effect, change)


def _peak(found: Evidence, schedule: str) -> float | None:
    """Return the highest learning rate."""
    if schedule != OUR_RATE:
        return found.number("lr")
    warmup, d_model = found.number("warmup_updates"), found.number("encoder_embed_dim")
    factor = found.number("lr_factor")
    if not warmup or not d_model:
        return None
    return learning_rate(int(warmup), int(d_model), int(warmup), factor or 1.0)


def _adam(found: Evidence, row: Row) -> Finding | None:
    optimizer, betas = found.text("optimizer"), found.text("adam_betas")
    if optimizer is None:
        return None
    wanted = (ADAM.beta_1, ADAM.beta_2, ADAM.epsilon)
    paper = f"Adam, β1 {ADAM.beta_1:g}, β2 {ADAM.beta_2:g}, ε {ADAM.epsilon:g}"
    change = f"--optimizer adam --adam-betas {ADAM.beta_1},{ADAM.beta_2} --adam-eps {ADAM.epsilon}"
    if optimizer not in ADAMS or betas is None:
        return compare(paper, optimizer, False, Weight.LARGE, "another optimizer", change)
    here = (*map(as_number, re.findall(r"[\d.e-]+", betas)), found.number("adam_eps"))
    known = len(here) == 3 and None not in here
    text = "Adam, β1 {:g}, β2 {:g}, ε {:g}".format(*here) if known else f"Adam, {betas}"
    return compare(paper, text, here == wanted, Weight.UNKNOWN, "other constants", change)


def _dropout(found: Evidence, row: Row) -> Finding | None:
    here = found.number("dropout")
    if here is None:
        return None
    if here and not row.shared_vocabulary:  # a parser's (section 6.3)
        return Finding(CHOSEN, f"{here:g}")
    effect, weight = "another regularization", Weight.MEDIUM
    if here == 0:
        loss = BASE.published.bleu - D_DROP0.published.bleu
        effect, weight = f"{loss:.1f} BLEU less for base (Table 3, row D)", Weight.LARGE
    change = f"--dropout {row.P_drop}"
    return compare(f"{row.P_drop:g}", f"{here:g}", here == row.P_drop, weight, effect, change)


def _other_dropout(found: Evidence, row: Row) -> Finding | None:
    of_attention, inside = "attention_dropout", ("activation_dropout", "relu_dropout")
    given = {name: value for name in (of_attention, *inside) if (value := found.number(name))}
    here = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in given.items())
    if row.shared_vocabulary:
        paper, wrong = "none", list(given)
        effect = "the paper has none in attention weights or within the feed-forward network"
    else:  # a parser's (section 6.3)
        paper = f"in attention weights, {CHOSEN}; otherwise none"
        wrong = [name for name in inside if name in given]
        effect = "the paper has none within the feed-forward network"
    change = " ".join(f"{option(name)} 0" for name in wrong)
    return compare(paper, here or "none", not wrong, Weight.UNKNOWN, effect, change)


def _smoothing(found: Evidence, row: Row) -> Finding | None:
    criterion = found.text("criterion")
    here = 0.0 if criterion == "cross_entropy" else found.number("label_smoothing")
    if here is None:
        return None
    effect = "another loss: perplexities do not compare either"
    if here == 0:
        loss = BASE.published.bleu - D_LS0.published.bleu
        effect = f"{loss:.1f} BLEU less for base, perplexity better (Table 3, row D)"
    change = f"--criterion aiayn_label_smoothed_cross_entropy --label-smoothing {row.epsilon_ls:g}"
    same = here == row.epsilon_ls
    return compare(f"{row.epsilon_ls:g}", f"{here:g}", same, Weight.MEDIUM, effect, change)


def _smoothed_over(found: Evidence, row: Row) -> Finding | None:
    kinds = {
        "label_smoothed_cross_entropy": "ε/(K - 1) over the other types",
        "aiayn_label_smoothed_cross_entropy": "ε/K over all K types",
    }
    here = kinds.get(found.text("criterion") or "")
    paper = kinds["aiayn_label_smoothed_cross_entropy"]
    return here and compare(paper, here, here == paper, Weight.NONE, "negligible for large K")


def _precision(found: Evidence, row: Row) -> Finding | None:
    if "fp16" not in found.options:
        return None
    kinds = [name for name in ("fp16", "bf16", "amp") if found.options.get(name) is True]
    autocast = found.text("autocast")
    here = " and ".join(kinds) or (f"autocast {autocast}" if autocast else "single")
    if found.gave_up_scaling:
        effect = "training stopped; mostly it had diverged before (fairseq#2488, #512)"
        change = "a smaller --lr, a longer warm-up, a larger batch, --clip-norm 1; --bf16"
        text = f"{here}, minimum loss scale reached"
        return Finding("single", text, Weight.LARGE, effect, change)
    if found.overflows:
        share = found.overflows / max(1, (found.updates or 0) + found.overflows)
        text = f"{here}, {found.overflows:,} updates left out"
        weight = Weight.SMALL if share < 0.01 else Weight.MEDIUM
        effect = f"{share:.1%} of the updates overflowed; some at the start are normal"
        return Finding("single", text, weight, effect, "--bf16 where the GPU has it")
    if "amp" in kinds:
        effect = "fairseq divides gradients by the loss scale twice: Adam's ε counts for far more"
        return Finding("single", here, Weight.UNKNOWN, effect, "--fp16 or --bf16 instead")
    return Finding("single", here)


TRAINING = (
    Aspect(
        "batch",
        ("max_tokens", "batch_size", "max_sentences", "update_freq", "distributed_world_size"),
        _batch,
    ),
    Aspect("batches", ("task",), _batches),
    Aspect("updates", ("max_update", "patience"), _updates),
    Aspect(
        "learning rate",
        ("lr_scheduler", "lr", "lr_factor", "warmup_updates", "encoder_embed_dim"),
        _rate,
    ),
    number_aspect(
        "warm-up",
        "warmup_updates",
        lambda row: row.warmup,
        Weight.UNKNOWN,
        "negligible, or crucial where it prevents divergence (tensor2tensor#991)",
    ),
    Aspect("Adam", ("optimizer", "adam_betas", "adam_eps"), _adam),
    number_aspect(
        "clipping", "clip_norm", lambda row: 0, Weight.UNKNOWN, "the paper has no clipping"
    ),
    number_aspect(
        "weight decay", "weight_decay", lambda row: 0, Weight.UNKNOWN, "the paper has none", 0
    ),
    Aspect("dropout", ("dropout",), _dropout),
    Aspect(
        "other dropout", ("attention_dropout", "activation_dropout", "relu_dropout"), _other_dropout
    ),
    Aspect("label smoothing", ("criterion", "label_smoothing"), _smoothing),
    Aspect("spread of the smoothing", ("criterion",), _smoothed_over),
    Aspect("precision", ("fp16", "bf16", "amp", "autocast"), _precision),
)
