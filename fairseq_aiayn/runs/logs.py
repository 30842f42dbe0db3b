"""What logs of fairseq say: statistics, cost and learning curves of a training, validations.

A log may be of any fairseq from 0.8 on, and in any of its formats: JSON, simple or tqdm. Several
commands may have written to it, and a terminal may have wrapped it.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from fairseq_aiayn.configuration import flat_options
from fairseq_aiayn.files import NOT_GZIP

__all__ = ["SECONDS", "Line", "Log", "Points", "as_number", "curves_of", "read_log"]

PARAMETERS = re.compile(r"num\. shared model params: ([\d,]{1,20})")  # once per start
DONE = "done training in"
# What plugin/commands.py logs at the end of every start
PEAK_MEMORY = re.compile(r"peak memory: (\d{1,15}) MiB(?:, of the GPU (\d{1,15}) MiB)?")
TYPES = re.compile(r"\[([^\s\[\]]+)\] dictionary: (\d{1,15}) types")
LOADED = re.compile(r"[Ll]oaded checkpoint .*@ (\d{1,15}) updates\)")
CONFIGURATION = re.compile(r"\{'_name': None|\bNamespace\(")  # begins a printed one, of all parts
# Statistics of a part of an epoch, of a whole one, and of a validation
STATISTICS = re.compile(r"epoch (\d+)(?: \| valid on '([^']+)' subset)?(:| \|)(.*)")
STATISTIC = re.compile(r"\b(\w+)[= ]((?:[-+\w.]|,(?=\d))+)%?(?=,|\]| \||\s*$)")
CURVES = {  # of a training, by what the log calls them
    "loss": "loss",  # label-smoothed, in bits per target token
    "perplexity": "ppl",  # unsmoothed, per target token
    "learning rate": "lr",
    "gradient norm": "gnorm",
    "loss scale": "loss_scale",
    "tokens": "wpb",  # target tokens per update
    "sentences": "bsz",  # per update
    "speed": "wps",  # target tokens per second
}
VALIDATED = {"loss": "loss", "perplexity": "ppl", "BLEU": "bleu", "F1": "f1"}  # of validations
UPDATES = ("num_updates", "train_num_updates")  # of statistics within an epoch, and of its end
OBJECT = re.compile(r"<[^<>']*(?:'[^']*')?[^<>']*>")  # as Python prints what has no literal
MOST_LINES = 500  # of a configuration that a terminal broke
LARGEST = 10**15  # updates, tokens, seconds: more are none of a training
SECONDS = "seconds"  # the curve of the time that an update was done at
COLOUR = re.compile(r"\x1b\[[\d;]*m")  # what a terminal draws
GZIP, UTF_16 = b"\x1f\x8b", (b"\xff\xfe", b"\xfe\xff")  # how such files begin


class Line(NamedTuple):
    """A line of a file; of one that a terminal broke, the first number."""

    number: int  # from 1 on
    text: str


@dataclass(frozen=True)
class Log:
    """Lines of a log, all or those of one start of a command, and the file they come from."""

    path: Path
    lines: Sequence[Line]

    @cached_property
    def statistics(self) -> dict[int, dict[str, float]]:
        """The statistics by their names in JSON, by the indices of their lines; half-written
        objects are skipped."""
        found = ((index, statistics_of(line.text)) for index, line in enumerate(self.lines))
        return {index: statistics for index, statistics in found if statistics}

    @cached_property
    def text(self) -> str:
        """All lines."""
        return "\n".join(line.text for line in self.lines)

    def find(self, pattern: re.Pattern[str]) -> list[tuple[int, re.Match[str]]]:
        """Return the first match in each line that has one, with the line's number."""
        found = ((line.number, pattern.search(line.text)) for line in self.lines)
        return [(number, match) for number, match in found if match]

    def line_of(self, update: int, part: str = "") -> int:
        """Return the line of a training's statistics after an update, or those of a validation."""
        keys = (f"{part}_num_updates",) if part else UPDATES
        for index, said in reversed(self.statistics.items()):
            if update in map(said.get, keys):
                return self.lines[index].number
        return 0

    @cached_property
    def updates(self) -> list[tuple[int, float]]:
        """The updates that its statistics are of, with the indices of their lines."""
        found = ((index, map(each.get, UPDATES)) for index, each in self.statistics.items())
        return [(index, update) for index, said in found for update in [*filter(None, said)][:1]]

    @property
    def begins(self) -> int:
        """The number of its first line."""
        return self.lines[0].number

    def parts(self, begins: Sequence[int]) -> list[Log]:
        """Return the parts of it that begin at these indices of lines."""
        ends = [*begins, len(self.lines)][1:]
        return [Log(self.path, self.lines[a:b]) for a, b in zip(begins, ends, strict=True)]

    @cached_property
    def starts(self) -> list[Log]:
        """The starts of commands that wrote it, by the configurations that can be read; without
        any, by the updates, which begin anew at the first of before or an earlier one; a bar that
        is drawn again has the same."""
        begins = [index for index, line in enumerate(self.lines) if _configuration(line.text)]
        if not begins:
            lowest = accumulate((update for _, update in self.updates), min)
            later = zip(self.updates[1:], lowest, self.updates)
            anew = (at for (at, update), low, (_, last) in later if update <= low and update < last)
            begins = [0, *anew]
        return self.parts(begins)

    @property
    def trainings(self) -> list[list[Log]]:
        """The starts of each training; another directory or a first update begins a new one."""
        trainings: list[list[Log]] = []
        for start in (start for start in self.starts if start.is_training):
            before = next(filter(start.goes_on, reversed(trainings)), [])
            trainings = [*(each for each in trainings if each is not before), [*before, start]]
        return trainings

    @cached_property
    def configuration(self) -> dict[str, object]:
        """The configuration with which it begins, if it does."""
        return _configuration(self.lines[0].text) if self.lines else {}

    @property
    def options(self) -> dict[str, object]:
        """The options of its configuration by fairseq's argument names."""
        return flat_options(self.configuration)

    @property
    def search_options(self) -> dict[str, object]:
        """The options of fairseq-generate."""
        groups = (self.configuration.get(name) for name in ("generation", "common_eval"))
        own = [group for group in groups if isinstance(group, Mapping)]
        return {name: value for group in [self.options, *own] for name, value in group.items()}

    @property
    def is_training(self) -> bool:
        """Whether the command is fairseq-train: other commands that have a model have its path."""
        common = self.configuration.get("common_eval") or self.configuration
        has_path = isinstance(common, Mapping) and common.get("path")
        return not self.configuration or ("arch" in self.options and not has_path)

    def goes_on(self, starts: Sequence[Log]) -> bool:
        """Return whether it goes on with the training of these starts: it has loaded what they
        left, or they had done no update."""
        here, there = self.options, starts[-1].options
        if here.get("save_dir") != there.get("save_dir"):
            return False
        if self.loaded[1]:
            return not self.updates or self.updates[0][1] > self.loaded[1]
        return here.get("seed") == there.get("seed") and not any(each.updates for each in starts)

    @property
    def loaded(self) -> tuple[int, int]:
        """The line that says which checkpoint was loaded first, and its update; 0 without one."""
        found = ((line, int(match[1])) for line, match in self.find(LOADED))
        return next(found, (0, 0))

    @property
    def dictionaries(self) -> dict[str, int]:
        """The types of each dictionary that was loaded, by language, first that of the source."""
        return {language: int(types) for language, types in TYPES.findall(self.text)}


def read_log(path: Path) -> Log:
    """Read a log, unpacked if it is gzip; a redrawn bar is a line each time. Raises OSError, or
    ValueError for a damaged gzip file."""
    content = path.read_bytes()
    try:
        content = gzip.decompress(content) if content.startswith(GZIP) else content
    except NOT_GZIP as error:
        raise ValueError(f"{path}: cut short or not gzip") from error
    text = content.decode("utf-16" if content[:2] in UTF_16 else "utf-8-sig", errors="replace")
    text = COLOUR.sub("", text)
    lines = enumerate(re.split(r"\r?\n", text), start=1)
    drawn = [Line(number, each) for number, line in lines for each in line.split("\r") if each]
    return Log(path, unwrapped(drawn))


def unwrapped(lines: list[Line]) -> list[Line]:
    """Join the lines that a terminal broke: those of a configuration, until it can be read, and
    then others of its width with the next."""
    joined: list[Line] = []
    width, k = 0, 0
    while k < len(lines):
        begin, k = k, k + 1
        if CONFIGURATION.search(lines[begin].text) and not _configuration(lines[begin].text):
            ends = range(begin + 2, min(begin + MOST_LINES, len(lines)) + 1)
            readable = (end for end in ends if _configuration(_text(lines[begin:end])))
            k = next(readable, k)
            width = len(lines[k - 2].text) if k > begin + 1 else width
        while k < len(lines) and len(lines[k - 1].text) == width:
            k += 1
        joined.append(Line(lines[begin].number, _text(lines[begin:k])))
    return joined


def _text(lines: Sequence[Line]) -> str:
    return "".join(line.text for line in lines)


def statistics_of(line: str) -> dict[str, float]:
    """Return the numbers that a line says of updates, an epoch or a validation; none if its epoch
    or updates are no count."""
    found = {name: as_number(value) for name, value in _values_of(line).items()}
    numbers = {name: value for name, value in found.items() if value is not None}
    counts = (value for name, value in found.items() if name == "epoch" or "num_updates" in name)
    is_sound = all(value is not None and 0 <= value < LARGEST for value in counts)
    return numbers if is_sound else {}


def _values_of(line: str) -> dict[str, object]:
    start = line.find("{")
    if start >= 0 and line.endswith("}"):
        try:
            return json.loads(line[start:])
        except (ValueError, RecursionError):
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
    except (ValueError, OverflowError):
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
    """Return what the ends of epochs in a train.log say, for "wall" stands at 0 after a resume;
    what a killed start had done after its checkpoint is not counted. Raises ValueError if the
    training is not finished."""
    parameters = _parameters_of_finished(log)
    epochs = _joined_lines(log, "train_num_updates")
    if not epochs:
        raise ValueError(
            f"{log.path}: must be written with --log-format json, has no statistics of an epoch"
        )
    updates, tokens, seconds, wall_seconds = 0, 0.0, 0.0, 0.0
    for done, epoch in epochs.items():
        # An epoch of one update has no speed, or the speed 0
        of_update, in_updates, speed = (
            _amount(epoch, f"train_{key}") for key in ("wpb", "train_wall", "wps")
        )
        epoch_tokens = of_update * (done - updates)
        tokens += epoch_tokens
        seconds += in_updates
        wall_seconds += epoch_tokens / speed if speed else in_updates
        updates = done
    speed = tokens / max(seconds, 1.0)
    return Training(parameters, updates, speed, seconds, wall_seconds, *_peak_memory(log))


def _parameters_of_finished(log: Log) -> int:
    """Return the number of parameters; raises ValueError if the last start did not end."""
    starts = [*PARAMETERS.finditer(log.text)]
    if not starts or DONE not in log.text[starts[-1].end() :]:
        raise ValueError(f"{log.path}: must be the log of a finished training, lacks '{DONE}'")
    return int(starts[-1][1].replace(",", ""))


def _peak_memory(log: Log) -> Iterator[int | None]:
    """Yield the largest peaks of all starts, of the process and of its GPU."""
    peaks = PEAK_MEMORY.findall(log.text)
    for k in (0, 1):
        yield max((int(peak[k]) for peak in peaks if peak[k]), default=None)


def last_perplexity(log: Log) -> float:
    """Return that of the last validation in a valid.log; raises ValueError if there is none."""
    values = [line["valid_ppl"] for line in log.statistics.values() if "valid_ppl" in line]
    if not values:
        raise ValueError(f"{log.path}: must have a JSON line with 'valid_ppl', has none")
    return values[-1]


Points = Mapping[int, float]  # values by update


def curves_of(log: Log, subset: str = "valid") -> dict[str, Points]:
    """Return the curves of a training, or of its epochs if that is all, of its validations, and of
    its time, each in the order of the updates; a later start replaces those that it did again."""
    inner = _joined_lines(log, "num_updates")
    epochs, validations = (_joined_lines(log, f"{part}_num_updates") for part in ("train", subset))
    curves = {
        name: _points(inner, key) or _points(epochs, f"train_{key}") for name, key in CURVES.items()
    }
    for name, key in VALIDATED.items():
        curves[f"development {name}"] = _points(validations, f"{subset}_{key}")
    return {**curves, SECONDS: _seconds(inner)}


def _joined_lines(log: Log, key: str) -> dict[int, dict[str, float]]:
    """Return the statistics with `key`, the number of updates that were done, by it; those that a
    later start replaced are left out."""
    kept: dict[int, dict[str, float]] = {}
    for line in log.statistics.values():
        if key not in line:
            continue
        update = int(line[key])
        while kept and next(reversed(kept)) >= update:
            kept.popitem()
        kept[update] = line
    return kept


def _points(lines: Mapping[int, Mapping[str, float]], key: str) -> Points:
    return {update: line[key] for update, line in lines.items() if key in line}


def _amount(line: Mapping[str, float], key: str) -> float:
    """Return tokens or seconds; 0 where a line does not say them, or something impossible."""
    value = line.get(key, 0.0)
    return value if 0 <= value < LARGEST else 0.0


def _seconds(lines: Mapping[int, Mapping[str, float]]) -> Points:
    """Return the time until each update by fairseq's clock ("wall"), which restarts with a
    training; after a resume it stands at 0, and the time is that of the updates alone."""
    seconds, total, before = {}, 0.0, 0.0
    for update, line in lines.items():
        now = _amount(line, "wall")
        passed = now - before if now > before else now
        total += passed or _amount(line, "train_wall")
        seconds[update], before = total, now
    return seconds


def _configuration(line: str) -> dict[str, object]:
    """Return the configuration that ends a line, or nothing; nothing in it is evaluated."""
    for mark in CONFIGURATION.finditer(line):
        text = line[mark.start() :]
        for literals in (text, OBJECT.sub("None", text)):
            try:
                configuration = _plain(ast.parse(literals.strip(), mode="eval").body)
            except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
                continue
            if isinstance(configuration, dict):
                return configuration
    return {}


def _plain(node: ast.expr) -> object:
    """Return the value of a printed constant, container or Namespace; other text unchanged."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return {_plain(key): _plain(value) for key, value in pairs if key}
        case ast.Call(func=ast.Name(), keywords=keywords):
            return {item.arg: _plain(item.value) for item in keywords if item.arg}
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_plain(item) for item in items]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
    return ast.unparse(node)
