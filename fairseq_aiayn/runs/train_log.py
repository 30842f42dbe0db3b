"""What the logs of fairseq-train and fairseq-validate say of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fairseq_aiayn.runs.configuration import flat_options, printed_configuration
from fairseq_aiayn.runs.fairseq_log import Log

PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")  # once per start
DONE = "done training in"
# What plugin/commands.py logs at the end of every start
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


def validation_of(log: Log) -> Validation:
    """Return what a valid.log says; raises ValueError if it has no perplexity."""
    values = [log.number(line, "valid_ppl") for line in log.statistics if "valid_ppl" in line]
    if not values:
        raise ValueError(f"{log.path}: must have a JSON line with 'valid_ppl', has none")
    types = [int(match[1]) for line in log.lines if (match := TYPES.search(line))]
    source, target = [None, None, *types][-2:]
    return Validation(values[-1], target, source)


def train_options_of(log: Log) -> dict[str, object]:
    """Return all options of the newest start with their values, defaults included.

    The result is empty if the log has no configuration that can be read.
    """
    return flat_options(printed_configuration(log.lines))


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


def _peak_memory(log: Log) -> tuple[int | None, int | None]:
    """Return the largest peaks of all starts, of the process and of its GPU."""
    found = [match.groups() for line in log.lines if (match := PEAK_MEMORY.search(line))]
    peaks = [[int(peak) for peak in column if peak] for column in zip(*found, strict=True)]
    host, gpu = (max(column, default=None) for column in peaks or ([], []))
    return host, gpu
