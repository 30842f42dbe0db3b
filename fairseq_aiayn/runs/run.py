"""One Run: a trained model with its scores, read from a directory that a recipe leaves.

The directory of a training is also that of its evaluation on a translation's test set:

    settings.json        how it was made, see record.py; only {"system": name} is required
    training.json        the part of it that is known when the training starts (not read)
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
    PART/gold.trees      and their trees
    PART/repairs.json    how many outputs were trees already, and what had to be repaired in others
    PART/evalb.txt       what `aiayn evalb --per-sentence` prints
    PART/score.json      what `aiayn evalb --json` prints
    PART/seconds.json    how long the search took: {"sentences": n, "seconds": s}
"""

from __future__ import annotations

import hashlib
import math
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from fairseq_aiayn import scores
from fairseq_aiayn.runs.differences import run_differences
from fairseq_aiayn.runs.logs import Log, Training, read_log, training_of, validation_of
from fairseq_aiayn.runs.record import TRAIN, Settings, read_settings
from fairseq_aiayn.scores import CONFIDENCE, Bleu, EstimatedDifference, f1_difference
from fairseq_aiayn.text import dataclass_of, read_dataclass, read_lines
from fairseq_aiayn.treebank import evalb

GOLD = "gold.trees"  # is only in the directory of a search with a parser
# In what runs of several seeds may differ; where and by what machine changes no mathematics
FREE = {"seed", "--seed", "commit"}
FREE_PLACES = {"machine", "package"}


@dataclass(frozen=True)
class Translation:
    """The scores of a translation of the test set."""

    bleu: Bleu  # the paper's
    sacrebleu: Bleu
    token_bleu: Bleu | None = None  # of tokens unchanged, where that was asked for


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
class SearchTime:
    """How long a search took."""

    sentences: int
    seconds: float


@dataclass(frozen=True)
class Parsing:
    """The scores of a search with a parser."""

    part: str  # directory of the search
    trees: TrainingTrees
    scores: evalb.Scores
    repairs: Repairs
    search: SearchTime


@dataclass(frozen=True)
class Run:
    """One training with its settings and its cost, and the scores of its model."""

    settings: Settings
    training: Training
    dev_perplexity: float  # of the evaluated checkpoint, per subword
    vocabulary: int | None  # subwords
    sentences: int  # that were translated or parsed
    test_set: str  # SHA-256 of them and of what is right for them
    scores: Translation | Parsing

    @property
    def name(self) -> str:
        """The name that tables show: the training's, with a parser's part that is not test."""
        part = self.scores.part if isinstance(self.scores, Parsing) else "test"
        return self.settings.name if part == "test" else f"{self.settings.name} {part}"

    @property
    def translation(self) -> Translation:
        """The scores of a translation model."""
        assert isinstance(self.scores, Translation)
        return self.scores

    @property
    def parsing(self) -> Parsing:
        """The scores of a parser."""
        assert isinstance(self.scores, Parsing)
        return self.scores


@dataclass(frozen=True)
class Texts:
    """The sentences of the test set, with their references and translations."""

    source: tuple[str, ...]
    reference: tuple[str, ...]
    hypothesis: tuple[str, ...]


@dataclass(frozen=True)
class RunFiles:
    """A run with the files that were read for it."""

    directory: Path
    run: Run
    log: Log  # of the training
    texts: Texts  # empty for a parser


def read_runs(directories: Sequence[Path]) -> list[RunFiles]:
    """Read run directories, at least one; searches of one RUN share its log.

    Raises ValueError if some are of parsers and some are not, if two runs have the same name or
    were not scored alike, and as `read_run`.
    """
    kinds = [_is_parser(directory) for directory in directories]
    if len(set(kinds)) > 1:
        parser, other = directories[kinds.index(True)], directories[kinds.index(False)]
        raise ValueError(f"{parser} is of a parser, {other} is not: they do not compare")
    log_of = cache(read_log)
    files = [read_run(directory, log_of) for directory in directories]
    require_same([(each.directory, each.run) for each in files], scored_alike)
    names = [each.run.name for each in files]
    if len(set(names)) < len(names):
        raise ValueError(f"runs must have different names, got {', '.join(names)}")
    return files


def read_run(directory: Path, log_of: Callable[[Path], Log] = read_log) -> RunFiles:
    """Read one run directory; `log_of` reads a log, or returns one that was read already.

    Raises OSError for a missing file, and ValueError with the file and the rule for a bad one.
    """
    settings = read_settings(directory / "settings.json")
    training = directory
    if _is_parser(directory):
        training = directory.absolute().parent
        files = words, trees = directory / "words.txt", directory / GOLD
        texts, sentences = Texts((), (), ()), len(read_lines(words))
        test_set = b"".join(path.read_bytes() for path in files)
        own: Translation | Parsing = _read_parsing(directory, sentences, len(read_lines(trees)))
    else:
        own, texts = _read_translation(directory)
        sentences = len(texts.source)
        test_set = "\n".join((*texts.source, *texts.reference)).encode()
    log = log_of(training / "train.log")
    validation = validation_of(log_of(training / "valid.log"))
    # The target side of a parser has no subwords
    vocabularies = validation.vocabulary, validation.source_vocabulary
    run = Run(
        settings=settings,
        training=training_of(log),
        dev_perplexity=validation.perplexity,
        vocabulary=vocabularies[isinstance(own, Parsing)],
        sentences=sentences,
        test_set=hashlib.sha256(test_set).hexdigest(),
        scores=own,
    )
    return RunFiles(directory, run, log, texts)


def _is_parser(directory: Path) -> bool:
    return (directory / GOLD).exists()


def _read_translation(directory: Path) -> tuple[Translation, Texts]:
    path = directory / "score.json"
    own = read_dataclass(scores.Scores, path)
    paths = [directory / f"{name}.txt" for name in ("source", "reference", "hypothesis")]
    source, *others = (tuple(read_lines(path)) for path in paths)
    for file, lines in zip(paths[1:], others, strict=True):
        if len(lines) != len(source):
            raise ValueError(
                f"{file}: must have the {len(source)} lines of source.txt, has {len(lines)}"
            )
    if not source or own.sentences != len(source):
        raise ValueError(
            f"{path}: must be of the {len(source):,} sentences of source.txt, at least one, "
            f"is of {own.sentences}"
        )
    return Translation(own.paper, own.sacrebleu, own.tokens), Texts(source, *others)


def _read_parsing(directory: Path, sentences: int, gold: int) -> Parsing:
    """Return a search's scores; raises ValueError for a file that is not of all its sentences."""
    if not sentences:
        raise ValueError(f"{directory / 'words.txt'}: must have sentences, has none")
    own = Parsing(
        part=directory.name,
        trees=read_dataclass(TrainingTrees, directory.absolute().parent / "data.json"),
        scores=read_dataclass(evalb.Scores, directory / "score.json"),
        repairs=read_dataclass(Repairs, directory / "repairs.json"),
        search=read_dataclass(SearchTime, directory / "seconds.json"),
    )
    counts = {
        GOLD: gold,
        "score.json": own.scores.all.sentences,
        "repairs.json": own.repairs.sentences,
        "seconds.json": own.search.sentences,
    }
    for name, count in counts.items():
        _require_sentences(directory / name, count, sentences)
    return own


def _require_sentences(path: Path, count: int, sentences: int) -> None:
    if count != sentences:
        raise ValueError(
            f"{path}: must be of the {sentences:,} sentences of words.txt, is of {count:,}"
        )


def scored_alike(run: Run) -> dict[str, object]:
    """Return what runs must have in common to stand in one table."""
    if isinstance(run.scores, Translation):
        return {
            "test set": run.test_set,
            "signature of the paper's BLEU": run.scores.bleu.signature,
            "signature of sacreBLEU": run.scores.sacrebleu.signature,
        }
    return {
        "test set": run.test_set,
        "parameters of EVALB": run.scores.scores.parameters,
        "cutoff of short sentences": run.scores.scores.cutoff,
    }


def require_same(
    runs: Sequence[tuple[Path, Run]], values_of: Callable[[Run], Mapping[str, object]]
) -> None:
    """Raise ValueError, with both directories, if a value of a run is not that of the first."""
    for path, run in runs[1:]:
        first, values = values_of(runs[0][1]), values_of(run)
        for what, value in values.items():
            if value != first[what]:
                raise ValueError(
                    f"{path}: must have the {what} of {runs[0][0]}, {first[what]}, has {value}"
                )


def run_as_json(run: Run) -> dict[str, object]:
    """Return a run, ready for json.dump: one object, with the scores' fields among the run's."""
    content = asdict(run)
    return content | content.pop("scores")


def run_from_json(content: Mapping, where: object) -> Run:
    """Make a Run of what `run_as_json` returns; raises KeyError or ValueError for anything else."""
    own: Translation | Parsing
    if "part" in content:
        own = dataclass_of(content, Parsing, where)
    else:
        own = dataclass_of(content, Translation, where)
    perplexity = content["dev_perplexity"]
    return Run(
        settings=dataclass_of(content["settings"], Settings, where),
        training=dataclass_of(content["training"], Training, where),
        # JSON has no number for that of a training that diverged
        dev_perplexity=math.nan if perplexity is None else perplexity,
        vocabulary=content["vocabulary"],
        sentences=content["sentences"],
        test_set=content["test_set"],
        scores=own,
    )


def f1_differences(runs: Sequence[RunFiles]) -> dict[str, EstimatedDifference]:
    """Test F1 of each search against the first, sentence by sentence; nothing for one search or one
    sentence.

    Raises OSError, and ValueError with the file and the rule for a bad evalb.txt.
    """
    if len(runs) < 2 or runs[0].run.sentences < 2:
        return {}
    counts = []
    for each in runs:
        path = each.directory / "evalb.txt"
        counts.append(evalb.read_constituents(path))
        _require_sentences(path, len(counts[-1]), each.run.sentences)
    first, *others = counts
    return {
        each.run.name: f1_difference(first, other)
        for each, other in zip(runs[1:], others, strict=True)
    }


# Runs that differ only in their seed


@dataclass(frozen=True)
class OverSeeds:
    """Figures of each run, their mean and their sample standard deviation, all in the order of
    `what`."""

    name: str  # of all the runs: theirs without the seed
    runs: tuple[str, ...]  # names, two or more, of different seeds
    seeds: tuple[int | None, ...]
    what: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]  # of each run
    means: tuple[float, ...]
    deviations: tuple[float, ...]


def figures(run: Run) -> dict[str, float]:
    """Return the figures that several seeds have a mean of, by their names in tables."""
    own, perplexity = run.scores, {"development perplexity": run.dev_perplexity}
    if isinstance(own, Parsing):
        return {
            "F1": own.scores.all.f1,
            "well-formed before repair, %": own.repairs.share_well_formed,
            **perplexity,
        }
    return {
        **({"BLEU of tokens": own.token_bleu.score} if own.token_bleu else {}),
        "BLEU as the paper's": own.bleu.score,
        "sacreBLEU": own.sacrebleu.score,
        **perplexity,
    }


def over_seeds(runs: Sequence[Run]) -> list[OverSeeds]:
    """Group runs that differ only in their seed, and describe each group of two or more by the
    figures that all runs have.

    The first of several runs with one seed counts.
    """
    groups: list[list[Run]] = []
    for candidate in runs:
        home = next((group for group in groups if _alike(group[0], candidate)), None)
        if home is None:
            groups.append([candidate])
        elif all(run.settings.seed != candidate.settings.seed for run in home):
            home.append(candidate)
    of_all = [figures(run) for run in runs]
    what = [name for name in of_all[0] if all(name in each for each in of_all)]
    return [_over_seeds(group, what) for group in groups if len(group) > 1]


def first_seeds(runs: Sequence[Run], groups: Sequence[OverSeeds]) -> list[Run]:
    """Return the runs without those that repeat an earlier one with another seed."""
    repeated = {name for group in groups for name in group.runs[1:]}
    return [run for run in runs if run.name not in repeated]


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation of two values or more; nan if one, as of a training that
    diverged, is not a number."""
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def against(first: OverSeeds, other: OverSeeds) -> list[EstimatedDifference | None]:
    """Test each mean of `other` against that of `first` by Welch's t-test: would other seeds show
    the difference, too?

    None stands for a figure that does not vary at all, or is not always a number.
    """
    return [_contrast(*pair) for pair in zip(first.values, other.values, strict=True)]


def _contrast(first: Sequence[float], other: Sequence[float]) -> EstimatedDifference | None:
    from scipy.stats import ttest_ind  # here: it takes a second, and most commands need no test

    if len(set(first)) == len(set(other)) == 1 or not all(map(math.isfinite, (*first, *other))):
        return None
    with warnings.catch_warnings(action="ignore"):  # equal values of one group do no harm
        test = ttest_ind(other, first, equal_var=False)
    interval = test.confidence_interval(CONFIDENCE)
    return EstimatedDifference(
        difference=statistics.mean(other) - statistics.mean(first),
        low=float(interval.low),
        high=float(interval.high),
        p_value=float(test.pvalue),
    )


def _alike(run: Run, other: Run) -> bool:
    """Return whether two runs differ in nothing but their seed, by the commands that made them."""
    # With --patience, the validations of a run decide for how many updates it is trained
    stops_early = "--patience" in run.settings.options(TRAIN)
    if run.training.updates != other.training.updates and not stops_early:
        return False
    differences = run_differences([run, other], [{}, {}])
    return all(each.what in FREE or each.where in FREE_PLACES for each in differences)


def _over_seeds(group: Sequence[Run], what: Sequence[str]) -> OverSeeds:
    values = tuple(tuple(figures(run)[name] for run in group) for name in what)
    return OverSeeds(
        name=", ".join(dict.fromkeys(map(_without_seed, group))),
        runs=tuple(run.name for run in group),
        seeds=tuple(run.settings.seed for run in group),
        what=tuple(what),
        values=values,
        means=tuple(map(statistics.mean, values)),
        deviations=tuple(map(deviation, values)),
    )


def _without_seed(run: Run) -> str:
    """Return a run's name without the seed, if that is the end of its training's name."""
    training = run.settings.name
    return run.name.replace(training, training.removesuffix(f"-{run.settings.seed}"), 1)
