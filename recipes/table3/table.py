"""Print Table 3 with the results of finished runs and the paper's figures.

Takes any number of run directories, of any rows and seeds, with one test set. Unfinished runs are
listed below the table. Writes table3.md, table3.json and report.html.

    python table.py exp/table3/wmt14_en_de/aiayn-* --output exp/table3/wmt14_en_de
"""

from pathlib import Path

from fairseq_aiayn.console import script
from fairseq_aiayn.paper import TABLE_3
from fairseq_aiayn.report.pages import write_page
from fairseq_aiayn.report.results import read_table3


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("runs", nargs="*", type=Path, metavar="RUN_DIRECTORY")
        parser.add_argument("--output", type=Path, default=".", metavar="DIR")
        parser.add_argument("--rows", action="store_true", help="only print the names of the rows")
        arguments = parser.parse_args()
        if arguments.rows:
            print(*(row.name for row in TABLE_3))
            return
        print(write_page(read_table3(arguments.runs), arguments.output, "table3"), end="")


if __name__ == "__main__":
    main()
