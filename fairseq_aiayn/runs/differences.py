"""What differs between runs, and between runs and the measurements that the paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairseq_aiayn.paper import (
    BASE,
    BIG,
    ROWS,
    TABLE_2,
    TABLE_3,
    VOCABULARY_EN_DE,
    VOCABULARY_EN_FR,
    Published,
    Row,
)
from fairseq_aiayn.runs.record import SEARCH, TRAIN, Settings, papers_search

if TYPE_CHECKING:
    from fairseq_aiayn.runs.run import Run

# Options that say where a run lies and by what port its processes met, not how it was made
PLACES = {
    *("--distributed-init-method", "--distributed-port", "--data"),
    *("--save-dir", "--log-file", "--path", "--results-path", "--user-dir", "--dir", "--output"),
    *("--hypothesis", "--reference", "--tokens", "--words", "--gold", "--restore-file"),
}
FACTS = ("system", "row", "corpus", "subset", "seed", "averaged", "device", "gpus", "nodes")
EN_DE, EN_FR = "wmt14_en_de", "wmt14_en_fr"  # as the recipes call the paper's corpora
TABLE_3_ROWS = {row.name for row in TABLE_3}
VOCABULARIES = {EN_DE: VOCABULARY_EN_DE, EN_FR: VOCABULARY_EN_FR}
TEST_SETS = {"valid": "newstest2013", "test": "newstest2014"}  # by what the recipes call them
TABLE_2_MODELS = {model.model: model for model in TABLE_2}
TABLE_2_BLEU = {  # by row and corpus
    ("base", EN_DE): TABLE_2_MODELS["Transformer (base)"].bleu_en_de,
    ("base", EN_FR): TABLE_2_MODELS["Transformer (base)"].bleu_en_fr,
    ("big", EN_DE): TABLE_2_MODELS["Transformer (big)"].bleu_en_de,
    ("big_en_fr", EN_FR): TABLE_2_MODELS["Transformer (big)"].bleu_en_fr,
}


@dataclass(frozen=True)
class Difference:
    """Something that is not the same for all runs."""

    where: str  # a stage of the recipe, "run", "package" or "machine"
    what: str
    values: tuple[str, ...]  # of each run; empty where it has none


def run_differences(
    runs: Sequence[Run], logged: Sequence[Mapping[str, object]]
) -> list[Difference]:
    """List all that differs between runs, in the order in which a run is made.

    `logged` has the options that the log of each training shows, defaults included, or nothing.
    An option that only some systems have is listed if a command asked for it.
    """
    settings = [run.settings for run in runs]
    differences = _unequal("run", [_facts(run) for run in runs])
    for stage in _keys([each.commands for each in settings]):
        options: Sequence[Mapping[str, object]] = [each.options(stage) for each in settings]
        if stage == TRAIN and all(logged):
            options = _with_defaults(options, logged)
        elif stage == SEARCH:
            options = [papers_search(each) | each.options(stage) for each in settings]
        differences += _unequal(stage, options)
    differences += _unequal("package", [each.packages for each in settings])
    machines = [
        each.hardware | {"gpus": ", ".join(each.hardware.get("gpus", []))} for each in settings
    ]
    return differences + _unequal("machine", machines)


def _unequal(where: str, mappings: Sequence[Mapping[str, object]]) -> list[Difference]:
    """Return a difference for each key, but for places, whose values are not the same in all."""
    differences = []
    for key in _keys(mappings):
        found = [mapping.get(key) for mapping in mappings]
        values = tuple("" if value is None else str(value) for value in found)
        if len(set(values)) > 1 and key not in PLACES:
            differences.append(Difference(where, key, values))
    return differences


def _facts(run: Run) -> dict[str, object]:
    """Return what a run is, apart from its commands, packages and machine."""
    facts = {name: getattr(run.settings, name) for name in FACTS}
    return {**facts, "vocabulary": run.vocabulary, "commit": run.settings.commit}


def _with_defaults(
    asked: Sequence[Mapping[str, object]], logged: Sequence[Mapping[str, object]]
) -> list[dict[str, object]]:
    """Return the logged options that all runs have, or that a command asked for."""
    options = [
        {f"--{key.replace('_', '-')}": value for key, value in each.items() if key[0] != "_"}
        for each in logged
    ]
    asked_for = set(_keys(asked))
    shown = [
        name for name in _keys(options) if name in asked_for or all(name in own for own in options)
    ]
    return [{name: own[name] for name in shown if name in own} for own in options]


def _keys(mappings: Sequence[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def published(settings: Settings) -> Published | None:
    """Return Table 2's BLEU for a test set, and Table 3's results for newstest2013.

    The result is None if the paper prints nothing of this row, corpus and subset.
    """
    row = settings.row or ""
    if settings.subset == "test":
        bleu = TABLE_2_BLEU.get((row, settings.corpus or ""))
        return Published(bleu=bleu) if bleu else None
    if (settings.corpus, settings.subset) == (EN_DE, "valid") and row in TABLE_3_ROWS:
        return ROWS[row].published
    return None


@dataclass(frozen=True)
class Conditions:
    """The conditions of some figures of the paper."""

    corpus: str
    subset: str  # valid or test
    updates: str  # in words
    averaged: int  # checkpoints; 1 = none

    def __str__(self) -> str:
        mean = f"the mean of the last {self.averaged} checkpoints"
        return (
            f"{TEST_SETS[self.subset]} (corpus {self.corpus}, subset {self.subset}), "
            f"{self.updates}, a vocabulary of about {VOCABULARIES[self.corpus]:,} and "
            f"{mean if self.averaged > 1 else 'no averaging'}"
        )


TABLE_3_CONDITIONS = Conditions(
    EN_DE, "valid", f"{BASE.steps:,} updates (big {BIG.steps:,})", averaged=1
)


def conditions_of(row: Row, corpus: str, subset: str) -> Conditions:
    """Return the conditions of Table 2 for a test set, and of Table 3 for newstest2013."""
    return Conditions(corpus, subset, f"{row.steps:,} updates", averaged_of(row, subset))


def is_about(vocabulary: int, paper: int) -> bool:
    """Return whether a vocabulary is within 5% of one that the paper calls "about" so large."""
    return abs(vocabulary / paper - 1) <= 0.05


def averaged_of(row: Row, subset: str | None) -> int:
    """Return how many checkpoints the mean is of; Table 3, of the validation set, has no mean."""
    return 1 if subset == "valid" and row in TABLE_3 else row.averaged


def unmet_conditions(runs: Sequence[Run], paper: Conditions) -> str:
    """Say what the paper's figures are of and which of its conditions the runs do not meet.

    The text is empty if every run meets every condition.
    """
    ours = []
    for name in _conditions(runs[0], paper):
        values, are_met = zip(*(_conditions(run, paper)[name] for run in runs), strict=True)
        if not all(are_met):
            ours.append(f"{name} {' or '.join(dict.fromkeys(map(_recorded, values)))}")
    return f"The paper's figures are of {paper}; ours: {', '.join(ours)}." if ours else ""


def _conditions(run: Run, paper: Conditions) -> dict[str, tuple[object, bool]]:
    """Return what a run has of each condition, and whether the paper has the same."""
    settings, updates, vocabulary = run.settings, run.training.updates, run.vocabulary
    is_about_theirs = is_about(vocabulary or 0, VOCABULARIES[paper.corpus])
    return {
        "corpus": (settings.corpus, settings.corpus == paper.corpus),
        "subset": (settings.subset, settings.subset == paper.subset),
        "updates": (updates, updates == ROWS[str(settings.row)].steps),
        "vocabulary": (vocabulary, is_about_theirs),
        "averaged checkpoints": (settings.averaged, settings.averaged == paper.averaged),
    }


def _recorded(value: object) -> str:
    if value is None:
        return "not recorded"
    return f"{value:,}" if isinstance(value, int) else str(value)
