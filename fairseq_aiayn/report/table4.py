"""Runs of the parser of section 6.3 that stand in one Table 4: all of one test set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.paper import SEMI_SUPERVISED, WSJ_ONLY
from fairseq_aiayn.runs.parsing_run import ParsingRun, read_parsing_run
from fairseq_aiayn.runs.run_directory import require_different_names, require_same

WSJ = ("wsj", "wsj_semi_supervised")  # as the recipe calls the paper's corpora
SECTION_23 = 2_416  # sentences

# What runs must have in common to stand in one table.
SAME: dict[str, Callable[[ParsingRun], object]] = {
    "test set": lambda run: run.test_set,
    "parameters of EVALB": lambda run: run.scores.parameters,
    "cutoff of short sentences": lambda run: run.scores.cutoff,
}


@dataclass(frozen=True)
class Table4:
    """Runs that stand beside the paper's."""

    runs: tuple[ParsingRun, ...]


def read_table4(directories: Sequence[Path]) -> Table4:
    """Read directories of searches, RUN/PART, at least one.

    Raises ValueError if two runs have the same name or were not scored alike, and as
    `read_parsing_run`.
    """
    runs = [read_parsing_run(directory) for directory in directories]
    require_same(list(zip(directories, runs, strict=True)), SAME)
    require_different_names(runs)
    return Table4(tuple(runs))


def training_of(run: ParsingRun) -> str:
    """Say on what a run was trained: in the paper's words where it was the paper's corpus."""
    trees, corpus = run.trees, run.settings.corpus or "not recorded"
    if corpus in WSJ:
        corpus = SEMI_SUPERVISED if trees.silver else WSJ_ONLY
    silver = f", {trees.silver:,} silver" if trees.silver else ""
    return f"{corpus}: {trees.gold:,} gold{silver} sentences"


def parsed(run: ParsingRun) -> str:
    """Say what was parsed."""
    settings = run.settings
    return (
        f"corpus {settings.corpus or 'not recorded'}, subset {settings.subset or 'not recorded'}, "
        f"{run.sentences:,} sentences"
    )


def is_section_23(run: ParsingRun) -> bool:
    """Was the paper's test set parsed?"""
    settings = run.settings
    return (settings.corpus in WSJ, settings.subset, run.sentences) == (True, "test", SECTION_23)


def most_frequent_labels(runs: Sequence[ParsingRun], count: int) -> list[str]:
    """Return the labels that the gold trees have most often, the most frequent first."""
    labels = runs[0].scores.labels
    return sorted(labels, key=lambda label: (-labels[label].gold, label))[:count]
