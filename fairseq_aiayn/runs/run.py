"""One Run: a trained model with its scores, read from a directory that a recipe leaves.

The directory of a training is also that of its evaluation on a translation's test set:

    settings.json        how it was made, see record.py; only {"system": name} is required
    model.json           where its checkpoint and its data are, for inference/export.py
    training.json        the part of it that is known when the training starts
    train.log            fairseq-train's --log-file with --log-format json, of a finished training
    valid.log            what fairseq-validate --log-format json prints for the evaluated checkpoint
    generate-SUBSET.txt  fairseq-generate's output (kept for the record, not read)
    source.txt           the set that was translated, one detokenized sentence a line,
    reference.txt        its reference
    hypothesis.txt       and its translation
    score.json           what `aiayn bleu --json` prints for hypothesis.txt

A parser's training has a directory PART for each search: valid or test, valid-constrained or
test-constrained. Its run is RUN/PART.

    data.json            the trees it was trained on, see TrainingTrees
    train.log, valid.log as of a translation
    PART/settings.json   as of a translation
    PART/words.txt       the words of the sentences that were parsed, one sentence per line,
    PART/gold.trees      their trees
    PART/predicted.trees and what the search made of them
    PART/repairs.json    how many outputs were trees already, and what had to be repaired in others
    PART/evalb.txt       what `aiayn evalb --per-sentence` prints (not read)
    PART/score.json      what `aiayn evalb --json` prints
    PART/seconds.json    how long the search took: {"sentences": n, "seconds": s}
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_aiayn import scores
from fairseq_aiayn.files import read_dataclass, read_lines
from fairseq_aiayn.runs.logs import Log, Training, last_perplexity, read_log, training_of
from fairseq_aiayn.runs.record import Settings, read_settings
from fairseq_aiayn.scores import Bleu, Chrf
from fairseq_aiayn.treebank.evalb import Counts, TreeScores, find_parameters, score_files
from fairseq_aiayn.treebank.repair import RepairReport

__all__ = ["ParserRun", "ScoredRun", "TranslationRun", "read_counts", "read_run", "read_texts"]

GOLD = "gold.trees"  # is only in the directory of a search with a parser
PREDICTED = "predicted.trees"
TEXTS = ("source", "reference", "hypothesis")


@dataclass(frozen=True)
class Run:
    """One training with its settings and its cost, and the test set of its model."""

    settings: Settings
    training: Training
    dev_perplexity: float  # of the evaluated checkpoint, per subword
    vocabulary: int | None  # subwords
    sentences: int  # that were translated or parsed
    test_set: str  # SHA-256 of them and of what is right for them

    @property
    def name(self) -> str:
        """The name that tables show."""
        return self.settings.name


@dataclass(frozen=True)
class TranslationRun(Run):
    """A run with the scores of a translation of the test set."""

    bleu: Bleu | None  # the paper's; None where it does not apply
    sacrebleu: Bleu
    token_bleu: Bleu | None = None  # of tokens unchanged, where that was asked for
    chrf: Chrf | None = None  # where the texts are known

    @property
    def measures(self) -> dict[str, Bleu | Chrf | None]:
        """The scores by their names in tables."""
        return {
            "BLEU as the paper's": self.bleu,
            "sacreBLEU": self.sacrebleu,
            "chrF": self.chrf,
            "BLEU of tokens": self.token_bleu,
        }

    def figures(self) -> dict[str, float]:
        """Return the figures that several seeds have a mean of, by their names in tables."""
        figures = {name: each.score for name, each in self.measures.items() if each}
        return figures | {"development perplexity": self.dev_perplexity}

    def scored_on(self) -> dict[str, object]:
        """Return what runs must have in common to stand in one table."""
        return {
            "test set": self.test_set,
            "signature of the paper's BLEU": self.bleu and self.bleu.signature,
            "signature of sacreBLEU": self.sacrebleu.signature,
        }


@dataclass(frozen=True)
class TrainingTrees:
    """The trees that a parser was trained on."""

    gold: int  # sentences
    silver: int  # sentences that another parser parsed
    tags: str  # in each word's place: pos, its part of speech, or XX
    augmented: int = 0  # phrases of the gold sentences and pairs of them


@dataclass(frozen=True)
class SearchTime:
    """How long a search took."""

    sentences: int
    seconds: float


@dataclass(frozen=True)
class ParserRun(Run):
    """A run with the scores of a search with a parser."""

    part: str  # directory of the search
    trees: TrainingTrees
    scores: TreeScores
    repairs: RepairReport
    search: SearchTime

    @property
    def name(self) -> str:
        """The name of the training, with a part that is not test."""
        return self.settings.name if self.part == "test" else f"{self.settings.name} {self.part}"

    def figures(self) -> dict[str, float]:
        """Return the figures that several seeds have a mean of, by their names in tables."""
        return {
            "F1": self.scores.all.f1,
            "well-formed before repair, %": self.repairs.share_well_formed,
            "development perplexity": self.dev_perplexity,
        }

    def scored_on(self) -> dict[str, object]:
        """Return what runs must have in common to stand in one table."""
        return {
            "test set": self.test_set,
            "parameters of EVALB": self.scores.parameters,
            "cutoff of short sentences": self.scores.cutoff,
        }


ScoredRun = TranslationRun | ParserRun


def read_texts(directory: Path) -> list[list[str]]:
    """Read the sentences of TEXTS; raises OSError or ValueError."""
    return [read_lines(directory / f"{name}.txt") for name in TEXTS]


def read_counts(directory: Path, run: ParserRun) -> list[Counts]:
    """Read the constituents of each sentence of a search; raises OSError or ValueError."""
    files, parameters = (directory / GOLD, directory / PREDICTED), run.scores.parameters
    return [each.counts for each in score_files(*files, find_parameters(parameters))]


def read_run(directory: Path) -> tuple[ScoredRun, Log]:
    """Read one run directory, and return the log of its training, too; raises OSError for a missing
    file, and ValueError with the file and the rule for a bad one."""
    settings = read_settings(directory / "settings.json")
    is_parser = (directory / GOLD).exists()
    training = directory.absolute().parent if is_parser else directory
    scored = _read_parsing(directory, training) if is_parser else _read_translation(directory)
    log, validation = (read_log(training / f"{name}.log") for name in ("train", "valid"))
    # The target side of a parser has no subwords
    types = [*validation.dictionaries.values()][: -1 if is_parser else None]
    known: dict[str, Any] = {
        "settings": settings,
        "training": training_of(log),
        "dev_perplexity": last_perplexity(validation),
        "vocabulary": types[-1] if types else None,
        **scored,
    }
    return (ParserRun if is_parser else TranslationRun)(**known), log


def _read_translation(directory: Path) -> dict[str, Any]:
    score = read_dataclass(scores.Scores, directory / "score.json")
    texts = read_texts(directory)
    for name, lines in zip(TEXTS, texts, strict=True):
        _require_sentences(directory / f"{name}.txt", lines, score.sentences)
    return {
        "sentences": score.sentences,
        "test_set": hashlib.sha256("\n".join(texts[0] + texts[1]).encode()).hexdigest(),
        "bleu": score.paper,
        "sacrebleu": score.sacrebleu,
        "token_bleu": score.tokens,
    }


def _read_parsing(directory: Path, training: Path) -> dict[str, Any]:
    score = read_dataclass(TreeScores, directory / "score.json")
    files = words, gold = directory / "words.txt", directory / GOLD
    for path in files:
        _require_sentences(path, read_lines(path), score.all.sentences)
    return {
        "sentences": score.all.sentences,
        "test_set": hashlib.sha256(words.read_bytes() + gold.read_bytes()).hexdigest(),
        "part": directory.absolute().name,  # also of "."
        "trees": read_dataclass(TrainingTrees, training / "data.json"),
        "scores": score,
        "repairs": read_dataclass(RepairReport, directory / "repairs.json"),
        "search": read_dataclass(SearchTime, directory / "seconds.json"),
    }


def _require_sentences(path: Path, lines: Sequence[str], scored: int) -> None:
    if len(lines) != scored:
        expected = f"expected the {scored:,} sentences of score.json"
        raise ValueError(f"{path}: {expected}, got {len(lines):,}")
