"""Print the figures of result files side by side, to compare machines or two runs on one.

python benchmarks/summary.py benchmarks/results/train.json exp/bench/results/bench.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from figures import number

from fairseq_aiayn.text import aligned_lines, one_line_errors, read_json

RANGES = (("lower", "upper"), ("lowest", "highest"))  # quartiles; of older files, the extremes


def cells(path: Path) -> dict[tuple[str, str, str], str]:
    """Return the figures of a file by name, subject and unit; ValueError for another file."""
    content = read_json(path)
    try:
        found = {}
        for figure in content["found"]:
            value = figure["value"]
            low, high = next(ends for ends in RANGES if ends[0] in value)
            text = f"{number(value['median'])} ({number(value[low])}–{number(value[high])})"
            name = figure.get("name") or figure["figure"]
            found[name, figure["subject"], figure["unit"]] = text
    except (KeyError, TypeError, StopIteration) as error:
        raise ValueError(f"{path}: expected the results of a benchmark") from error
    return found


def main() -> None:
    """Print one line for each figure, and one column for each file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", help="what bench.py wrote")
    with one_line_errors("summary"):
        files = parser.parse_args().files
        columns = [cells(path) for path in files]
        names = dict.fromkeys(name for column in columns for name in column)
        head = ["", "", "", *(path.name for path in files)]
        lines = [[*name, *(column.get(name, "") for column in columns)] for name in names]
        print("\n".join(aligned_lines([head, *lines])))


if __name__ == "__main__":
    main()
