"""Batch, learning rate and updates (sections 5.1 to 5.3), which are judged together."""

from __future__ import annotations

import math

from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.diagnosis.findings import Finding, Here, Weight, compare, tokens_of_a_gpu, whole
from fairseq_aiayn.paper import OWN, Row, learning_rate
from fairseq_aiayn.settings import FIRST_RATE, LONG_SENTENCE, TOLERANCE, option

FULL = 0.75  # a batch has fewer target tokens than --max-tokens, which counts padding
HALF = 0.5
SENTENCES = ("batch_size", "max_sentences")  # of a batch, at most; since fairseq 0.10, and before
OF_A_SENTENCE = 28  # tokens, about the mean of WMT14 in subwords
FALLING = 0.01  # bits per token
SAME_RATE = 0.05  # peaks within 5% of the paper's count as equal
RECIPE = "a known good recipe (Ott et al. 2018)"
OUR_RATE = "aiayn_inverse_sqrt"
# What was measured on English-German
SMALL_BATCH = "base had BLEU 26.57 on one GPU, 25.15 with 3,072 tokens (tensor2tensor#129)"
UPDATES = "base: 27.0 after 100,000, 27.4 after 200,000, 27.5 after 300,000 (tensor2tensor#444)"
EARLY = "fewer updates than this, which costs little where the development loss no longer falls"


def judge_regime(run: Evidence, row: Row, failed: bool) -> Finding | None:
    """Return what batch, rate and updates mean together; if the loss of the training failed, its
    rate counts most."""
    judged = (_batch(run, row, failed), _rate(run, row, failed), _updates(run, row))
    parts = [part for part in judged if part]
    unequal = [part for part in parts if part.differs] or parts
    if not unequal:
        return None
    changes = [part.change for part in unequal if part.weight and part.change]
    command = next((change for change in changes if not change.startswith("--")), None)
    return Finding(
        "; ".join(part.paper for part in unequal),
        "; ".join(part.here for part in unequal),
        max(part.weight for part in unequal),
        "; ".join(part.effect for part in unequal if part.effect),
        command or " ".join(changes),
    )


def smaller_rate(run: Evidence, row: Row) -> str:
    """Return options for a rate as the paper's, or half the rate if it is not above that; empty if
    no file says it; of a Transformer with another optimizer, the whole command of stock fairseq."""
    if run.is_transformer and run.text("optimizer") and run.is_ours("optimizer") is None:
        return whole(run, row, "stock")
    name, given, papers, ratio = _rates(run, row)
    better = papers if ratio > 1 + SAME_RATE else given / 2
    return f"{option(name)} {better:.9g}" if given else ""


def _tokens(run: Evidence) -> tuple[float, str]:
    """Return the target tokens per update (0 if unknown) and their source."""
    if run.tokens_per_update:
        return run.tokens_per_update, "the log"
    max_tokens = run.number("max_tokens") or 0
    sentences = next(filter(None, map(run.number, SENTENCES)), 0)
    of_sentences = (sentences * OF_A_SENTENCE, f"--batch-size {sentences:g}")
    limits = (max_tokens, f"--max-tokens {max_tokens:g}"), of_sentences
    limit, source = min((pair for pair in limits if pair[0]), default=(0, ""))
    every = int(run.number("update_freq") or 1)
    return limit * run.devices * every, f"{source}, {run.devices} GPUs, --update-freq {every}"


def _batch(run: Evidence, row: Row, failed: bool) -> Finding | None:
    tokens, source = _tokens(run)
    if not tokens:
        return None
    ratio = tokens / row.batch_tokens
    here: Here = FULL <= ratio <= 1 + TOLERANCE or f"{tokens:,.0f}, by {source}"
    weight, effect = Weight.LARGE if ratio < HALF else Weight.MEDIUM, f"{ratio:.2f} of this batch"
    if ratio < 1 and run.is_papers_pair:
        effect += f": {SMALL_BATCH}"
    if ratio > 1:
        goes_with = 1 - SAME_RATE <= _rates(run, row)[3] <= ratio
        weight = Weight.NONE if failed or goes_with else Weight.UNKNOWN
        known = f", with its rate {RECIPE}" if goes_with else ", it needs a higher rate"
        effect += "" if failed else known
    paper = f"about {row.batch_tokens:,} target tokens per update"
    return compare(paper, here, effect, as_batch(run, row), weight)


def as_batch(run: Evidence, row: Row) -> str:
    """Return options that give the row's batch by `tokens_of_a_gpu`; of a model that is compared
    with no row those that give its own, half of it at a time; none if unknown, or as the run's."""
    if not (run.is_transformer and run.is_seq2seq):
        given = ((name, run.number(name)) for name in ("max_tokens", *SENTENCES))
        halves = {name: limit // 2 for name, limit in given if limit}
        least = {"max_tokens": run.number("tokens_per_sample") or 1}  # of a language model
        if not halves or any(half < least.get(name, 1) for name, half in halves.items()):
            return ""
        changed = halves | {"update_freq": 2 * (run.number("update_freq") or 1)}
        return " ".join(f"{option(name)} {value:.0f}" for name, value in changed.items())
    had = run.number("max_tokens"), run.number("update_freq") or 1, run.devices
    tokens, every, used = tokens_of_a_gpu(run, row)
    options = f"--max-tokens {tokens} --update-freq {every}"
    if tokens < LONG_SENTENCE:  # which fairseq otherwise refuses in a development set
        options += " --skip-invalid-size-inputs-valid-test"
    if any(map(run.number, SENTENCES)):
        options += f" --max-sentences {tokens}"  # never fewer than the tokens allow
    elif had == (tokens, every, used):
        return ""  # the epochs of a small text end in small batches
    return f"{options} --distributed-world-size {used}" if used < run.devices else options


def _updates(run: Evidence, row: Row) -> Finding | None:
    """Judge the updates, of a running training those asked for; a larger batch needs fewer."""
    is_done = run.is_finished is not False
    updates = run.updates if is_done else run.number("max_update")
    if not updates:
        return None
    size, ratio = _tokens(run)[0] / row.batch_tokens, updates / row.steps
    is_same = abs(ratio - 1) <= TOLERANCE or (ratio < 1 and ratio * size >= 1 - TOLERANCE)
    here: Here = is_same or f"{updates:,.0f} updates{'' if is_done else ' asked for'}"
    weight = Weight.LARGE if ratio * max(1, size) < HALF else Weight.MEDIUM
    effect = f"{'fewer' if ratio < 1 else 'more'} updates" + f"; {UPDATES}" * run.is_papers_pair
    change = f"--max-update {row.steps}{' --max-epoch 0' * bool(run.number('max_epoch'))}"
    if ratio < 1 and (patience := run.number("patience") or 0) > 0:
        weight, effect = Weight.UNKNOWN, f"{EARLY}; --patience {patience:g} may have ended it"
        change = "--patience -1"
    elif ratio < 1 and still_falls(run) is False and updates > (run.number("warmup_updates") or 0):
        weight, effect = Weight.UNKNOWN, f"{EARLY}, as here"
    if run.fits and row not in OWN:  # what fits the text is said with it
        weight, change = Weight.UNKNOWN, ""
    return compare(f"{row.steps:,} updates", here, effect, change, weight)


def still_falls(run: Evidence) -> bool | None:
    """Return whether the development loss fell in the last fifth; None if that is not known."""
    losses = run.curves["development loss"]
    points = {update: value for update, value in losses.items() if math.isfinite(value)}
    last = max(points, default=0)
    before = [value for update, value in points.items() if update <= 0.8 * last]
    return min(before) - points[last] > FALLING if before else None


def _peak(row: Row) -> float:
    return learning_rate(row.warmup, row.d_model, row.warmup, row.lr_factor)


def _rate(run: Evidence, row: Row, failed: bool) -> Finding | None:
    """Judge the learning rate after the warm-up; a larger batch may have a higher one."""
    paper, schedule = f"Equation 3, {_peak(row):.3g} at its peak", run.text("lr_scheduler")
    if schedule not in (None, "inverse_sqrt", OUR_RATE):
        change = whole(run, row, "aiayn" if run.is_ours("arch") else "stock")
        return compare(paper, schedule, "another schedule", change, Weight.LARGE)
    name, given, papers, ratio = _rates(run, row)
    if not ratio:
        return None
    change = smaller_rate(run, row) if failed else f"{option(name)} {papers:.9g}"
    if name == "lr" and not failed:
        change += f" --warmup-init-lr {FIRST_RATE} --warmup-updates {row.warmup}"
    here: Here = abs(ratio - 1) <= SAME_RATE or f"{schedule}, {option(name)} {given:g}"
    effect = f"{ratio:.2f} of the paper's rate after the warm-up"
    weight = Weight.UNKNOWN if HALF <= ratio <= 1 / HALF else Weight.LARGE
    if failed:
        effect, weight = f"{effect}, with which the loss failed", Weight.LARGE
    elif 1 < ratio <= _tokens(run)[0] / row.batch_tokens:
        change, effect, weight = "", f"{effect}, with its batch {RECIPE}", Weight.NONE
    return compare(paper, here, effect, change, weight)


def _rates(run: Evidence, row: Row) -> tuple[str, float, float, float]:
    """Return the argument of the rate, its value (0 if unknown) and the paper's, and the rate after
    the warm-up over the paper's (0 if unknown); a longer warm-up has a lower peak."""
    schedule = run.text("lr_scheduler")
    if schedule == OUR_RATE:
        factor = run.number("lr_factor") or 1.0
        return "lr_factor", factor, row.lr_factor, factor / row.lr_factor
    rate, warmup = run.number("lr") or 0.0, run.number("warmup_updates") or row.warmup
    ratio = rate / _peak(row) * math.sqrt(warmup / row.warmup) * (schedule == "inverse_sqrt")
    return "lr", rate, _peak(row), ratio
