"""Blocks and sections that translation models and parsers have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, unequal_aspects
from fairseq_aiayn.report.document import Block, Paragraph, Section, Table
from fairseq_aiayn.report.provenance import clock
from fairseq_aiayn.runs.differences import Difference
from fairseq_aiayn.runs.run_directory import AnyRun, TrainedRun
from fairseq_aiayn.runs.seeds import OverSeeds, against
from fairseq_aiayn.scores import CONFIDENCE, FEWEST, LEVEL, EstimatedDifference

MEANING_OF_P = (
    "p is how often resampled test sets show a difference as large where there is none. It says "
    "nothing about another seed, which moves the score too."
)


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


TRAINING_CELLS: dict[str, Callable[[TrainedRun], str]] = {
    "parameters": lambda run: f"{run.training.parameters:,}",
    "updates": lambda run: f"{run.training.updates:,}",
    "target tokens/s in training": lambda run: f"{run.training.tokens_per_second:,.0f}",
    "seconds of training": lambda run: f"{run.training.seconds:,.0f}",
    "wall time of training": lambda run: clock(run.training.wall_seconds),
    "peak memory of training, MiB": lambda run: _count(run.training.peak_memory),
    "peak GPU memory of training, MiB": lambda run: _count(run.training.peak_gpu_memory),
    "development perplexity": lambda run: f"{run.dev_perplexity:.2f}",
}


def column_per_run(runs: Sequence[AnyRun], lines: Mapping[str, Callable[[AnyRun], str]]) -> Table:
    """Return a table of what `lines` say of each run, without lines that are empty for all."""
    rows = [[label, *map(cell, runs)] for label, cell in lines.items()]
    return Table(["", *(run.name for run in runs)], [row for row in rows if any(row[1:])])


def over_seeds_blocks(groups: Sequence[OverSeeds]) -> list[Block]:
    """Return a table with mean ± deviation of each group, and how the others differ from the first;
    nothing if there are no groups."""
    if not groups:
        return []
    rows = []
    for group in groups:
        figures = zip(group.means, group.deviations, strict=True)
        means = [f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in figures]
        rows.append([group.name, ", ".join(map(str, group.seeds)), *means])
    header = ["mean ± standard deviation", "seeds", *groups[0].what]
    first, *others = groups
    rows += [
        [f"{other.name}, difference", "", *map(_difference_cell, against(first, other))]
        for other in others
    ]
    texts = []
    if others:
        texts.append(
            f"Differences are from {first.name}, with their {CONFIDENCE:.0%} confidence interval "
            "and p by Welch's t-test: p is how often seeds alone would make so large a difference."
        )
    texts.append("Where only one run of a group is shown, it is that of the first seed.")
    return [Table(header, rows, left=2), Paragraph(" ".join(texts))]


def _difference_cell(found: EstimatedDifference | None) -> str:
    if found is None:
        return ""
    return f"{found.difference:+.2f} ({interval(found)}; p {found.p_value:.2f})"


def interval(found: EstimatedDifference) -> str:
    """Return the confidence interval of a difference."""
    return f"{found.low:+.2f} to {found.high:+.2f}"


def verdict(p_value: float, sentences: int) -> str:
    """Say whether a difference on so many sentences is significant."""
    if sentences < FEWEST:
        return f"fewer than {FEWEST} sentences are too few to say"
    return "significant" if p_value < LEVEL else "may be chance"


def over_seeds_section(groups: Sequence[OverSeeds]) -> list[Section]:
    """Return the section on runs that differ only in their seed; nothing if no runs do."""
    return [Section("Over seeds", over_seeds_blocks(groups))] if groups else []


def differences_section(
    found: Sequence[Difference], diagnoses: Mapping[str, Diagnosis]
) -> list[Section]:
    """Return where runs differ from their rows, and from each other.

    `diagnoses` has every run by its name.
    """
    blocks = [*_diagnosis_blocks(diagnoses)]
    if len(diagnoses) > 1:
        text = (
            "Every fact and option in which the runs differ, even if one of the systems does not "
            "use it. An empty cell means that it was not given."
        )
        rows = [[one.where, one.what, *one.values] for one in found]
        table = Table(["where", "what", *diagnoses], rows, left=len(diagnoses) + 2)
        blocks += [Paragraph(text), table]
    return [Section("What differs", blocks)] if blocks else []


def _diagnosis_blocks(diagnoses: Mapping[str, Diagnosis]) -> list[Block]:
    """Return a table of where runs differ from their rows; nothing if none does."""
    by_aspect = {
        aspect: [one.findings.get(aspect) for one in diagnoses.values()]
        for aspect in unequal_aspects(diagnoses.values())
    }
    if not by_aspect:
        return []
    rows = []
    for aspect, findings in by_aspect.items():
        known = [one for one in findings if one]
        heaviest = max(known, key=lambda one: (one.differs, one.weight))
        cells = [(one.here if one.differs else "the same") if one else "" for one in findings]
        rows.append([aspect, heaviest.paper, *cells, heaviest.effect])
    header = ["", "the row of the paper or of aiayn", *diagnoses, "effect"]
    text = "Where a run differs from its row, the most important first (`aiayn diagnose`)."
    return [Paragraph(text), Table(header, rows, left=len(header))]
