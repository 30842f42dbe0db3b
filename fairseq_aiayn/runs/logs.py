"""What logs of fairseq say: statistics, cost and learning curves of a training, validations.

A log may be of any fairseq from 0.8 on, and in any of its formats: JSON, simple or tqdm. Several
commands may have written to it, and a terminal may have wrapped it.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from fairseq_aiayn.text import NOT_GZIP

PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")  # once per start
DONE = "done training in"
# What plugin/commands.py logs at the end of every start
PEAK_MEMORY = re.compile(r"peak memory: (\d+) MiB(?:, of the GPU (\d+) MiB)?")
TYPES = re.compile(r"\] dictionary: (\d+) types")
MEASURES = {"bleu": "BLEU", "f1": "F1"}  # of the validation set, by their names in the log
LOADED = re.compile(r"[Ll]oaded checkpoint .*@ (\d+) updates\)")
CONFIGURATION = re.compile(r"\{'_name'|\bNamespace\(")  # begins a printed one
# Statistics of a part of an epoch, of a whole one, and of a validation
STATISTICS = re.compile(r"epoch (\d+)(?: \| valid on '([^']+)' subset)?(:| \|)(.*)")
STATISTIC = re.compile(r"(\w+)[= ]((?:[-+\w.]|,(?=\d))+)%?(?=,|\]| \||\s*$)")
CURVES = {  # what the log calls them
    "loss": "loss",  # label-smoothed, in bits per target token
    "perplexity": "ppl",
    "gradient norm": "gnorm",
    "loss scale": "loss_scale",
    "tokens": "wpb",  # target tokens per update
    "speed": "wps",  # target tokens per second
}
COLOUR = re.compile(r"\x1b\[[\d;]*m")  # what a terminal draws
GZIP, UTF_16 = b"\x1f\x8b", (b"\xff\xfe", b"\xfe\xff")  # how such files begin


@dataclass(frozen=True)
class Log:
    """The lines of a log, and the file that they come from."""

    path: Path
    lines: Sequence[str]

    @cached_property
    def statistics(self) -> list[dict]:
        """The statistics of the log by their names in JSON; half-written objects are skipped."""
        return [found for line in self.lines if (found := statistics_of(line))]

    @cached_property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)

    @property
    def loaded_update(self) -> int:
        """The update whose checkpoint was loaded first; 0 without one."""
        match = LOADED.search(self.text)
        return int(match[1]) if match else 0

    def number(self, line: Mapping, key: str) -> float:
        """Return a figure of one of the `statistics`.

        Raises ValueError, with the file and the key, for a figure that is missing or no number.
        """
        number = as_number(line.get(key))
        if number is None:
            raise ValueError(
                f"{self.path}: {key!r} must be a number in every line of statistics, got "
                f"{line.get(key)!r}"
            )
        return number


def read_log(path: Path) -> Log:
    """Read a log, unpacked if it is gzip; a redrawn bar is a line each time.

    Bytes that are not UTF-8 are replaced. Raises OSError, or ValueError for a damaged gzip file.
    """
    content = path.read_bytes()
    try:
        content = gzip.decompress(content) if content.startswith(GZIP) else content
    except NOT_GZIP as error:
        raise ValueError(f"{path}: cut short or not gzip") from error
    text = content.decode("utf-16" if content[:2] in UTF_16 else "utf-8-sig", errors="replace")
    text = COLOUR.sub("", text)
    return Log(path, unwrapped(re.split(r"[\r\n]+", text)))


def unwrapped(lines: list[str]) -> list[str]:
    """Join the lines that a terminal broke at its width, which a broken configuration shows."""
    first = next((line for line in lines if CONFIGURATION.search(line)), "")
    if not first or first.rstrip().endswith((")", "}")):
        return lines
    whole, is_broken = [""], False
    for line in lines:
        whole[-1:] = [whole[-1] + line] if is_broken else [whole[-1], line]
        is_broken = len(line) == len(first)
    return whole[1:]


def statistics_of(line: str) -> dict[str, object]:
    """Return what a line says of updates, an epoch or a validation; empty if it does not."""
    start = line.find("{")
    if start >= 0 and line.endswith("}"):
        try:
            return json.loads(line[start:])
        except json.JSONDecodeError:
            return {}
    match = STATISTICS.search(line)
    if match is None:
        return {}
    subset = f"{match[2]}_" if match[2] else ""
    prefix = subset or ("" if match[3] == ":" else "train_")
    # Before fairseq 0.8, statistics of a subset had its name already
    pairs = STATISTIC.findall(match[4])
    own = {prefix + name.removeprefix(subset): value for name, value in pairs}
    return {"epoch": match[1]} | own


def as_number(value: object) -> float | None:
    """Return a number, a number written as text, or the last one of a list; otherwise None."""
    if isinstance(value, list) and value:
        value = value[-1]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value.replace(",", "") if isinstance(value, str) else value)
    except ValueError:
        return None


@dataclass(frozen=True)
class Training:
    """What the log of a training says; times are those of updates that were kept."""

    parameters: int
    updates: int
    tokens_per_second: float  # target tokens, of the seconds
    seconds: float  # of the updates alone
    wall_seconds: float  # with the validation, checkpoints and waiting for data between them
    peak_memory: int | None = None  # MiB of the process; None where the log does not say
    peak_gpu_memory: int | None = None  # MiB that its tensors took


def training_of(log: Log) -> Training:
    """Return what a train.log says; several starts of a resumed training may have written it.

    fairseq writes its --log-file without times, and its "wall" stands at 0 after a resume. But at
    the end of every epoch it prints the updates so far, the epoch's mean target tokens per update,
    its seconds and its tokens per second of wall time. An epoch that was resumed ends once, and
    counts go on from its checkpoint: what a killed start had done after that is not in them.
    Raises ValueError if the training is not finished.
    """
    parameters = _parameters_of_finished(log)
    epochs = {epoch["epoch"]: epoch for epoch in log.statistics if "train_num_updates" in epoch}
    if not epochs:
        raise ValueError(
            f"{log.path}: must be written with --log-format json, has no statistics of an epoch"
        )
    updates, tokens, seconds, wall_seconds = 0, 0.0, 0.0, 0.0
    for epoch in epochs.values():
        done, in_updates = (
            log.number(epoch, key) for key in ("train_num_updates", "train_train_wall")
        )
        epoch_tokens = log.number(epoch, "train_wpb") * (done - updates)
        # An epoch of one update has no speed, or the speed 0
        speed = log.number({"train_wps": 0, **epoch}, "train_wps")
        tokens += epoch_tokens
        seconds += in_updates
        wall_seconds += epoch_tokens / speed if speed else in_updates
        updates = int(done)
    speed = tokens / max(seconds, 1.0)
    return Training(parameters, updates, speed, seconds, wall_seconds, *_peak_memory(log))


def _parameters_of_finished(log: Log) -> int:
    """Return the number of parameters; raises ValueError if the last start did not end."""
    parameters, done = None, False
    for line in log.lines:
        if match := PARAMETERS.search(line):
            parameters, done = int(match[1].replace(",", "")), False
        elif DONE in line:
            done = True
    if parameters is None or not done:
        raise ValueError(f"{log.path}: must be the log of a finished training, lacks '{DONE}'")
    return parameters


def _peak_memory(log: Log) -> Iterator[int | None]:
    """Yield the largest peaks of all starts, of the process and of its GPU."""
    matches = [match for line in log.lines if (match := PEAK_MEMORY.search(line))]
    for group in (1, 2):
        yield max((int(match[group]) for match in matches if match[group]), default=None)


@dataclass(frozen=True)
class Validation:
    """What the log of a validation says of the model and its validation set."""

    perplexity: float
    vocabulary: int | None  # entries of the target language; None where the log does not say
    source_vocabulary: int | None  # of the source language


def validation_of(log: Log) -> Validation:
    """Return what a valid.log says; raises ValueError if it has no perplexity."""
    values = [log.number(line, "valid_ppl") for line in log.statistics if "valid_ppl" in line]
    if not values:
        raise ValueError(f"{log.path}: must have a JSON line with 'valid_ppl', has none")
    sizes = [int(match[1]) for line in log.lines if (match := TYPES.search(line))]
    source, target = [None, None, *sizes][-2:]
    return Validation(values[-1], target, source)


@dataclass(frozen=True)
class Curve:
    """Figures of a training at some of its updates."""

    updates: tuple[int, ...]
    seconds: tuple[float, ...]  # until then
    loss: tuple[float, ...]  # label-smoothed, in bits per target token
    perplexity: tuple[float, ...]  # unsmoothed, per target token

    @property
    def diverged(self) -> int | None:
        """The first update whose loss is not finite; None if every loss is finite."""
        pairs = zip(self.updates, self.loss, strict=True)
        return next((update for update, loss in pairs if not math.isfinite(loss)), None)


@dataclass(frozen=True)
class LearningCurves:
    """The curves of one training, each in the order of the updates."""

    training: Curve
    validation: Curve
    rate: tuple[float, ...]  # learning rate at the updates of `training`
    measure: str | None = None  # "BLEU" or "F1" if every validation measured it, else None
    score: tuple[float, ...] = ()  # its value at each update of `validation`


def learning_curves_of(log: Log) -> LearningCurves:
    """Return the curves of a train.log; a later start replaces the updates that it did again.

    Time is that of fairseq's clock ("wall"), with validations and checkpoints. After a resume the
    clock stands at 0: from then on time is that of the updates alone. A training shorter than
    --log-interval has no curves. Raises ValueError for a figure that is no number.
    """
    inner, valid = _kept(log, "num_updates"), _kept(log, "valid_num_updates")
    seconds = list(accumulate(time for _, time in inner.values()))
    updates = list(inner)
    until = [[0.0, *seconds][bisect_right(updates, update)] for update in valid]
    every = [line for line, _ in valid.values()] or [{}]
    measure = next((key for key in MEASURES if all(f"valid_{key}" in line for line in every)), None)
    return LearningCurves(
        Curve(tuple(inner), tuple(seconds), *(_values(log, inner, key) for key in ("loss", "ppl"))),
        Curve(
            tuple(valid),
            tuple(until),
            *(_values(log, valid, key) for key in ("valid_loss", "valid_ppl")),
        ),
        _values(log, inner, "lr"),
        MEASURES[measure] if measure else None,
        _values(log, valid, f"valid_{measure}") if measure else (),
    )


def series(log: Log, key: str, prefix: str = "") -> dict[int, float]:
    """Return a statistic by update where it is a number, be it nan; `prefix` as of `statistics`."""
    lines = _kept(log, f"{prefix}num_updates")
    found = {update: as_number(line.get(prefix + key)) for update, (line, _) in lines.items()}
    return {update: value for update, value in found.items() if value is not None}


def curves_of(log: Log, subset: str) -> dict[str, dict[int, float]]:
    """Return the curves of a training, or of its epochs if that is all, and of its validations."""
    curves = {name: series(log, key) or series(log, key, "train_") for name, key in CURVES.items()}
    for name in ("loss", "perplexity"):
        curves[f"development {name}"] = series(log, CURVES[name], f"{subset}_")
    return curves


Lines = Mapping[int, tuple[dict, float]]  # statistics and seconds since those before, by updates


def _kept(log: Log, key: str) -> Lines:
    """Return the lines that have `key`, by its value, without those that a later start replaced."""
    kept: dict[int, tuple[dict, float]] = {}
    before = 0.0  # what the clock showed
    for line in log.statistics:
        if key not in line:
            continue
        update = int(log.number(line, key))
        while kept and next(reversed(kept)) >= update:
            kept.popitem()
        now = log.number({"wall": 0, **line}, "wall")
        seconds = now - before if now > before else now  # it restarts with the training
        if not now:
            seconds = log.number({"train_wall": 0, **line}, "train_wall")
        before = now
        kept[update] = line, seconds
    return kept


def _values(log: Log, lines: Lines, key: str) -> tuple[float, ...]:
    return tuple(log.number(line, key) for line, _ in lines.values())
