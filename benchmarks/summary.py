"""Print the findings of all comparisons in one table.

python benchmarks/summary.py exp/bench/results    (what train.py and the others wrote there)
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from side_by_side import Finding, Spread, findings_table

COMPARISONS = ("train", "generate", "memory", "scaling")


def read_findings(directory: Path) -> list[Finding]:
    """Return what is found in the comparisons' files, of which some may be missing.

    Raises ValueError if all of them are, or for one that is no comparison's.
    """
    found = []
    for path in (directory / f"{name}.json" for name in COMPARISONS):
        if not path.exists():
            continue
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))["found"]
            found += [Finding(**entry | {"value": Spread(**entry["value"])}) for entry in entries]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: must be a comparison's results, {error!r}") from None
    if not found:
        names = ", ".join(f"{name}.json" for name in COMPARISONS)
        raise ValueError(f"{directory}: must have one of {names}")
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
    try:
        print(summary(read_findings(parser.parse_args().directory)))
    except (OSError, ValueError) as error:
        raise SystemExit(f"summary: {error}") from None


if __name__ == "__main__":
    main()
