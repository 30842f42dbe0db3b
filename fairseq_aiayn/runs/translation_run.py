"""What trained systems achieved, read from the run directories that the recipes leave.

A run directory belongs to one training of one system:

    settings.json        how it was made, see settings.py; only {"system": name} is required
    training.json        the part of it that is known when the training starts (not read)
    train.log            fairseq-train's --log-file with --log-format json, of a finished training
    valid.log            what fairseq-validate --log-format json prints for the evaluated checkpoint
    generate-SUBSET.txt  fairseq-generate's output (kept for the record, not read)
    source.txt           the set that was translated, one detokenized sentence a line,
    reference.txt        its reference
    hypothesis.txt       and its translation
    score.json           what `aiayn bleu --json` prints for hypothesis.txt
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.runs.fairseq_log import Log, read_log
from fairseq_aiayn.runs.run_directory import (
    TrainedRun,
    read_settings,
    require_different_names,
    require_same,
    restored,
)
from fairseq_aiayn.runs.train_log import training_of, validation_of
from fairseq_aiayn.scores import Bleu, Scores
from fairseq_aiayn.text import dataclass_of, read_json, read_lines


@dataclass(frozen=True)
class Run(TrainedRun):
    """One training of a translation model, with its scores."""

    bleu: Bleu  # the paper's
    sacrebleu: Bleu
    token_bleu: Bleu | None = None  # of tokens as they are, where that was asked for


@dataclass(frozen=True)
class Texts:
    """The sentences of the test set, with their references and translations."""

    source: tuple[str, ...]
    reference: tuple[str, ...]
    hypothesis: tuple[str, ...]


@dataclass(frozen=True)
class ReadRun:
    """A run with the texts and the log that were read for it."""

    directory: Path
    run: Run
    texts: Texts
    log: Log  # of the training


@dataclass(frozen=True)
class Example:
    """One sentence with the translation of each system."""

    sentence: int  # from 1
    source: str
    reference: str
    translations: dict[str, str]  # by the name of the run


@dataclass(frozen=True)
class Comparison:
    """Runs that stand side by side."""

    runs: tuple[Run, ...]
    examples: tuple[Example, ...]


# What several seeds have a mean of, by its name in tables
FIGURES: dict[str, Callable[[Run], float]] = {
    "BLEU as the paper's": lambda run: run.bleu.score,
    "sacreBLEU": lambda run: run.sacrebleu.score,
    "development perplexity": lambda run: run.dev_perplexity,
}
TOKEN_FIGURES: dict[str, Callable[[Run], float]] = {  # of runs that all have it
    "BLEU of tokens": lambda run: run.token_bleu.score
}


def figures_of(runs: Sequence[Run]) -> dict[str, Callable[[Run], float]]:
    """Return the figures that all of these runs have."""
    return TOKEN_FIGURES | FIGURES if all(run.token_bleu for run in runs) else FIGURES


# What makes two scores comparable.
SAME_SCORE: dict[str, Callable[[Run], object]] = {
    "test set": lambda run: run.test_set,
    "signature of the paper's BLEU": lambda run: run.bleu.signature,
    "signature of sacreBLEU": lambda run: run.sacrebleu.signature,
}


def read_runs(directories: Sequence[Path]) -> list[ReadRun]:
    """Read run directories, at least one.

    Raises ValueError if two runs have the same name or were not scored alike, and as `read_run`.
    """
    found = [read_run(directory) for directory in directories]
    require_same([(one.directory, one.run) for one in found], SAME_SCORE)
    require_different_names([one.run for one in found])
    return found


def comparison_of(found: Sequence[ReadRun], examples: int) -> Comparison:
    """Return the runs side by side, with so many examples from their test set."""
    texts = {one.run.name: one.texts for one in found}
    return Comparison(tuple(one.run for one in found), tuple(choose_examples(texts, examples)))


def read_run(directory: Path) -> ReadRun:
    """Read one run directory.

    Raises OSError for a missing file, and ValueError with the file and the rule for a bad one.
    """
    settings = read_settings(directory / "settings.json")
    path = directory / "score.json"
    scores = dataclass_of(read_json(path), Scores, path)
    texts = _read_texts(directory)
    if not texts.source or scores.sentences != len(texts.source):
        raise ValueError(
            f"{path}: must be of the {len(texts.source):,} sentences of source.txt, at least one, "
            f"is of {scores.sentences}"
        )
    validation = validation_of(read_log(directory / "valid.log"))
    log = read_log(directory / "train.log")
    content = "\n".join((*texts.source, *texts.reference))
    run = Run(
        settings=settings,
        training=training_of(log),
        dev_perplexity=validation.perplexity,
        vocabulary=validation.vocabulary,
        bleu=scores.paper,
        sacrebleu=scores.sacrebleu,
        token_bleu=scores.tokens,
        sentences=len(texts.source),
        test_set=hashlib.sha256(content.encode()).hexdigest(),
    )
    return ReadRun(directory, run, texts, log)


def _read_texts(directory: Path) -> Texts:
    """Read the texts of a run; raises OSError, or ValueError if their lengths differ."""
    paths = [directory / f"{name}.txt" for name in ("source", "reference", "hypothesis")]
    source, *others = (tuple(read_lines(path)) for path in paths)
    for path, lines in zip(paths[1:], others, strict=True):
        if len(lines) != len(source):
            raise ValueError(
                f"{path}: must have the {len(source)} lines of source.txt, has {len(lines)}"
            )
    return Texts(source, *others)


def choose_examples(texts: Mapping[str, Texts], count: int) -> list[Example]:
    """Take `count` sentences at equal distances from the texts of all runs."""
    sentences = len(next(iter(texts.values())).source)
    count = min(count, sentences)
    chosen = [(2 * k + 1) * sentences // (2 * count) for k in range(count)]
    return [example_at(texts, index) for index in chosen]


def example_at(texts: Mapping[str, Texts], index: int) -> Example:
    """Return a sentence, counted from 0, with the translation of each system."""
    first = next(iter(texts.values()))
    return Example(
        sentence=index + 1,
        source=first.source[index],
        reference=first.reference[index],
        translations={name: text.hypothesis[index] for name, text in texts.items()},
    )


def run_from_json(content: Mapping, where: object) -> Run:
    """Make a Run of what dataclasses.asdict returns; raises KeyError, TypeError or ValueError
    otherwise."""
    fields = restored(content, where)
    for name in ("bleu", "sacrebleu", "token_bleu"):
        if fields.get(name):
            fields[name] = dataclass_of(fields[name], Bleu, where)
    return Run(**fields)
