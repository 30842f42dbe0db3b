"""say where a training differs from the paper, what that costs, and what to change

Reads any training of fairseq, stock or of this plugin: a checkpoint, a log of fairseq-train, a
--save-dir, or a run directory of the recipes. Compares batch, schedule, regularization, model,
search and BLEU with a row of the paper. What costs most comes first. Where no measurement of an
effect is known, it says so. A file is read as data, nothing in it is executed.

A checkpoint does not say how the model was evaluated, nor whether it is an average: add the output
of fairseq-generate (--generate) and the signature of the score (--bleu).

examples:
  aiayn diagnose checkpoints/checkpoint_best.pt
  aiayn diagnose train.log --row big --generate generate.log --bleu "BLEU|case:mixed|tok:13a"
  aiayn diagnose exp/wmt14_en_de/stock-base-1 --json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from fairseq_aiayn.diagnosis.aspects import Weight
from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, as_json, diagnose
from fairseq_aiayn.diagnosis.evidence import read_evidence
from fairseq_aiayn.paper import OWN, find_row

HEADINGS = {
    Weight.LARGE: "costs or gains 1 BLEU or more",
    Weight.MEDIUM: "costs or gains 0.3 to 1 BLEU",
    Weight.UNKNOWN: "how much is not known",
    Weight.SMALL: "less than 0.3 BLEU",
    Weight.NONE: "no effect",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn diagnose`."""
    parser.add_argument("training", type=Path, metavar="CHECKPOINT|LOG|DIR", help="what to read")
    parser.add_argument("--row", help="compare with this row (default: the one with its sizes)")
    parser.add_argument(
        "--generate", type=Path, metavar="LOG", help="output of fairseq-generate with the model"
    )
    parser.add_argument("--bleu", metavar="SIGNATURE", help="signature of the score")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> None:
    """Print the diagnosis."""
    row = find_row(arguments.row) if arguments.row else None
    run = read_evidence(arguments.training, arguments.generate, arguments.bleu)
    diagnosis = diagnose(run, row)
    if arguments.json:
        print(json.dumps(as_json(diagnosis), indent=2, ensure_ascii=False))
    else:
        print(*_lines(diagnosis), sep="\n")


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"{diagnosis.name}: {diagnosis.arch}, beside row {diagnosis.row.name}"
    whose = "row" if diagnosis.row in OWN else "paper"
    differing = {name: each for name, each in diagnosis.findings.items() if each.differs}
    for weight, group in groupby(differing.items(), key=lambda item: item[1].weight):
        yield f"\n{HEADINGS[weight]}"
        for name, finding in group:
            yield f"  {name}"
            texts = {whose: finding.paper, "here": finding.here}
            texts |= {"effect": finding.effect, "change": finding.change}
            yield from (f"    {label + ':':<8}{text}" for label, text in texts.items() if text)
    same = [name for name in diagnosis.findings if name not in differing]
    yield f"\nas in the {whose}: {', '.join(same) or 'nothing'}"
    if diagnosis.not_known:
        yield f"the files do not say: {', '.join(diagnosis.not_known)}"
    if diagnosis.other_options:
        options = ", ".join(f"{name} {value}" for name, value in diagnosis.other_options.items())
        yield f"also set, and not judged: {options}"
