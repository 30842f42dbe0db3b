"""Print the findings of all comparisons in one table, below the machine that they are of.

python benchmarks/summary.py exp/bench/results    (what train.py and the others wrote there)
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from findings import Finding, findings_table

from fairseq_aiayn.text import dataclass_of, one_line_errors, read_json

FILES = ("train.json", "generate.json", "scaling.json")


@dataclass(frozen=True)
class Machine:
    """What a comparison's file says of the machine; the processor with what it has for bfloat16."""

    processor: str
    cores: int
    gpus: list

    def __str__(self) -> str:
        return ", ".join([self.processor, f"{self.cores} cores", *self.gpus])


def read_findings(directory: Path) -> tuple[list[str], list[Finding]]:
    """Return the machines and findings of the comparisons' files, of which some may be missing.

    Raises OSError or ValueError if all of them are, or for one that is no comparison's.
    """
    machines, found = [], []
    for path in filter(Path.exists, (directory / name for name in FILES)):
        content = read_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("found"), list):
            raise ValueError(f"{path}: must be a comparison's results")
        machines.append(str(dataclass_of(content.get("machine"), Machine, path)))
        found += [dataclass_of(entry, Finding, path) for entry in content["found"]]
    if not found:
        raise ValueError(f"{directory}: must have one of {', '.join(FILES)}")
    return [*dict.fromkeys(machines)], found


def summary(machines: Sequence[str], findings: Sequence[Finding]) -> str:
    """Return the machines, all findings, and how many of the targets are met."""
    with_target = [each for each in findings if each.target]
    met = sum(bool(each.met) for each in with_target)
    lines = [*machines, findings_table(findings), "", f"{met} of {len(with_target)} targets met"]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, help="directory of train.json and the others")
    arguments = parser.parse_args()
    with one_line_errors("summary"):
        print(summary(*read_findings(arguments.directory)))


if __name__ == "__main__":
    main()
