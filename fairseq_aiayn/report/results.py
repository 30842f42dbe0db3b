"""The results of a set of runs: read from run directories or from JSON, and written as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path

from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, diagnose
from fairseq_aiayn.diagnosis.diagnosis import as_json as diagnosis_as_json
from fairseq_aiayn.diagnosis.evidence import evidence_of_run
from fairseq_aiayn.paper import TABLE_3
from fairseq_aiayn.report.significance import (
    EstimatedDifference,
    Significance,
    f1_difference,
    paired_bootstrap,
)
from fairseq_aiayn.runs.differences import Difference, run_differences
from fairseq_aiayn.runs.logs import Points
from fairseq_aiayn.runs.run import (
    ParserRun,
    ScoredRun,
    TranslationRun,
    read_counts,
    read_run,
    read_texts,
)
from fairseq_aiayn.runs.seeds import OverSeeds, over_seeds
from fairseq_aiayn.scores import corpus_chrf, tokenizer_in

__all__ = ["read_report"]

COMPARISON, TABLE3, TABLE4 = "comparison", "table3", "table4"  # kinds, as JSON names them
TABLE_3_ROWS = [row.name for row in TABLE_3]


@dataclass(frozen=True)
class Example:
    """One sentence with the translation of each run."""

    sentence: int  # from 1
    source: str
    reference: str
    translations: dict[str, str]  # by the name of the run


@dataclass(frozen=True)
class Results:
    """Runs that stand in one table."""

    kind: str
    runs: tuple[ParserRun | TranslationRun, ...]
    examples: tuple[Example, ...] = ()  # of translations
    unfinished: tuple[dict[str, str], ...] = ()  # of Table 3: each one's name and the reason
    # Of parsers: of each run from the first, by its name
    f1_differences: dict[str, EstimatedDifference] = field(default_factory=dict)

    @cached_property
    def seeds(self) -> list[OverSeeds]:
        """The runs that differ only in their seed."""
        return over_seeds(self.runs)

    @cached_property
    def first_runs(self) -> list[ScoredRun]:
        """The runs without those that repeat an earlier one with another seed."""
        repeated = {name for group in self.seeds for name in group.runs[1:]}
        return [run for run in self.runs if run.name not in repeated]


@dataclass(frozen=True)
class Report(Results):
    """Results with what the runs' logs and texts say; dictionaries have the names of runs."""

    differences: Sequence[Difference] = ()
    diagnoses: Mapping[str, Diagnosis] = field(default_factory=dict)
    curves: Mapping[str, Mapping[str, Points]] = field(default_factory=dict)  # by training
    significance: Significance | None = None  # of two translations or more, against the first


def read_report(directories: Sequence[Path], examples: int) -> Report:
    """Read run directories, at least one, and choose so many examples; raises OSError for a
    missing file, and ValueError with the file and the rule for a bad one, or if runs do not
    compare."""
    runs, logs = zip(*map(read_run, directories), strict=True)
    if len({run.name for run in runs}) < len(runs):  # by several recipes, or with other options
        runs = tuple(
            replace(run, settings=replace(run.settings, name=str(path)))
            for path, run in zip(directories, runs, strict=True)
        )
    require_comparable(directories, runs)
    known = {run.name: evidence_of_run(run, log) for run, log in zip(runs, logs)}
    report = Report(
        TABLE4 if isinstance(runs[0], ParserRun) else COMPARISON,
        runs,
        differences=run_differences(runs, [evidence.options for evidence in known.values()]),
        diagnoses={name: diagnose(evidence) for name, evidence in known.items()},
        curves={evidence.name: evidence.curves for evidence in known.values()},
    )
    if report.kind == TABLE4:
        return replace(report, f1_differences=_f1_differences(directories, runs))
    return _with_texts(report, directories, examples)


def _f1_differences(
    directories: Sequence[Path], runs: Sequence[ParserRun]
) -> dict[str, EstimatedDifference]:
    """Test F1 of each search against the first, sentence by sentence; one sentence is too few."""
    if len(runs) < 2 or runs[0].sentences < 2:
        return {}
    first, *others = map(read_counts, directories, runs)
    return {run.name: f1_difference(first, other) for run, other in zip(runs[1:], others)}


def _with_texts(report: Report, directories: Sequence[Path], count: int) -> Report:
    """Add what the translations say beyond their BLEU, with so many examples."""
    source, reference, _ = read_texts(directories[0])
    runs, translations = [], {}
    for run, directory in zip(report.runs, directories, strict=True):
        translations[run.name] = lines = read_texts(directory)[2]
        assert isinstance(run, TranslationRun)  # as the first is
        runs.append(replace(run, chrf=corpus_chrf(lines, reference)))
    count = min(count, len(source))
    middles = [len(source) * (2 * n + 1) // (2 * count) for n in range(count)]  # of equal parts
    examples = tuple(
        Example(k + 1, source[k], reference[k], {name: of[k] for name, of in translations.items()})
        for k in middles
    )
    tokenizer = tokenizer_in(runs[0].sacrebleu.signature)
    tested = paired_bootstrap(translations, reference, tokenizer) if len(runs) > 1 else None
    return replace(report, runs=tuple(runs), examples=examples, significance=tested)


def read_table3(directories: Sequence[Path]) -> Results:
    """Read run directories, finished or not; an unfinished run keeps its name and the reason.
    Raises ValueError for runs that are not of Table 3 or were not scored alike."""
    finished: dict[Path, TranslationRun] = {}
    unfinished = []
    for directory in directories:
        try:
            run, _ = read_run(directory)
        except (OSError, ValueError) as error:
            reason = str(error).replace(f"{directory}/", "")
            unfinished.append({"name": directory.resolve().name, "reason": reason})
            continue
        if not isinstance(run, TranslationRun) or run.settings.row not in TABLE_3_ROWS:
            expected = f"{directory}: expected a row of Table 3, {', '.join(TABLE_3_ROWS)}"
            raise ValueError(f"{expected}, got {run.settings.row}")
        finished[directory] = run
    require_comparable(list(finished), list(finished.values()))
    systems = list(dict.fromkeys(run.settings.system for run in finished.values()))
    runs = sorted(finished.values(), key=lambda run: systems.index(run.settings.system))
    runs.sort(key=lambda run: TABLE_3_ROWS.index(str(run.settings.row)))
    return Results(TABLE3, tuple(runs), unfinished=tuple(unfinished))


def require_comparable(directories: Sequence[Path], runs: Sequence[ScoredRun]) -> None:
    """Raise ValueError if two runs have the same name, or were not scored as the first."""
    seen: dict[str, Path] = {}
    for path, run in zip(directories, runs, strict=True):
        if run.name in seen:
            raise ValueError(f"{path}: expected another name than {seen[run.name]}, got {run.name}")
        seen[run.name] = path
        first, values = runs[0].scored_on(), run.scored_on()
        for what, value in first.items():
            if values.get(what) != value:
                expected = f"{path}: expected the {what} of {directories[0]}, {value}"
                raise ValueError(f"{expected}, got {values.get(what, 'none')}")


def results_as_json(results: Results) -> str:
    """Return all figures as JSON; infinities and NaN, which JSON lacks, are null."""
    from pydantic import TypeAdapter

    content = {part.name: getattr(results, part.name) for part in fields(results)}
    content["seeds"] = results.seeds
    if isinstance(results, Report):
        diagnoses = results.diagnoses.items()
        content["diagnoses"] = {name: diagnosis_as_json(found) for name, found in diagnoses}
    text = TypeAdapter(object).dump_json(content)
    finite = json.loads(text, parse_constant=lambda name: None)
    return json.dumps(finite, indent=2, ensure_ascii=False) + "\n"
