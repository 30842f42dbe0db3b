"""What trained parsers achieved, read from the run directories that the recipe wsj_parsing leaves.

A run directory belongs to one training, PART below it to one search with the model: valid or test,
valid-constrained or test-constrained.

    data.json           the trees it was trained on, see TrainingTrees
    train.log           as of a translation, see translation_run.py
    valid.log           as of a translation
    PART/settings.json  how it was made, see settings.py
    PART/words.txt      the words of the sentences that were parsed, one sentence per line,
    PART/gold.trees     and their trees
    PART/repairs.json   how many outputs were trees already, and what had to be repaired in others
    PART/evalb.txt      what `aiayn evalb --per-sentence` prints
    PART/score.json     what `aiayn evalb --json` prints
    PART/seconds.json   how long the search took: {"sentences": n, "seconds": s}
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
from fairseq_aiayn.scores import EstimatedDifference, f1_difference
from fairseq_aiayn.text import Kind, dataclass_of, read_json, read_lines
from fairseq_aiayn.treebank.evalb import Scores, read_constituents


@dataclass(frozen=True)
class TrainingTrees:
    """The trees that a parser was trained on."""

    gold: int  # sentences
    silver: int  # sentences that another parser parsed
    tags: str  # in each word's place: pos, its part of speech, or XX
    augmented: int = 0  # phrases of the gold sentences and pairs of them


@dataclass(frozen=True)
class Repairs:
    """How many outputs of the search are trees, and how often each repair was needed."""

    sentences: int
    well_formed: int
    repairs: dict[str, int]

    @property
    def share_well_formed(self) -> float:
        """The percentage of the sentences whose output needs no repair."""
        return 100 * self.well_formed / self.sentences


@dataclass(frozen=True)
class Search:
    """How long a search took."""

    sentences: int
    seconds: float


@dataclass(frozen=True)
class ParsingRun(TrainedRun):
    """One search with a trained parser, with its scores."""

    part: str  # directory of the search
    trees: TrainingTrees
    scores: Scores
    repairs: Repairs
    search: Search

    @property
    def name(self) -> str:
        """The name that tables show: the training's, with the part that is not test."""
        return self.settings.name if self.part == "test" else f"{self.settings.name} {self.part}"


@dataclass(frozen=True)
class ReadSearch:
    """A search with the log of the training that made its model."""

    run: ParsingRun
    log: Log


# What several seeds have a mean of, by its name in tables
FIGURES: dict[str, Callable[[ParsingRun], float]] = {
    "F1": lambda run: run.scores.all.f1,
    "well-formed before repair, %": lambda run: run.repairs.share_well_formed,
    "development perplexity": lambda run: run.dev_perplexity,
}


# What searches must have in common to stand in one table
SAME: dict[str, Callable[[ParsingRun], object]] = {
    "test set": lambda run: run.test_set,
    "parameters of EVALB": lambda run: run.scores.parameters,
    "cutoff of short sentences": lambda run: run.scores.cutoff,
}


def read_searches(directories: Sequence[Path]) -> list[ReadSearch]:
    """Read directories of searches, RUN/PART, at least one; searches of one RUN share its log.

    Raises OSError for a missing file, and ValueError with the file and the rule for a bad one, or
    if two runs have the same name or were not scored alike.
    """
    logs: dict[Path, Log] = {}
    found = []
    for directory in directories:
        path = directory.absolute().parent / "train.log"
        logs[path] = logs.get(path) or read_log(path)
        found.append(ReadSearch(_read_search(directory, logs[path]), logs[path]))
    runs = [one.run for one in found]
    require_same(list(zip(directories, runs, strict=True)), SAME)
    require_different_names(runs)
    return found


def f1_differences(
    directories: Sequence[Path], runs: Sequence[ParsingRun]
) -> dict[str, EstimatedDifference]:
    """Test F1 of each search against the first, sentence by sentence; nothing for one search or one
    sentence.

    Raises OSError, and ValueError with the file and the rule for a bad evalb.txt.
    """
    if len(runs) < 2 or runs[0].sentences < 2:
        return {}
    counts = []
    for directory, run in zip(directories, runs, strict=True):
        path = directory / "evalb.txt"
        counts.append(read_constituents(path))
        _require_sentences(path, len(counts[-1]), run.sentences)
    first, *others = counts
    return {
        run.name: f1_difference(first, other) for run, other in zip(runs[1:], others, strict=True)
    }


def _read_search(directory: Path, log: Log) -> ParsingRun:
    run = log.path.parent
    settings = read_settings(directory / "settings.json")
    sentences, test_set = _read_test_set(directory)
    scores = read_scores(directory / "score.json")
    repairs = _read(Repairs, directory / "repairs.json")
    search = _read(Search, directory / "seconds.json")
    for file, count in (
        ("score.json", scores.all.sentences),
        ("repairs.json", repairs.sentences),
        ("seconds.json", search.sentences),
    ):
        _require_sentences(directory / file, count, sentences)
    validation = validation_of(read_log(run / "valid.log"))
    return ParsingRun(
        settings=settings,
        training=training_of(log),
        dev_perplexity=validation.perplexity,
        vocabulary=validation.source_vocabulary,  # the target side has no pieces of words
        sentences=sentences,
        test_set=test_set,
        part=directory.name,
        trees=_read(TrainingTrees, run / "data.json"),
        scores=scores,
        repairs=repairs,
        search=search,
    )


def read_scores(path: Path) -> Scores:
    """Read a score.json; raises OSError, or ValueError with the rule that it breaks."""
    return _read(Scores, path)


def parsing_run_from_json(content: Mapping, where: object) -> ParsingRun:
    """Make a ParsingRun of what dataclasses.asdict returns.

    Raises KeyError, TypeError or ValueError for any other content.
    """
    kinds = {"trees": TrainingTrees, "scores": Scores, "repairs": Repairs, "search": Search}
    parts = {key: dataclass_of(content[key], kind, where) for key, kind in kinds.items()}
    return ParsingRun(**{**restored(content, where), **parts})


def _read(kind: type[Kind], path: Path) -> Kind:
    return dataclass_of(read_json(path), kind, path)


def _read_test_set(directory: Path) -> tuple[int, str]:
    """Return how many sentences were parsed, and the SHA-256 of their words and trees."""
    paths = words, trees = directory / "words.txt", directory / "gold.trees"
    sentences, count = (len(read_lines(path)) for path in paths)
    if not sentences:
        raise ValueError(f"{words}: must have sentences, has none")
    _require_sentences(trees, count, sentences)
    return sentences, hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _require_sentences(path: Path, count: int, sentences: int) -> None:
    if count != sentences:
        raise ValueError(
            f"{path}: must be of the {sentences:,} sentences of words.txt, is of {count:,}"
        )
