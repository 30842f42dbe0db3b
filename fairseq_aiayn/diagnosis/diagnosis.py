"""The comparison of a training with a row of the paper: what costs most comes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from fairseq_aiayn.diagnosis.aspects import ASPECTS, Finding, Weight, has_sizes_of
from fairseq_aiayn.diagnosis.course import Event, events
from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.paper import BASE, E_LEARNED, ROWS, TABLE_3_D, Row
from fairseq_aiayn.settings import FIRST_RATE, OURS

# A model of base's sizes without dropout is meant to be base, and not Table 3's row without dropout
OF_OTHER_SIZES = [row for row in ROWS.values() if row not in (*TABLE_3_D, E_LEARNED)]
# What leaves an option switched off, or, for the rate, begins a warm-up at nearly 0
OFF: tuple[object, ...] = (None, False, 0, -1, "", "False", "{}", [], "none", FIRST_RATE)
# Places, and what only validations read
WITHOUT_INFLUENCE = {"arch", "task", "data", "source_lang", "target_lang"}
PREFIX_WITHOUT_INFLUENCE = "eval_"
OLD_DEFAULTS = {"upsample_primary": 1}  # before fairseq had groups of options


@dataclass(frozen=True)
class Diagnosis:
    """A training beside a row; the findings have the names of their aspects."""

    name: str
    arch: str
    row: Row
    findings: Mapping[str, Finding]  # the heaviest first, then in the order in which a run is made
    not_known: tuple[str, ...]  # names of aspects of which the files say nothing
    other_options: Mapping[str, object]  # neither fairseq's defaults nor any of the aspects'
    events: tuple[Event, ...] = ()  # what happened, the heaviest first


def diagnose(
    run: Evidence, row: Row | None = None, defaults: Mapping[str, object] | None = None
) -> Diagnosis:
    """Compare a training with a row; without one, with that of `row_of`.

    `defaults` are those of fairseq for the options that change a training.
    """
    row = row or row_of(run)
    is_judged = run.is_transformer or "arch" not in run.options
    judged = {
        aspect.name: aspect.compare(run, row) if run.options or not aspect.options else None
        for aspect in ASPECTS
        if is_judged or aspect.name in ("architecture", "task", "beginning")
    }
    known = [(name, finding) for name, finding in judged.items() if finding]
    known.sort(key=lambda pair: (not pair[1].differs, -pair[1].weight))
    return Diagnosis(
        name=run.name,
        arch=str(run.options.get("arch", "an unknown model")),
        row=row,
        findings=dict(known),
        not_known=tuple(name for name, finding in judged.items() if not finding),
        other_options=other_options(run, defaults or {}) if is_judged else {},
        events=tuple(events(run)),
    )


def row_of(run: Evidence) -> Row:
    """Return the row that a training is of, or else the nearest one.

    A recipe or an aiayn architecture names it. Otherwise it is a row with the model's sizes, if
    possible with its number of vocabularies and its dropout; if no row has its sizes, base.
    """
    arch = str(run.options.get("arch", ""))
    named = ROWS.get(run.row or (arch.removeprefix(OURS) if run.has_our("arch") else ""))
    if named:
        return named
    shares_all = run.is_on("share_all_embeddings")
    dropout = run.number("dropout")
    return max(
        (row for row in OF_OTHER_SIZES if has_sizes_of(run, row)),
        key=lambda row: (row.shared_vocabulary == shares_all, row.P_drop == dropout),
        default=BASE,
    )


def other_options(run: Evidence, defaults: Mapping[str, object]) -> dict[str, object]:
    """Return the options that have defaults but other values, and that no aspect judges."""
    judged = {option for aspect in ASPECTS for option in aspect.options}
    return {
        name: run.options[name]
        for name, default in defaults.items()
        if name in run.options and name not in judged | WITHOUT_INFLUENCE
        if not name.startswith(PREFIX_WITHOUT_INFLUENCE)
        if str(run.options[name]) != str(default)
        if run.has_groups or run.options[name] != OLD_DEFAULTS.get(name)
        if not (run.options[name] in OFF and default in OFF)
    }


def unequal_aspects(diagnoses: Iterable[Diagnosis]) -> list[str]:
    """Return the aspects in which a training differs from its row, the heaviest first."""
    weights: dict[str, Weight] = {}
    for diagnosis in diagnoses:
        for name, finding in diagnosis.findings.items():
            if finding.differs:
                weights[name] = max(finding.weight, weights.get(name, finding.weight))
    return sorted(weights, key=lambda name: -weights[name])


def as_json(diagnosis: Diagnosis) -> dict[str, object]:
    """Return a diagnosis, ready for json.dump."""
    findings = {
        name: asdict(finding) | {"weight": finding.weight.name.lower(), "differs": finding.differs}
        for name, finding in diagnosis.findings.items()
    }
    return {
        "training": diagnosis.name,
        "arch": diagnosis.arch,
        "row": diagnosis.row.name,
        "happened": [
            asdict(event) | {"weight": event.weight.name.lower()} for event in diagnosis.events
        ],
        "findings": findings,
        "not_known": list(diagnosis.not_known),
        "other_options": dict(diagnosis.other_options),
    }
