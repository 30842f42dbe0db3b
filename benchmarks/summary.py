"""Print the figures of result files as a table in Markdown, such as that of docs/performance.md.

python benchmarks/summary.py benchmarks/results/zen5.json exp/bench/results/cpu.json
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from figures import Spread

from fairseq_aiayn.console import script
from fairseq_aiayn.files import read_json
from fairseq_aiayn.report.document import Table, blocks_as_markdown, one_line


def cells(path: Path) -> dict[str, str]:
    """Return the figures of a file by what they are of; ValueError for another file."""
    try:
        return {
            ", ".join(filter(None, (each["name"], each["subject"], each["unit"]))): str(
                Spread(**each["value"])
            )
            for each in read_json(path)["found"]
        }
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: expected the results of a benchmark") from error


def table(files: Sequence[Path]) -> str:
    """Return a line for each figure, and a column for each file."""
    columns = [cells(path) for path in files]
    names = dict.fromkeys(name for column in columns for name in column)
    lines = [[name, *(column.get(name, "") for column in columns)] for name in names]
    header = ["median (quartiles)", *(path.name for path in files)]
    return blocks_as_markdown([Table(header, lines)], one_line)


def main() -> None:
    """Print the table."""
    with script(__doc__) as parser:
        parser.add_argument("files", type=Path, nargs="+", help="what bench.py wrote")
        print(table(parser.parse_args().files), end="")


if __name__ == "__main__":
    main()
