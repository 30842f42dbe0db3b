"""What happened in a training: its losses, its restarts, what was left out, how far it came."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from fairseq_aiayn.diagnosis.changes import BFLOAT16, SEARCH, whole
from fairseq_aiayn.diagnosis.endings import ending
from fairseq_aiayn.diagnosis.evidence import DEVICES, STOPPED, Evidence
from fairseq_aiayn.diagnosis.findings import Weight
from fairseq_aiayn.diagnosis.regime import as_batch, half_the_tokens, smaller_rate, still_falls
from fairseq_aiayn.paper import OWN, PAIRS_EN_DE, Row
from fairseq_aiayn.runs.logs import Points, Start
from fairseq_aiayn.settings import fitting, option

LOSSES = ("development loss", "loss")
DIVERGED = 0.5  # bits per token above the lowest loss
OVERFIT = 0.05
GAP = 2  # bits per token
FLAT_PERPLEXITY = 50  # that no trained Transformer has: the model knows how frequent words are
FLAT = 0.1  # bits per token from the middle of the training on
WINDOWS = 20  # into which a curve of more points is divided; their medians are less noisy
SPIKE = 10  # gradient norms above this are not a converging Transformer's
MANY = 3  # restarts that are told one by one
# What a log says, in the words of all versions of fairseq from 0.8 on
OVERFLOW = re.compile("overflow detected")
LOST_BATCH = re.compile(r"recover from OOM in forward|memory, skipping|^ ?Skipping batch")
GAVE_UP = re.compile("Minimum loss scale reached")
OUT_OF_MEMORY = re.compile(r"CUDA out of memory|OutOfMemoryError")
STOPS = {"early": "patience", "hours": "stop_time_hours", "learning rate": "stop_min_lr"}
# Options of a start that say where it ran and what it wrote, not how it trained
OF_A_START = re.compile(r"distributed_(?!world_size)|device_id|restore_file|log_|\w*logdir|wandb|_")


@dataclass(frozen=True)
class Event:
    """Something that happened in a training, by a line of its log, and what to type instead."""

    text: str
    weight: Weight = Weight.NONE
    change: str = ""
    line: int = 0  # 0: no one line says it
    blames_rate: bool = False


def events(run: Evidence, row: Row) -> list[Event]:
    """Return what happened, the heaviest first."""
    parts = (_loss(run, row), _scale(run), _left_out(run, row), _progress(run))
    happened = [event for part in (*parts, _trained_on(run, row), _starts(run)) for event in part]
    return sorted(happened, key=lambda event: -event.weight)


def smoothed(points: Points) -> dict[int, float]:
    """Return the finite values, of a long curve the medians of its windows by their last update."""
    finite = [(update, value) for update, value in points.items() if math.isfinite(value)]
    size = max(1, len(finite) // WINDOWS)
    windows = [finite[start : start + size] for start in range(0, len(finite), size)]
    return {window[-1][0]: median(value for _, value in window) for window in windows}


def _loss(run: Evidence, row: Row) -> Iterator[Event]:
    """Yield what is wrong with the losses; only the first where one is not a number."""
    change = smaller_rate(run, row)
    for name in ("loss", "perplexity", "development loss"):
        points = run.curves.get(name, {})
        wrong = [update for update, value in points.items() if not math.isfinite(value)]
        if wrong:
            until = "on" if wrong[-1] == [*points][-1] else f"to {wrong[-1]:,}"
            text = f"the {name} is not a number from update {wrong[0]:,} {until}"
            yield Event(text, Weight.LARGE, change, run.line_of(name, wrong[0]), True)
            return
    if not any(_jump(run, start) for start in run.starts[1:]):
        yield from [*_rise(run, change)][:1] or _flat(run, change)
    # Losses of criteria with more terms do not compare; perplexities are of the target alone
    names = ("perplexity", "development perplexity")
    training, development = (smoothed(run.curves.get(name, {})) for name in names)
    best = min(development, key=development.__getitem__, default=0)
    then = [value for update, value in training.items() if update <= best][-1:]
    if then and len(development) > 1 and development[best] > then[0] * 2**GAP:
        text = f"the development perplexity was at best {development[best]:g}, when that of the"
        text += f" training was {then[0]:g}: look whether the lines of both languages belong"
        text += " together and were prepared alike"
        yield Event(text, Weight.LARGE, line=run.line_of(names[1], best))


def _rise(run: Evidence, change: str) -> Iterator[Event]:
    """Yield how a loss rose again: it overfitted where the other fell, else it diverged."""
    curves = {name: smoothed(run.curves.get(name, {})) for name in LOSSES}
    training = curves["loss"]
    for name, points in curves.items():
        best = min(points, key=points.__getitem__, default=0)
        lowest, (last, end) = points.get(best, 0), [(0, 0), *points.items()][-1]
        text = f"the {'training ' * (name == 'loss')}{name} rose from {lowest:g} at update {best:,}"
        text, line = f"{text} to {end:g} at {last:,}", run.line_of(name, last)
        then = [value for update, value in training.items() if update <= best][-1:]
        fell = then[0] - [*training.values()][-1] if then and points is not training else 0
        if end - lowest > OVERFIT and fell > max(OVERFIT, (end - lowest) / 4):
            weight = Weight.LARGE if end - lowest > DIVERGED else Weight.MEDIUM
            text = f"overfitted: {text}, while that of the training fell"
            yield Event(text, weight, "--patience 10", line)
        elif end - lowest > DIVERGED and run.is_seq2seq:
            yield Event(f"diverged: {text}", Weight.LARGE, change, line, True)


def _flat(run: Evidence, change: str) -> Iterator[Event]:
    """Yield that little is learned, where that was so in the middle of a training already."""
    names = ("perplexity", "development perplexity")
    name = next((name for name in names if run.curves.get(name)), names[0])
    values = [*smoothed(run.curves.get(name, {})).items()]
    (middle, before), (last, end) = [(0, 0.0), *values][len(values) // 2], [(0, 0.0), *values][-1]
    is_flat = end > FLAT_PERPLEXITY and before < end * 2**FLAT
    if is_flat and len(values) > 2 and last > (run.number("warmup_updates") or 0):
        text = f"flat: perplexity {before:,.0f} at update {middle:,}, {end:,.0f} at {last:,}"
        text += "; little but the frequency of words is learned"
        yield Event(text, Weight.LARGE, change, run.line_of(name, last), True)


def _scale(run: Evidence) -> Iterator[Event]:
    """Yield a loss scale and gradients that are not those of a converging training."""
    scales = run.curves.get("loss scale", {})
    last = max(scales, default=0)
    line = next((line for line, _ in run.log.find(GAVE_UP)), 0)
    if line or scales.get(last, 1) < 1:
        text = "the loss scale became too small: often the loss has diverged before (fairseq#512)"
        line = line or run.line_of("loss", last)
        yield Event(text, Weight.LARGE, "--clip-norm 1", line)
    norms = smoothed(run.curves.get("gradient norm", {}))
    update = max(norms, key=norms.__getitem__, default=0)
    is_after = update > (run.number("warmup_updates") or 0)
    if is_after and norms[update] > SPIKE and run.is_seq2seq:
        text = f"the gradient norm was {norms[update]:,.1f} about update {update:,}"
        yield Event(text, Weight.UNKNOWN, "--clip-norm 1", run.line_of("loss", update))


def _left_out(run: Evidence, row: Row) -> Iterator[Event]:
    """Yield pairs, batches, updates and sentences of the test set that were left out."""
    lost, overflows = (run.log.find(pattern) for pattern in (LOST_BATCH, OVERFLOW))
    updates, count = max(run.updates or 0, 1), len(overflows)
    for part in run.left_out:
        change = as_batch(run, row) if "--max-tokens" in part.said else ""
        yield _lost(part.pairs / (part.of or PAIRS_EN_DE), part.said, change, part.line)
    if lost:
        text = f"batches lost for want of memory: {len(lost):,}"
        yield _lost(len(lost) / updates, text, half_the_tokens(run), lost[-1][0])
    if overflows:
        text = f"updates that overflowed and were left out (some are normal): {count:,}"
        yield _lost(count / (updates + count), text, BFLOAT16, overflows[-1][0])
    if run.missing:
        text = f"sentences of the test set that were not translated: {run.missing:,}"
        yield _lost(1 / 30, text, f"{SEARCH}--required-batch-size-multiple 1", 0)


def _lost(share: float, text: str, change: str, line: int) -> Event:
    """Return what is said of something that was left out, by its share."""
    weight = Weight.LARGE if share > 0.05 else Weight.MEDIUM if share > 0.01 else Weight.SMALL
    return Event(text, weight, change, line)


def _trained_on(run: Evidence, row: Row) -> Iterator[Event]:
    """Yield the text, and that it is too small for the model and its dropout."""
    text = run.trained_on
    if text is None:
        return
    languages = f" of {'-'.join(run.languages)}" if all(run.languages) else ""
    said = f"trained on {text.pairs:,} pairs{languages}"
    tokens, pairs = (median(run.curves[name].values() or [0]) for name in ("tokens", "sentences"))
    said += f", of about {tokens / pairs:.0f} target tokens" if tokens and pairs else ""
    said += f", with {run.dictionaries}" if run.types else ""
    fits, dropout = fitting(text.pairs), run.number("dropout")
    size = run.number("encoder_embed_dim") or row.d_model
    is_large = fits and size > fits.row.d_model and row not in OWN
    is_bare = fits and dropout is not None and dropout < fits.row.P_drop
    if not (fits and row.shared_vocabulary and run.is_transformer and (is_large or is_bare)):
        yield Event(said, line=text.line)
        return
    too_much = "a model of this size" if is_large else f"dropout {dropout:g}"
    said += f"; few for {too_much} (the paper has about {PAIRS_EN_DE:,})"
    options = f"--max-update {fits.row.steps} --dropout {fits.row.P_drop}"
    change = f"{whole(run, fits.row)} {options}" if is_large else options
    yield Event(said, Weight.LARGE, change, text.line)


def _starts(run: Evidence) -> Iterator[Event]:
    """Yield which of several trainings this is, its starts, and what differs between them."""
    if len(run.trainings) > 1:
        text = f"the file has {len(run.trainings)} trainings, which begin at lines "
        text += ", ".join(f"{line:,}" for line in run.trainings)
        text += f"; this is number {run.chosen}, --training N chooses another"
        yield Event(text, Weight.UNKNOWN, line=run.trainings[run.chosen - 1])
    if len(run.searches) > 1:
        text = f"the output of fairseq-generate has {len(run.searches)} searches, this is the last"
        yield Event(text, Weight.UNKNOWN, line=run.searches[-1])
    if len(run.starts) > 1:
        yield Event(f"started {len(run.starts)} times", line=run.starts[-1].log.lines[0].number)
    elif (loaded := run.log.loaded).update:
        text = f"begun from a checkpoint of update {loaded.update:,}"
        yield Event(text, line=loaded.line)
    told = 0
    for before, start in zip(run.starts, run.starts[1:]):
        jump, changed = _jump(run, start), _changed(before, start)
        if jump or (changed and told < MANY):
            told += 1
            text = f"started again from update {start.log.loaded.update:,}: {jump or changed}"
            text += f"; look at that checkpoint and its dictionary; {changed}" if jump else ""
            weight = Weight.LARGE if jump else Weight.UNKNOWN
            yield Event(text.removesuffix("; "), weight, line=start.log.lines[0].number)


def _jump(run: Evidence, start: Start) -> str:
    """Return how a loss jumped when a training was started again; empty if it did not."""
    loaded = start.log.loaded.update
    for name in ("loss", "development loss"):
        points = smoothed(run.curves.get(name, {})) if loaded else {}
        before = [value for update, value in points.items() if update <= loaded][-1:]
        after = [value for update, value in points.items() if update > loaded][:1]
        if before and after and after[0] - before[0] > DIVERGED:
            return f"the {name} jumped from {before[0]:g} to {after[0]:g}"
    return ""


def _changed(before: Start, start: Start) -> str:
    """Return what a start has otherwise than the one before."""
    old, new = (_facts(start) for start in (before, start))
    changes = [
        f"{name} {old[name]} is now {new[name]}"
        for name in old
        if name in new and old[name] != new[name]
    ]
    return ", ".join(changes[:MANY]) + f" and {len(changes) - MANY} more" * (len(changes) > MANY)


def _facts(start: Start) -> dict[str, object]:
    """Return what a start was with: options, dictionaries, and the number of GPUs."""
    options = {name: value for name, value in start.options.items() if not OF_A_START.match(name)}
    facts = {option(name): value for name, value in options.items()}
    devices = [("GPUs", match[1]) for _, match in start.log.find(DEVICES)]
    types = {f"types of {name}": types for name, types in start.log.dictionaries.items()}
    return facts | types | dict(devices)


def _progress(run: Evidence) -> Iterator[Event]:
    """Yield what ended the last start, and how many updates were done of those asked for."""
    end = None if run.is_finished else ending(run.starts[-1].log if run.starts else run.log)
    if end and not GAVE_UP.search(end.text):
        change = half_the_tokens(run) if OUT_OF_MEMORY.search(end.text) else ""
        rank = "" if end.rank is None else f", of rank {end.rank}"
        weight = Weight.NONE if end.is_users else Weight.LARGE
        yield Event(f"ended with {end.text[:200]}{rank}", weight, change, end.line)
    if run.updates is None or run.is_finished is None:
        return
    asked, epochs = run.number("max_update"), run.number("max_epoch")
    done = max((int(line["epoch"]) for line in run.log.statistics if "epoch" in line), default=0)
    text = f"{run.updates:,} updates" + (f" of {asked:,.0f}" if asked else "")
    text += f", {done} epoch{'s' if done > 1 else ''}" + (f" of {epochs:g}" if epochs else "")
    line, stop = [(0, None), *run.log.find(STOPPED)][-1]
    if run.is_finished and stop:
        by = next((name for words, name in STOPS.items() if words in stop[0]), "max_update")
        text += f", ended by {option(by)} {run.options.get(by, '')}: {stop[0].lower()}"
    else:
        open_end = ", broken off" if end else ", still running or broken off"
        text += ", finished" if run.is_finished else open_end
    if run.tokens_per_update:
        text += f"; {run.tokens_per_update:,.0f} {'target ' * run.is_seq2seq}tokens an update"
        if speed := [value for value in run.curves.get("speed", {}).values() if value > 0]:
            text += f", {run.tokens_per_update / median(speed):.2g} s each"
    lines = [line] if line else [run.line_of(name, run.updates) for name in LOSSES]
    yield Event(text, line=max(lines))
    if run.is_finished and still_falls(run):
        *_, (update, last) = run.curves["development loss"].items()
        text = f"the development loss, {last:g}, still fell at the end"
        yield Event(text, line=run.line_of("development loss", update))
