"""What trained systems achieved, read from the run directories that the recipes leave.

A run directory belongs to one system:

    settings.json      {"system": name, "commands": {"train": ..., "generate": ..., ...}, "seed",
                       "device", "commit", "packages": {name: version}, "hardware": {...},
                       "written"}; only the name is required
    train.log          fairseq-train's --log-file with --log-format json, of a finished training
    valid.log          what fairseq-validate --log-format json prints for the averaged checkpoint
    generate-test.txt  fairseq-generate's output for the test set (kept for the record, not read)
    source.txt         the test set, one detokenised sentence a line,
    reference.txt      its reference
    hypothesis.txt     and its translation
    score.json         what `aiayn bleu --json` prints for hypothesis.txt
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.evaluation.parallel_text import read_lines

PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
DONE = "done training in"


@dataclass(frozen=True)
class Training:
    """What the log of a training says."""

    parameters: int
    updates: int
    tokens_per_second: float  # target tokens
    seconds: float  # of the updates, without validation, checkpoints and start


@dataclass(frozen=True)
class Run:
    """One system: how it was made, what it cost, how good it is."""

    name: str
    settings: dict
    training: Training
    dev_perplexity: float  # of the averaged checkpoint
    bleu: dict  # the paper's, with its precisions and signature
    sacrebleu: dict
    source: tuple[str, ...]
    reference: tuple[str, ...]
    hypothesis: tuple[str, ...]


@dataclass(frozen=True)
class Example:
    """One test sentence with what each system made of it."""

    sentence: int  # from 1
    source: str
    reference: str
    translations: dict[str, str]  # by the name of the run


def read_run(directory: Path) -> Run:
    """Read one run directory.

    Raises OSError for a missing piece, ValueError naming the file and the rule for an unfinished
    one.
    """
    settings = _read_object(directory / "settings.json", ("system",))
    scores = _read_object(directory / "score.json", ("paper", "sacrebleu"))
    texts = [directory / name for name in ("source.txt", "reference.txt", "hypothesis.txt")]
    source, reference, hypothesis = (tuple(read_lines(path)) for path in texts)
    for path, lines in zip(texts[1:], (reference, hypothesis)):
        if len(lines) != len(source):
            raise ValueError(
                f"{path}: must have the {len(source)} lines of source.txt, has {len(lines)}"
            )
    return Run(
        name=settings["system"],
        settings=settings,
        training=read_training(directory / "train.log"),
        dev_perplexity=_last(directory / "valid.log", "valid_ppl"),
        bleu=scores["paper"],
        sacrebleu=scores["sacrebleu"],
        source=source,
        reference=reference,
        hypothesis=hypothesis,
    )


def read_runs(directories: Sequence[Path]) -> list[Run]:
    """Read run directories that can stand side by side.

    Raises ValueError if two runs have the same name or were not scored on the same test set.
    """
    runs = [read_run(directory) for directory in directories]
    for directory, run in zip(directories[1:], runs[1:]):
        if (run.source, run.reference) != (runs[0].source, runs[0].reference):
            raise ValueError(
                f"{directory}: must have the test set of {directories[0]}, has another"
            )
    if len({run.name for run in runs}) < len(runs):
        raise ValueError(
            f"systems must have different names, got {', '.join(run.name for run in runs)}"
        )
    return runs


def read_training(log: Path) -> Training:
    """Read a train.log, also one that several starts of a resumed training wrote.

    fairseq prints statistics at the end of every epoch: updates so far, mean target tokens per
    update and seconds of the epoch. An epoch that was resumed ends once. Raises ValueError if the
    training is not finished.
    """
    text = "\n".join(read_lines(log))
    parameters = PARAMETERS.search(text)
    if parameters is None or DONE not in text:
        raise ValueError(f"{log}: must be the log of a finished training, lacks '{DONE}'")
    epochs = {epoch["epoch"]: epoch for epoch in _statistics(log) if "train_num_updates" in epoch}
    if not epochs:
        raise ValueError(
            f"{log}: must be written with --log-format json, has no statistics of an epoch"
        )
    updates, tokens, seconds = 0, 0.0, 0.0
    for epoch in epochs.values():
        tokens += float(epoch["train_wpb"]) * (int(epoch["train_num_updates"]) - updates)
        seconds += float(epoch["train_train_wall"])
        updates = int(epoch["train_num_updates"])
    return Training(
        int(parameters[1].replace(",", "")), updates, tokens / max(seconds, 1.0), seconds
    )


def choose_examples(runs: Sequence[Run], count: int) -> list[Example]:
    """Take `count` test sentences at equal distances, so that nobody picks them."""
    sentences = len(runs[0].source)
    count = min(count, sentences)
    chosen = [(2 * k + 1) * sentences // (2 * count) for k in range(count)]
    return [
        Example(
            sentence=index + 1,
            source=runs[0].source[index],
            reference=runs[0].reference[index],
            translations={run.name: run.hypothesis[index] for run in runs},
        )
        for index in chosen
    ]


def _read_object(path: Path, keys: Sequence[str]) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError(f"{path}: must be JSON, is not or is cut short") from None
    for key in keys:
        if not isinstance(content, dict) or key not in content:
            raise ValueError(f"{path}: must have {key!r}, has not")
    return content


def _statistics(log: Path) -> Iterator[dict]:
    """Yield the JSON objects of a fairseq log; its other lines, and half-written ones, are text."""
    for line in read_lines(log):
        start = line.find("{")
        if start >= 0 and line.endswith("}"):
            try:
                yield json.loads(line[start:])
            except json.JSONDecodeError:
                continue


def _last(log: Path, key: str) -> float:
    values = [statistics[key] for statistics in _statistics(log) if key in statistics]
    if not values:
        raise ValueError(f"{log}: must have a JSON line with {key!r}, has none")
    return float(values[-1])
