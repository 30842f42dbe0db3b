"""All comparisons of a training with a row of the paper, the most important first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from fairseq_aiayn.diagnosis.evaluation import EVALUATION
from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.diagnosis.finding import Finding, Weight
from fairseq_aiayn.diagnosis.model import MODEL, has_sizes_of
from fairseq_aiayn.diagnosis.other_options import other_options
from fairseq_aiayn.diagnosis.training import TRAINING
from fairseq_aiayn.paper import BASE, E_LEARNED, ROWS, TABLE_3_D, Row
from fairseq_aiayn.settings import OURS

ASPECTS = (*TRAINING, *MODEL, *EVALUATION)
# A model of base's sizes without dropout is meant to be base, and not Table 3's row without dropout
OF_OTHER_SIZES = [row for row in ROWS.values() if row not in (*TABLE_3_D, E_LEARNED)]
READ = {option for aspect in ASPECTS for option in aspect.options}


@dataclass(frozen=True)
class Diagnosis:
    """A training beside a row; the findings have the names of their aspects."""

    name: str
    arch: str
    row: Row
    findings: Mapping[str, Finding]  # the heaviest first, then in the order in which a run is made
    not_known: tuple[str, ...]  # names of aspects of which the files say nothing
    other_options: Mapping[str, object]  # neither fairseq's defaults nor any of the aspects'


def diagnose(found: Evidence, row: Row | None = None) -> Diagnosis:
    """Compare a training with a row; without one, with that of `row_of`."""
    row = row or row_of(found)
    judged = {
        aspect.name: aspect.judge(found, row) if found.options or not aspect.options else None
        for aspect in ASPECTS
    }
    known = [(name, one) for name, one in judged.items() if one]
    known.sort(key=lambda pair: (not pair[1].differs, -pair[1].weight))
    return Diagnosis(
        name=found.name,
        arch=str(found.options.get("arch")),
        row=row,
        findings=dict(known),
        not_known=tuple(name for name, one in judged.items() if not one),
        other_options=other_options(found.options, READ),
    )


def row_of(found: Evidence) -> Row:
    """Return the row that a training is of, or else the nearest one.

    A recipe or an aiayn architecture names it. Otherwise it is a row with the model's sizes, if
    possible with its number of vocabularies and its dropout; if no row has its sizes, base.
    """
    arch = str(found.options.get("arch", ""))
    named = ROWS.get(found.row or arch.removeprefix(OURS) if found.is_our_model else found.row)
    if named:
        return named
    shares_all = found.options.get("share_all_embeddings") is True
    dropout = found.number("dropout")
    return max(
        (row for row in OF_OTHER_SIZES if has_sizes_of(found, row)),
        key=lambda row: (row.shared_vocabulary == shares_all, row.P_drop == dropout),
        default=BASE,
    )


def unequal_aspects(diagnoses: Iterable[Diagnosis]) -> list[str]:
    """Return the aspects in which a training differs from its row, the heaviest first."""
    weights: dict[str, Weight] = {}
    for one in diagnoses:
        for name, finding in one.findings.items():
            if finding.differs:
                weights[name] = max(finding.weight, weights.get(name, finding.weight))
    return sorted(weights, key=lambda name: -weights[name])


def as_json(found: Diagnosis) -> dict[str, object]:
    """Return a diagnosis, ready for json.dump."""
    findings = {
        name: asdict(one) | {"weight": one.weight.name.lower(), "differs": one.differs}
        for name, one in found.findings.items()
    }
    return {
        "training": found.name,
        "arch": found.arch,
        "row": found.row.name,
        "findings": findings,
        "not_known": list(found.not_known),
        "other_options": dict(found.other_options),
    }
