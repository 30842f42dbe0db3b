"""What happened in a training: its losses, its restarts, what was left out, how far it came."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from fairseq_aiayn.configuration import as_typed
from fairseq_aiayn.diagnosis.endings import LACKED_MEMORY, LOST_BATCH, OF_USER, ending
from fairseq_aiayn.diagnosis.evidence import DEVICES, EXAMPLES, STOPPED, Evidence
from fairseq_aiayn.diagnosis.findings import BFLOAT16, Weight, whole
from fairseq_aiayn.diagnosis.regime import as_batch, smaller_rate, still_falls
from fairseq_aiayn.paper import OWN, PAIRS_EN_DE, Row
from fairseq_aiayn.runs.logs import Log, Points
from fairseq_aiayn.settings import option

LOSSES, PERPLEXITIES = ("development loss", "loss"), ("perplexity", "development perplexity")
DIVERGED = 0.5  # bits per token above the lowest loss
OVERFIT = 0.05
GAP = 2  # bits per token
FLAT_PERPLEXITY = 50  # that no trained Transformer has: the model knows how frequent words are
FLAT = 0.1  # bits per token from the middle of the training on
WINDOWS = 20  # into which a curve of more points is divided; their medians are less noisy
SPIKE = 10  # gradient norms above this are not a converging Transformer's
MANY = 3  # restarts that are told one by one
OVERFLOW = re.compile("overflow detected")
GAVE_UP = re.compile("Minimum loss scale reached")
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
    parts = (_loss(run, row), _scale(run), _left_out(run, row), _progress(run, row))
    happened = [event for part in (*parts, _trained_on(run, row), _starts(run)) for event in part]
    return sorted(happened, key=lambda event: -event.weight)


def smoothed(run: Evidence, name: str) -> Points:
    """Return the finite values of a curve, of a long one the medians of its windows by their last
    update."""
    finite = [point for point in run.curves[name].items() if math.isfinite(point[1])]
    size = max(1, len(finite) // WINDOWS)
    windows = [finite[start : start + size] for start in range(0, len(finite), size)]
    return {window[-1][0]: median(value for _, value in window) for window in windows}


def until(points: Points, last: float = math.inf) -> float:
    """Return the value at an update, or the last before it; not a number without any."""
    return [math.nan, *(points[update] for update in points if update <= last)][-1]


def _loss(run: Evidence, row: Row) -> Iterator[Event]:
    """Yield what is wrong with the losses; only the first where one is not a number."""
    change = smaller_rate(run, row)
    for name in ("loss", "perplexity", "development loss"):
        points = run.curves[name]
        wrong = [update for update, value in points.items() if not math.isfinite(value)]
        if wrong:
            end = "on" if wrong[-1] == [*points][-1] else f"to {wrong[-1]:,}"
            text = f"the {name} is not a number from update {wrong[0]:,} {end}"
            yield Event(text, Weight.LARGE, change, run.line_of(name, wrong[0]), True)
            return
    criteria = {start.options.get("criterion") for start in run.starts}  # of one, losses compare
    if len(criteria) < 2 and not any(_jump(run, start) for start in run.starts[1:]):
        yield from [*_rise(run, change)][:1] or _flat(run, change)
    # Losses of criteria with more terms do not compare; perplexities are of the target alone
    training, development = (smoothed(run, name) for name in PERPLEXITIES)
    best = min(development, key=development.__getitem__, default=0)
    then = until(training, best)
    if len(development) > 1 and development[best] > then * 2**GAP:
        text = f"the development perplexity was at best {development[best]:g}, when that of the"
        text += f" training was {then:g}: look whether the lines of both languages belong"
        text += " together and were prepared alike"
        yield Event(text, Weight.LARGE, line=run.line_of("development perplexity", best))


def _rise(run: Evidence, change: str) -> Iterator[Event]:
    """Yield how a loss rose again: it overfitted where the other fell, else it diverged."""
    training = smoothed(run, "loss")
    for name in LOSSES:
        points = smoothed(run, name)
        if not points:
            continue
        best, last = min(points, key=points.__getitem__), [*points][-1]
        lowest, end = points[best], points[last]
        first, then = (run.curves[name][update] for update in (best, last))  # as the log has them
        whose = "development" if name.startswith("development") else "training"
        text = f"the {whose} loss rose from {first:g} at update {best:,} to {then:g} at {last:,}"
        line = run.line_of(name, last)
        fell = until(training, best) - until(training)  # of the training itself, it is negative
        if end - lowest > OVERFIT and fell > max(OVERFIT, (end - lowest) / 4):
            weight = Weight.LARGE if end - lowest > DIVERGED else Weight.MEDIUM
            text = f"overfitted: {text}, while that of the training fell"
            yield Event(text, weight, "--patience 10", line)
        elif end - lowest > DIVERGED and run.is_seq2seq:
            yield Event(f"diverged: {text}", Weight.LARGE, change, line, True)


def _flat(run: Evidence, change: str) -> Iterator[Event]:
    """Yield that little is learned, where that was so in the middle of a training already."""
    name = next(filter(run.curves.get, PERPLEXITIES), PERPLEXITIES[0])
    values = [(0, 0.0), *smoothed(run, name).items()]
    (middle, before), (last, end) = values[(len(values) - 1) // 2], values[-1]
    is_flat = end > FLAT_PERPLEXITY and before < end * 2**FLAT
    if is_flat and len(values) > 3 and last > (run.number("warmup_updates") or 0):
        text = f"flat: perplexity {before:,.0f} at update {middle:,}, {end:,.0f} at {last:,}"
        text += "; little but the frequency of words is learned"
        yield Event(text, Weight.LARGE, change, run.line_of(name, last), True)


def _scale(run: Evidence) -> Iterator[Event]:
    """Yield a loss scale and gradients that are not those of a converging training."""
    for line, _ in run.log.find(GAVE_UP)[:1]:
        text = "the loss scale became too small: often the loss has diverged before (fairseq#512)"
        yield Event(text, Weight.LARGE, "--clip-norm 1", line, True)
    norms = smoothed(run, "gradient norm")
    update = max(norms, key=norms.__getitem__, default=0)
    is_after = update > (run.number("warmup_updates") or 0)
    if is_after and norms[update] > SPIKE and run.is_seq2seq:
        text = f"the gradient norm was {norms[update]:,.1f} about update {update:,}"
        yield Event(text, Weight.UNKNOWN, "--clip-norm 1", run.line_of("loss", update))


def _left_out(run: Evidence, row: Row) -> Iterator[Event]:
    """Yield pairs, batches and updates that were left out."""
    lost, overflows = (run.log.find(pattern) for pattern in (LOST_BATCH, OVERFLOW))
    updates, count = max(run.updates or 0, 1), len(overflows)
    found = [
        (share, said, as_batch(run, row) if "--max-tokens" in said else "", line)
        for share, said, line in run.left_out
    ]
    if lost:
        text = f"batches lost for want of memory: {len(lost):,}"
        found.append((len(lost) / updates, text, as_batch(run, row), lost[-1][0]))
    if overflows:
        text = f"updates that overflowed and were left out (some are normal): {count:,}"
        found.append((count / (updates + count), text, BFLOAT16, overflows[-1][0]))
    for share, text, change, line in found:
        weight = Weight.LARGE if share > 0.05 else Weight.MEDIUM if share > 0.01 else Weight.SMALL
        yield Event(text, weight, change if weight > Weight.SMALL else "", line)


def _trained_on(run: Evidence, row: Row) -> Iterator[Event]:
    """Yield the text, and that it is too small for the model and its dropout."""
    pairs, line = run.trained_on
    if not line:
        return
    languages = "" if "xx" in run.languages else f" of {'-'.join(run.languages)}"
    papers = "" if row in OWN else f" (paper: about {PAIRS_EN_DE:,})"
    said = f"the text has {pairs:,} pairs{languages}{papers}"
    of_a_batch, tokens = median(run.curves["sentences"].values() or [0]), run.tokens_per_update
    said += f", of about {tokens / of_a_batch:.0f} target tokens" if tokens and of_a_batch else ""
    said += f", with {run.dictionaries}" if run.types else ""
    fits, dropout = run.fits, run.number("dropout")
    size = run.number("encoder_embed_dim") or row.d_model
    is_large = fits and size > fits.row.d_model
    is_bare = fits and dropout is not None and dropout < fits.row.P_drop
    is_judged = row.shared_vocabulary and row not in OWN and run.is_transformer
    if not (fits and is_judged and (is_large or is_bare)):
        yield Event(said, line=line)
        return
    too_much = "a model of this size" if is_large else f"dropout {dropout:g}"
    said += f"; few for {too_much}"
    options = f"--max-update {fits.row.steps} --dropout {fits.row.P_drop}"
    change = f"{whole(run, fits.row)} {options}" if is_large else options
    yield Event(said, Weight.LARGE, change, line)


def _starts(run: Evidence) -> Iterator[Event]:
    """Yield which of several trainings this is, its starts, and what differs between them."""
    if len(run.trainings) > 1:
        begins = ", ".join(f"{training[0].begins:,}" for training in run.trainings)
        text = f"the file has {len(run.trainings)} trainings, which begin at lines {begins}; this"
        text += f" is number {run.trainings.index(run.starts) + 1}, --training N chooses another"
        yield Event(text, Weight.UNKNOWN, line=run.starts[0].begins)
    if len(run.searches) > 1:
        text = f"the output of fairseq-generate has {len(run.searches)} searches, this is the last"
        yield Event(text, Weight.UNKNOWN, line=run.searches[-1].begins)
    if len(run.starts) > 1:
        yield Event(f"started {len(run.starts)} times", line=run.starts[-1].begins)
    elif run.log.loaded[1]:
        line, update = run.log.loaded
        yield Event(f"begun from a checkpoint of update {update:,}", line=line)
    told = 0
    for before, start in zip(run.starts, run.starts[1:]):
        changed = _changed(before, start)
        jump = "" if "--criterion" in changed else _jump(run, start)
        if jump or (changed and told < MANY):
            told += 1
            text = f"started again from update {start.loaded[1]:,}: {jump or changed}"
            text += f"; look at that checkpoint and its dictionary; {changed}" if jump else ""
            weight = Weight.LARGE if jump else Weight.UNKNOWN
            yield Event(text.removesuffix("; "), weight, line=start.begins)


def _jump(run: Evidence, start: Log) -> str:
    """Return how a loss jumped when a training was started again; empty if it did not."""
    loaded = start.loaded[1]
    for name in ("loss", "development loss") if loaded else ():
        points = smoothed(run, name)
        before = until(points, loaded)
        after = next((value for update, value in points.items() if update > loaded), math.nan)
        if after - before > DIVERGED:
            return f"the {name} jumped from {before:g} to {after:g}"
    return ""


def _changed(before: Log, start: Log) -> str:
    """Return what a start has otherwise than the one before."""
    old, new = (_facts(start) for start in (before, start))
    both = [name for name in old if name in new and old[name] != new[name]]
    pairs = ((name, as_typed(old[name]), as_typed(new[name])) for name in both[:MANY])
    said = ", ".join(f"{name} {here} is now {there}" for name, here, there in pairs)
    return said + f" and {len(both) - MANY} more" * (len(both) > MANY)


def _facts(start: Log) -> dict[str, object]:
    """Return what a start was with: options, dictionaries, and the number of GPUs."""
    facts = {option(name): own for name, own in start.options.items() if not OF_A_START.match(name)}
    facts |= {f"types of {name}": types for name, types in start.dictionaries.items()}
    for _, match in start.find(DEVICES):
        facts["GPUs"] = match[1]
    return facts | {f"pairs in {match[1]}": match[4] for _, match in start.find(EXAMPLES)}


def _progress(run: Evidence, row: Row) -> Iterator[Event]:
    """Yield what ended the last start, and how many updates were done of those asked for."""
    end = None if run.is_finished else ending([run.log, *run.starts][-1])
    if end and not GAVE_UP.search(end.text):
        change = as_batch(run, row) if LACKED_MEMORY.search(end.text) else ""
        rank = "" if end.rank is None else f", of rank {end.rank}"
        weight = Weight.NONE if OF_USER.match(end.text) else Weight.LARGE
        yield Event(f"ended with {end.text[:200]}{rank}", weight, change, end.line)
    if run.updates is None or run.is_finished is None:
        return
    asked, epochs = run.number("max_update"), run.number("max_epoch")
    done = int(max((each.get("epoch", 0) for each in run.log.statistics.values()), default=0))
    text = f"{run.updates:,} updates" + (f" of {asked:,.0f}" if asked else "")
    text += f", epoch {done}" + (f" of {epochs:g}" if epochs else "")
    line, stop = [(0, None), *run.log.find(STOPPED)][-1]
    if run.is_finished and stop:
        by = next((name for words, name in STOPS.items() if words in stop[0]), "max_update")
        text += f", ended by {option(by)} {run.options.get(by, '')}: {stop[0].lower()}"
    else:
        open_end = ", broken off" if end else ", still running or broken off"
        text += ", finished" if run.is_finished else open_end
    if run.tokens_per_update:
        text += f"; {run.tokens_per_update:,.0f} {'target ' * run.is_seq2seq}tokens an update"
        if speed := [value for value in run.curves["speed"].values() if value > 0]:
            text += f", {run.tokens_per_update / median(speed):.2g} s each"
    yield Event(text, line=line or max(run.line_of(name, run.updates) for name in LOSSES))
    in_all = run.updates if run.is_finished else asked
    if in_all and (warmup := run.number("warmup_updates") or 0) >= in_all:
        text = f"{in_all:,.0f} updates end in the warm-up of {warmup:,.0f}, which learns little"
        yield Event(text, Weight.LARGE, f"--max-update {row.steps}")
    if run.is_finished and still_falls(run):
        *_, (update, last) = run.curves["development loss"].items()
        text = f"the development loss, {last:g}, still fell at the end"
        yield Event(text, line=run.line_of("development loss", update))
