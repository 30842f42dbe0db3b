"""Print Table 3 with the results of finished runs and the paper's figures.

Takes any number of run directories, of any rows and seeds, with one corpus and one training budget.
Unfinished runs are listed below the table. Writes table3.md and table3.json.

    python table.py exp/table3/wmt14_en_de/aiayn-* --output exp/table3/wmt14_en_de
"""

from __future__ import annotations

from pathlib import Path

from fairseq_aiayn.report.document import blocks_as_markdown, write_markdown_and_json
from fairseq_aiayn.report.tables import full_blocks, read_table3, results_as_json, summary_blocks
from fairseq_aiayn.text import script


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("runs", nargs="+", type=Path, metavar="RUN_DIRECTORY")
        parser.add_argument("--output", type=Path, required=True, metavar="DIR")
        arguments = parser.parse_args()
        table = read_table3(arguments.runs)
        full = blocks_as_markdown(full_blocks(table))
        write_markdown_and_json(arguments.output, "table3", full, results_as_json(table))
        print(blocks_as_markdown(summary_blocks(table)), end="")


if __name__ == "__main__":
    main()
