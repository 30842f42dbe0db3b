"""What happened in a training: its curves, what was left out, and how far it came."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from fairseq_aiayn.diagnosis.aspects import Weight, still_falls
from fairseq_aiayn.diagnosis.evidence import Evidence

Points = Mapping[int, float]  # values by update

DIVERGED = 0.5  # bits per token above the lowest loss
OVERFIT = 0.05
GAP = 2  # bits per token
FLAT_PERPLEXITY = 50  # that no trained Transformer has: the model knows how frequent words are
FLAT = 0.1  # bits per token from the middle of the training on
WINDOWS = 20  # into which a curve of more points is divided; their medians are less noisy
SPIKE = 10  # gradient norms above this are not a converging Transformer's
WMT14_PAIRS = 4_500_000
LESS = "a smaller --lr, a longer warm-up or a larger batch; go back to a checkpoint before"


@dataclass(frozen=True)
class Event:
    """Something that happened in a training, and what to change."""

    text: str
    weight: Weight = Weight.NONE
    change: str = ""


def events(run: Evidence) -> list[Event]:
    """Return what happened, the heaviest first."""
    judged = [*_loss(run), *_scale(run), *_left_out(run), *_updates(run), *_course(run)]
    return sorted(judged, key=lambda event: -event.weight)


def smoothed(points: Points) -> dict[int, float]:
    """Return the finite values, of a long curve the medians of its windows by their last update."""
    finite = [(update, value) for update, value in points.items() if math.isfinite(value)]
    size = max(1, len(finite) // WINDOWS)
    windows = [finite[start : start + size] for start in range(0, len(finite), size)]
    return {window[-1][0]: median(value for _, value in window) for window in windows}


def _loss(run: Evidence) -> Iterator[Event]:
    """Yield the first of these that is so: not a number, diverged, overfitted, flat."""
    for name in ("loss", "perplexity", "development loss"):
        points = run.curves.get(name, {})
        wrong = [update for update, value in points.items() if not math.isfinite(value)]
        if wrong:
            until = "on" if wrong[-1] == list(points)[-1] else f"{max(wrong):,}"
            text = f"the {name} is not a number from update {min(wrong):,} {until}"
            yield Event(text, Weight.LARGE, LESS)
            return
    training, development = (
        smoothed(run.curves.get(name, {})) for name in ("loss", "development loss")
    )
    yield from _rise(training, development) or _flat(run, training)


def _rise(training: Points, development: Points) -> list[Event]:
    """Return how the loss rose again: with that of the training it diverged, else it overfitted."""
    for name, points in (("development loss", development), ("training loss", training)):
        if len(points) < 2:
            continue
        best, last = min(points, key=points.__getitem__), [*points][-1]
        lowest, end = points[best], points[last]
        rose = f"the {name} rose from {lowest:g} at update {best:,} to {end:g} at {last:,}"
        before = [value for update, value in training.items() if update <= best][-1:]
        fell = before[0] - list(training.values())[-1] if before else 0
        learns = fell > max(OVERFIT, (end - lowest) / 4)
        if name == "development loss" and learns and end > lowest + OVERFIT:
            change = "the checkpoint of that update; more dropout, more text, --patience"
            text = f"overfitted: {rose}, while that of the training fell"
            return [Event(text, Weight.LARGE if end > lowest + DIVERGED else Weight.MEDIUM, change)]
        if end > lowest + DIVERGED:
            return [Event(f"diverged: {rose}", Weight.LARGE, LESS)]
    return []


def _flat(run: Evidence, training: Points) -> list[Event]:
    perplexity = smoothed(run.curves.get("perplexity", {})) or smoothed(
        run.curves.get("development perplexity", {})
    )
    values = list(perplexity.items())
    last = values[-1] if values else (0, 1.0)
    if last[1] < FLAT_PERPLEXITY or last[0] <= (run.number("warmup_updates") or 0):
        return []
    middle, value = values[len(values) // 2]
    if len(values) < 3 or math.log2(value / last[1]) > FLAT:
        return []
    text = f"flat: perplexity {value:,.0f} at update {middle:,}, {last[1]:,.0f} at {last[0]:,}"
    change = f"{LESS}; look whether the lines of both languages belong together"
    return [Event(f"{text}; little but the frequency of words is learned", Weight.LARGE, change)]


def _updates(run: Evidence) -> Iterator[Event]:
    """Yield how many updates were done of those that were asked for, and how it ended."""
    if run.error:
        yield Event(f"ended with {run.error[:100]}", Weight.LARGE)
    if run.starts > 1:
        yield Event(f"started {run.starts} times, the later from its own checkpoints")
    if run.first_update:
        yield Event(f"the file begins after update {run.first_update:,}")
    if run.updates is None or run.is_finished is None:
        return
    asked = run.number("max_update")
    text = f"{run.updates:,} updates" + (f" of {asked:,.0f}" if asked else "")
    if run.epochs:
        epochs = run.number("max_epoch")
        text += f", {run.epochs} epoch{'s' * (run.epochs > 1)}"
        text += f" of {epochs:g}" if epochs else ""
    text += ", finished" if run.is_finished else ", still running or broken off"
    if run.tokens_per_update:
        text += f"; {run.tokens_per_update:,.0f} target tokens an update"
        if speed := [value for value in run.curves.get("speed", {}).values() if value > 0]:
            text += f", {run.tokens_per_update / median(speed):.2g} s each"
    yield Event(text)


def _left_out(run: Evidence) -> Iterator[Event]:
    if run.skipped:
        share = run.skipped / (run.examples or max(run.skipped, WMT14_PAIRS))
        of_all = f" of {run.examples:,}" if run.examples else ""
        text = f"{run.skipped:,} training pairs{of_all} were left out as too long"
        change = "look at the first of them; --max-source-positions, --max-target-positions"
        yield Event(text, by_share(share), change)
    if run.lost_batches:
        share = run.lost_batches / max(1, run.updates or 0)
        text = f"{run.lost_batches:,} batches were lost for want of memory, the longest first"
        yield Event(text, by_share(share), "a smaller --max-tokens with a larger --update-freq")
    if run.missing:
        text = f"{run.missing:,} sentences of the test set were not translated"
        yield Event(text, Weight.MEDIUM, "--required-batch-size-multiple 1")


def by_share(share: float) -> Weight:
    """Return the weight of what was left out, by its share of everything."""
    return Weight.LARGE if share > 0.05 else Weight.MEDIUM if share > 0.01 else Weight.SMALL


def _scale(run: Evidence) -> Iterator[Event]:
    """Yield the overflows of a training in float16, and gradients that are too large."""
    if run.gave_up_scaling:
        text = "the minimum loss scale was reached: mostly it had diverged before"
        yield Event(f"{text} (fairseq#2488, #512)", Weight.LARGE, f"{LESS}; --clip-norm 1, --bf16")
    elif run.overflows:
        share = run.overflows / ((run.updates or 0) + run.overflows)
        weight = Weight.MEDIUM if share > 0.01 else Weight.SMALL
        text = f"{run.overflows:,} updates ({share:.1%}) overflowed and were left out"
        change = "--bf16 where the GPU has it"
        yield Event(f"{text}; some at the start are normal", weight, change)
    scales = list(run.curves.get("loss scale", {}).values())
    if scales and scales[-1] < 1:
        yield Event(f"the loss scale fell to {scales[-1]:g}", Weight.MEDIUM, LESS)
    norms = smoothed(run.curves.get("gradient norm", {}))
    update = max(norms, key=norms.__getitem__, default=0)
    if norms and norms[update] > SPIKE:
        text = f"the gradient norm was {norms[update]:,.1f} about update {update:,}"
        if update <= (run.number("warmup_updates") or 0):
            yield Event(text)
        else:
            yield Event(text, Weight.UNKNOWN, "--clip-norm 1")


def _course(run: Evidence) -> Iterator[Event]:
    points = smoothed(run.curves.get("development loss", {}))
    training = list(smoothed(run.curves.get("loss", {})).values())[-1:]
    if points and training and min(points.values()) > training[0] + GAP:
        text = f"the development loss was never below {min(points.values()):g}, the training's is "
        change = "look whether both texts were prepared alike; more dropout, more text"
        yield Event(f"{text}{training[0]:g}", Weight.LARGE, change)
    if points and run.is_finished and still_falls(run):
        yield Event(f"the development loss, {list(points.values())[-1]:g}, still fell at the end")
