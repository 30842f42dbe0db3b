"""Print the findings of all comparisons in one table.

python benchmarks/summary.py exp/bench/results    (what train.py and the others wrote there)
"""

from __future__ import annotations

import argparse
from pathlib import Path

from findings import Finding, findings_table

from fairseq_aiayn.files.json_fields import dataclass_of, read_json
from fairseq_aiayn.messages import one_line_errors

FILES = ("train.json", "generate.json", "memory.json", "scaling.json")


def read_findings(directory: Path) -> list[Finding]:
    """Return what is found in the comparisons' files, of which some may be missing.

    Raises OSError or ValueError if all of them are, or for one that is no comparison's.
    """
    found = []
    for path in filter(Path.exists, (directory / name for name in FILES)):
        content = read_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("found"), list):
            raise ValueError(f"{path}: must be a comparison's results")
        found += [dataclass_of(entry, Finding, path) for entry in content["found"]]
    if not found:
        raise ValueError(f"{directory}: must have one of {', '.join(FILES)}")
    return found


def summary(findings: list[Finding]) -> str:
    """Return all findings and how many of the targets are met."""
    with_target = [each for each in findings if each.target]
    met = sum(bool(each.met) for each in with_target)
    return f"{findings_table(findings)}\n\n{met} of {len(with_target)} targets met"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, help="directory of train.json and the others")
    arguments = parser.parse_args()
    with one_line_errors("summary"):
        print(summary(read_findings(arguments.directory)))


if __name__ == "__main__":
    main()
