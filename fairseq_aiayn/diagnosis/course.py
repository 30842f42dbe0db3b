"""What happened in a training: its curves, what was left out, and how far it came."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from fairseq_aiayn.diagnosis.aspects import Weight, still_falls
from fairseq_aiayn.diagnosis.evidence import Evidence, LeftOut
from fairseq_aiayn.runs.logs import Points

DIVERGED = 0.5  # bits per token above the lowest loss
OVERFIT = 0.05
GAP = 2  # bits per token
FLAT_PERPLEXITY = 50  # that no trained Transformer has: the model knows how frequent words are
FLAT = 0.1  # bits per token from the middle of the training on
WINDOWS = 20  # into which a curve of more points is divided; their medians are less noisy
SPIKE = 10  # gradient norms above this are not a converging Transformer's
WMT14_PAIRS = 4_500_000
LESS = "a smaller --lr, a longer warm-up or a larger batch; resume from a checkpoint before it"
PREPARED = "look whether the lines of both languages belong together and were prepared alike"
MULTIPLE = "--required-batch-size-multiple"
LOOK = "look at the first of them"
# What a log says, in the words of all versions of fairseq from 0.8 on
OVERFLOW = re.compile("overflow detected")
LOST_BATCH = re.compile(r"recover from OOM in forward|memory, skipping|(?m:^ ?Skipping batch)")
GAVE_UP = "Minimum loss scale reached"
ERROR = re.compile(
    r"^(?:\S+ )*?((?:[\w.]+(?:Error|Exception)\b|\S+ error:|Killed|Segmentation|KeyboardInt).*)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Event:
    """Something that happened in a training, and what to change."""

    text: str
    weight: Weight = Weight.NONE
    change: str = ""


def events(run: Evidence) -> list[Event]:
    """Return what happened, the heaviest first."""
    judged = [*_loss(run), *_scale(run), *_left_out(run), *_progress(run)]
    return sorted(judged, key=lambda event: -event.weight)


def smoothed(points: Points) -> dict[int, float]:
    """Return the finite values, of a long curve the medians of its windows by their last update."""
    finite = [(update, value) for update, value in points.items() if math.isfinite(value)]
    size = max(1, len(finite) // WINDOWS)
    windows = [finite[start : start + size] for start in range(0, len(finite), size)]
    return {window[-1][0]: median(value for _, value in window) for window in windows}


def _loss(run: Evidence) -> Iterator[Event]:
    """Yield what is wrong with the losses; only the first where one is not a number."""
    for name in ("loss", "perplexity", "development loss"):
        points = run.curves.get(name, {})
        wrong = [update for update, value in points.items() if not math.isfinite(value)]
        if wrong:
            until = "on" if wrong[-1] == [*points][-1] else f"to {wrong[-1]:,}"
            text = f"the {name} is not a number from update {wrong[0]:,} {until}"
            yield Event(text, Weight.LARGE, LESS)
            return
    curves = [smoothed(run.curves.get(name, {})) for name in ("loss", "development loss")]
    training, development = ([*curve.values()] for curve in curves)
    yield from [*_rise(*curves)][:1] or _flat(run)
    if training and development and min(development) > training[-1] + GAP:
        text = f"the development loss was never below {min(development):g}, the training's is "
        yield Event(f"{text}{training[-1]:g}", Weight.LARGE, f"{PREPARED}; more dropout, more text")


def _rise(training: Points, development: Points) -> Iterator[Event]:
    """Yield how a loss rose again: it overfitted where the other fell, else it diverged."""
    for name, points in (("development loss", development), ("training loss", training)):
        best = min(points, key=points.__getitem__, default=0)
        lowest, (last, end) = points.get(best, 0), [(0, 0), *points.items()][-1]
        text = f"the {name} rose from {lowest:g} at update {best:,} to {end:g} at {last:,}"
        then = [value for update, value in training.items() if update <= best][-1:]
        fell = then[0] - [*training.values()][-1] if then and points is development else 0
        if end - lowest > OVERFIT and fell > max(OVERFIT, (end - lowest) / 4):
            weight = Weight.LARGE if end - lowest > DIVERGED else Weight.MEDIUM
            change = "the checkpoint of that update; more dropout, more text, --patience"
            yield Event(f"overfitted: {text}, while that of the training fell", weight, change)
        elif end - lowest > DIVERGED:
            yield Event(f"diverged: {text}", Weight.LARGE, LESS)


def _flat(run: Evidence) -> Iterator[Event]:
    """Yield that little is learned, where that was so in the middle of a training already."""
    curves = (run.curves.get(name, {}) for name in ("perplexity", "development perplexity"))
    values = [*smoothed(next(filter(None, curves), {})).items()]
    (middle, before), (last, end) = [(0, 0.0), *values][len(values) // 2], [(0, 0.0), *values][-1]
    is_flat = end > FLAT_PERPLEXITY and before < end * 2**FLAT
    if is_flat and len(values) > 2 and last > (run.number("warmup_updates") or 0):
        text = f"flat: perplexity {before:,.0f} at update {middle:,}, {end:,.0f} at {last:,}"
        text += "; little but the frequency of words is learned"
        yield Event(text, Weight.LARGE, f"{LESS}; {PREPARED}")


def _scale(run: Evidence) -> Iterator[Event]:
    """Yield a loss scale and gradients that are not those of a converging training."""
    scales = [*run.curves.get("loss scale", {}).values()]
    if GAVE_UP in run.log.text or (scales and scales[-1] < 1):
        text = "the loss scale became too small: often the loss has diverged before (fairseq#512)"
        yield Event(text, Weight.LARGE, "--clip-norm 1, --bf16 with this plugin, a smaller --lr")
    norms = smoothed(run.curves.get("gradient norm", {}))
    update = max(norms, key=norms.__getitem__, default=0)
    if update > (run.number("warmup_updates") or 0) and norms[update] > SPIKE:
        text = f"the gradient norm was {norms[update]:,.1f} about update {update:,}"
        yield Event(text, Weight.UNKNOWN, "--clip-norm 1")


def _left_out(run: Evidence) -> Iterator[Event]:
    """Yield pairs, batches, updates and sentences of the test set that were left out."""
    lost, overflows = (len(pattern.findall(run.log.text)) for pattern in (LOST_BATCH, OVERFLOW))
    updates = run.updates or 0
    # fmt: off
    for count, everything, text, change in (
        *((one.pairs, one.of or WMT14_PAIRS, *_of_pairs(one)) for one in run.left_out),
        (lost, updates, " batches were lost for want of memory, the longest first",
         "a smaller --max-tokens with a larger --update-freq"),
        (overflows, updates + overflows, " updates overflowed and were left out (some are normal)",
         "--bf16 with this plugin, where the GPU has it"),
        (run.missing, 30 * run.missing, " sentences of the test set were not translated",
         "--required-batch-size-multiple 1"),
    ):
        # fmt: on
        if count:
            share = count / max(1, everything)
            weight = Weight.LARGE if share > 0.05 else Weight.MEDIUM
            yield Event(f"{count:,}{text}", weight if share > 0.01 else Weight.SMALL, change)


def _of_pairs(left_out: LeftOut) -> tuple[str, str]:
    """Return what is said of pairs that were left out, and what to change."""
    of_all = f" of {left_out.of:,}" if left_out.of else ""
    given = " ".join(f"{option} {value}" for option, (value, _) in left_out.limits.items())
    text = f"{of_all} pairs of the {left_out.subset} set were left out"
    changes = []
    for option, (value, longest) in left_out.limits.items():
        changes.append(f"{option} {1 if option == MULTIPLE else longest or f'above {value}'}")
    if "--max-tokens" in left_out.limits:
        changes += ["with a smaller --update-freq or fewer GPUs, for the same batch"]
    return f"{text} by {given}" if given else text, ", ".join(changes) or LOOK


def _progress(run: Evidence) -> Iterator[Event]:
    """Yield how many updates were done of those that were asked for, and how it ended."""
    errors = ERROR.findall("\n".join(run.log.lines[-200:]))
    if errors and not run.is_finished and GAVE_UP not in errors[-1]:
        is_users = re.search(r"^KeyboardInterrupt|error: interrupted$", errors[-1])
        yield Event(f"ended with {errors[-1][:200]}", Weight.NONE if is_users else Weight.LARGE)
    if run.starts > 1:
        yield Event(f"started {run.starts} times, the later from its own checkpoints")
    elif run.log.loaded_update:
        yield Event(f"the file begins after update {run.log.loaded_update:,}")
    if run.updates is None or run.is_finished is None:
        return
    asked, epochs = run.number("max_update"), run.number("max_epoch")
    done = max((int(line["epoch"]) for line in run.log.statistics if "epoch" in line), default=0)
    text = f"{run.updates:,} updates" + (f" of {asked:,.0f}" if asked else "")
    text += f", {done} epoch{'s' if done > 1 else ''}" + (f" of {epochs:g}" if epochs else "")
    text += ", finished" if run.is_finished else ", still running or broken off"
    if run.tokens_per_update:
        text += f"; {run.tokens_per_update:,.0f} target tokens an update"
        if speed := [value for value in run.curves.get("speed", {}).values() if value > 0]:
            text += f", {run.tokens_per_update / median(speed):.2g} s each"
    yield Event(text)
    if run.is_finished and still_falls(run):
        *_, last = run.curves["development loss"].values()
        yield Event(f"the development loss, {last:g}, still fell at the end")
