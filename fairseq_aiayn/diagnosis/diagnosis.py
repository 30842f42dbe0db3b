"""The comparison of a training with a row of the paper: what costs most comes first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from fairseq_aiayn.diagnosis.aspects import judge, row_sizes, run_sizes
from fairseq_aiayn.diagnosis.course import Event, events
from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.diagnosis.findings import Finding, commands
from fairseq_aiayn.paper import BASE, E_LEARNED, ROWS, TABLE_3_D, Row
from fairseq_aiayn.settings import FIRST_RATE, OURS

__all__ = ["Diagnosis", "as_json", "diagnose", "unequal_aspects"]

# A model of base's sizes without dropout is meant to be base, and not Table 3's row without dropout
OF_OTHER_SIZES = [row for row in ROWS.values() if row not in (*TABLE_3_D, E_LEARNED)]
# fairseq's defaults, with any task, criterion, optimizer and schedule of a translation, of options
# that change an update and that no aspect judges
DEFAULTS = Path(__file__).with_name("defaults.json")
# What leaves an option switched off, or, for the rate, begins a warm-up at nearly 0
OFF = {"None", "False", "0", "0.0", "-1", "-1.0", "", "{}", "[]", "none", f"{FIRST_RATE}"}


@dataclass(frozen=True)
class Diagnosis:
    """A training beside a row; the findings have the names of their aspects."""

    name: str
    arch: str
    row: Row
    findings: Mapping[str, Finding]  # the heaviest first, then in the order in which a run is made
    not_known: tuple[str, ...]  # names of aspects of which the files say nothing
    other_options: Mapping[str, object]  # neither fairseq's defaults nor any of the aspects'
    events: tuple[Event, ...]  # what happened, the heaviest first
    commands: Mapping[str, str]  # that train as the row, by what they use


def diagnose(run: Evidence, row: Row | None = None) -> Diagnosis:
    """Compare a training with a row; without one, with that of `row_of`."""
    is_judged = run.is_transformer or bool((row or run.row) and "arch" not in run.options)
    row = row or row_of(run)
    happened = events(run, row)
    failed = any(each.blames_rate for each in happened)
    judged = dict(judge(run, row, is_judged, failed))
    known = [(name, found) for name, found in judged.items() if found]
    known.sort(key=lambda pair: (not pair[1].differs, -pair[1].weight))
    return Diagnosis(
        name=run.name,
        arch=str(run.options.get("arch", "an unknown model")),
        row=row,
        findings=dict(known),
        not_known=tuple(name for name, finding in judged.items() if not finding),
        other_options=other_options(run.options) if is_judged else {},
        events=tuple(happened),
        commands=commands(run, row),
    )


def row_of(run: Evidence) -> Row:
    """Return the row that a recipe or an aiayn architecture names, or else one with the model's
    sizes, if possible with its vocabularies and its dropout; if no row has its sizes, base."""
    named = ROWS.get(run.row or str(run.options.get("arch")).removeprefix(OURS))
    if named and (run.row or run.is_ours("arch")):
        return named
    sizes, shares_all = run_sizes(run), run.is_on("share_all_embeddings")
    return max(
        (row for row in OF_OTHER_SIZES if row_sizes(row) == sizes),
        key=lambda row: (row.shared_vocabulary == shares_all, row.P_drop == run.number("dropout")),
        default=BASE,
    )


def other_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that have none of fairseq's defaults, and that no aspect judges."""
    defaults: dict[str, list[str]] = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    return {
        name: options[name]
        for name, usual in defaults.items()
        if name in options and str(options[name]) not in usual
        if str(options[name]) not in OFF or OFF.isdisjoint(usual)
    }


def unequal_aspects(diagnoses: Iterable[Diagnosis]) -> list[str]:
    """Return the aspects in which a training differs from its row, the heaviest first."""
    pairs = [pair for each in diagnoses for pair in each.findings.items() if pair[1].differs]
    pairs.sort(key=lambda pair: -pair[1].weight)
    return list(dict.fromkeys(name for name, _ in pairs))


def as_json(diagnosis: Diagnosis) -> dict[str, object]:
    """Return a diagnosis, ready for json.dump."""
    return {
        "training": diagnosis.name,
        "arch": diagnosis.arch,
        "row": diagnosis.row.name,
        "happened": [
            asdict(event) | {"weight": event.weight.name.lower()} for event in diagnosis.events
        ],
        "findings": {
            name: asdict(each) | {"weight": each.weight.name.lower(), "differs": each.differs}
            for name, each in diagnosis.findings.items()
        },
        "not_known": list(diagnosis.not_known),
        "other_options": dict(diagnosis.other_options),
        "commands": dict(diagnosis.commands),
    }
