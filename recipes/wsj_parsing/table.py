"""Print Table 4 with what parsers measured under the paper's figures.

Any number of searches, RUN/PART, with any systems, of one test set. Writes table.md, which has the
most frequent labels and how each run was made, too, and table.json.

    python table.py exp/wsj_parsing/gum/aiayn-parsing-1/test --output exp/wsj_parsing/gum/table
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_aiayn.evaluation.table4 import read_table4
from fairseq_aiayn.evaluation.table4_markdown import as_json, markdown, report
from fairseq_aiayn.evaluation.table_files import write_table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", type=Path, metavar="RUN/PART")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    arguments = parser.parse_args()
    try:
        table = read_table4(arguments.parts)
        write_table(arguments.output, "table", report(table), as_json(table))
    except (OSError, ValueError) as error:
        raise SystemExit(f"table: {error}") from None
    print(markdown(table), end="")


if __name__ == "__main__":
    main()
