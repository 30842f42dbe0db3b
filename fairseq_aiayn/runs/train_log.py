"""What the logs of fairseq-train and fairseq-validate say of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.files.parallel_text import read_lines

PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")  # once a start
DONE = "done training in"
# What plugin/peak_memory.py logs at the end of every start
PEAK_MEMORY = re.compile(r"peak memory: (\d+) MiB(?:, of the GPU (\d+) MiB)?")
TYPES = re.compile(r"\] dictionary: (\d+) types")


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


@dataclass(frozen=True)
class Validation:
    """What the log of a validation says of the model and its development set."""

    perplexity: float
    vocabulary: int | None  # types of the target language; None where the log does not say
    source_vocabulary: int | None  # of the source language


def read_training(log: Path) -> Training:
    """Read a train.log, also one that several starts of a resumed training wrote.

    fairseq writes its --log-file without times, and its "wall" stands at 0 after a resume. But at
    the end of every epoch it prints the updates so far, the epoch's mean target tokens per update,
    its seconds and its tokens per second of wall time. An epoch that was resumed ends once, and
    counts go on from its checkpoint: what a killed start had done after that is not in them.
    Raises ValueError if the training is not finished.
    """
    parameters = _parameters_of_finished(log)
    epochs = {epoch["epoch"]: epoch for epoch in statistics(log) if "train_num_updates" in epoch}
    if not epochs:
        raise ValueError(
            f"{log}: must be written with --log-format json, has no statistics of an epoch"
        )
    updates, tokens, seconds, wall_seconds = 0, 0.0, 0.0, 0.0
    for epoch in epochs.values():
        done, in_updates = (
            number(epoch, key, log) for key in ("train_num_updates", "train_train_wall")
        )
        epoch_tokens = number(epoch, "train_wpb", log) * (done - updates)
        # Not there, or 0, for an epoch of one update
        speed = number({"train_wps": 0, **epoch}, "train_wps", log)
        tokens += epoch_tokens
        seconds += in_updates
        wall_seconds += epoch_tokens / speed if speed else in_updates
        updates = int(done)
    speed = tokens / max(seconds, 1.0)
    return Training(parameters, updates, speed, seconds, wall_seconds, *_peak_memory(log))


def read_validation(log: Path) -> Validation:
    """Read a valid.log; ValueError where it has no perplexity."""
    values = [number(line, "valid_ppl", log) for line in statistics(log) if "valid_ppl" in line]
    if not values:
        raise ValueError(f"{log}: must have a JSON line with 'valid_ppl', has none")
    types = [int(match[1]) for line in read_lines(log) if (match := TYPES.search(line))]
    source, target = [None, None, *types][-2:]
    return Validation(values[-1], target, source)


def _parameters_of_finished(log: Path) -> int:
    """Return the number of parameters; ValueError if the last start did not reach its end."""
    parameters, done = None, False
    for line in read_lines(log):
        if match := PARAMETERS.search(line):
            parameters, done = int(match[1].replace(",", "")), False
        elif DONE in line:
            done = True
    if parameters is None or not done:
        raise ValueError(f"{log}: must be the log of a finished training, lacks '{DONE}'")
    return parameters


def _peak_memory(log: Path) -> tuple[int | None, int | None]:
    """Return the largest peaks of all starts, of the process and of its GPU."""
    found = [match.groups() for line in read_lines(log) if (match := PEAK_MEMORY.search(line))]
    peaks = [[int(peak) for peak in column if peak] for column in zip(*found, strict=True)]
    host, gpu = (max(column, default=None) for column in peaks or ([], []))
    return host, gpu


def number(line: Mapping, key: str, log: Path) -> float:
    """Return a figure of a line of statistics; ValueError, naming log and key, where it is none."""
    try:
        return float(line[key])
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{log}: {key!r} must be a number in every line of statistics, got {line.get(key)!r}"
        ) from None


def statistics(log: Path) -> Iterator[dict]:
    """Yield the JSON objects of a fairseq log; its other lines, and half-written ones, are text."""
    for line in read_lines(log):
        start = line.find("{")
        if start >= 0 and line.endswith("}"):
            try:
                yield json.loads(line[start:])
            except json.JSONDecodeError:
                continue
