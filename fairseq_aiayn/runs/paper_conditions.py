"""The conditions of the paper's measurements, and which of them runs do not meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairseq_aiayn.paper import BASE, BIG, ROWS, TABLE_3, VOCABULARY_EN_DE, VOCABULARY_EN_FR, Row
from fairseq_aiayn.runs.published import EN_DE, EN_FR

if TYPE_CHECKING:
    from fairseq_aiayn.runs.translation_run import Run

TEST_SETS = {"valid": "newstest2013", "test": "newstest2014"}  # by what the recipes call them
VOCABULARIES = {EN_DE: VOCABULARY_EN_DE, EN_FR: VOCABULARY_EN_FR}


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
    """Is a vocabulary within 5% of one that the paper gives as "about" so large?"""
    return abs(vocabulary / paper - 1) <= 0.05


def averaged_of(row: Row, subset: str | None) -> int:
    """Return how many checkpoints the mean is of; Table 3, of the development set, has no mean."""
    is_table_3 = subset == "valid" and row in TABLE_3
    return TABLE_3_CONDITIONS.averaged if is_table_3 else row.averaged


def unmet_conditions(runs: Sequence[Run], paper: Conditions) -> str:
    """Say what the paper's figures are of and which of its conditions the runs do not meet.

    The text is empty if every run meets every condition.
    """
    values_of_ours: dict[str, list[str]] = {}  # what each run has, by the name of the condition
    unmet = set()
    for run in runs:
        for name, value, is_met in _compare(run, paper):
            values_of_ours.setdefault(name, []).append(_text(value))
            if not is_met:
                unmet.add(name)
    ours = [
        f"{name} {' or '.join(dict.fromkeys(values))}"
        for name, values in values_of_ours.items()
        if name in unmet
    ]
    return f"The paper's figures are of {paper}; ours: {', '.join(ours)}." if ours else ""


def _compare(run: Run, paper: Conditions) -> list[tuple[str, object, bool]]:
    """Return each condition's name, what the run has, and whether the paper has the same."""
    settings, updates, vocabulary = run.settings, run.training.updates, run.vocabulary
    is_about_theirs = is_about(vocabulary or 0, VOCABULARIES[paper.corpus])
    return [
        ("corpus", settings.corpus, settings.corpus == paper.corpus),
        ("subset", settings.subset, settings.subset == paper.subset),
        ("updates", updates, updates == ROWS[settings.row].steps),
        ("vocabulary", vocabulary, is_about_theirs),
        ("averaged checkpoints", settings.averaged, settings.averaged == paper.averaged),
    ]


def _text(value: object) -> str:
    if value is None:
        return "not recorded"
    return f"{value:,}" if isinstance(value, int) else str(value)
