"""measure Table 1: what self-attention, recurrent and convolutional layers cost

Runs one layer of each kind over several lengths n and widths d on one thread. Counts its FLOPs,
times it, adds up the memory of its tensors, and fits the exponents of n and d between the two
largest sizes. The longest path is found exactly: it is the smallest number of layers at which
∂y_n/∂x_1 is not zero. About a minute; --output keeps the table, a picture and all figures.

examples:
  aiayn complexity
  aiayn complexity --output docs/table1 --lengths 128 256 512 1024 2048 4096 --widths 256 512 1024
"""

from __future__ import annotations

import argparse
from pathlib import Path

LENGTHS, WIDTHS, PATHS = (128, 256, 512, 1024, 2048), (256, 512, 1024), (33, 81)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn complexity`."""
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=LENGTHS, metavar="N", help=_default(LENGTHS)
    )
    parser.add_argument(
        "--widths", type=int, nargs="+", default=WIDTHS, metavar="D", help=_default(WIDTHS)
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="where the files go")


def run(arguments: argparse.Namespace) -> None:
    """Print the table; with --output, keep it with a picture and all figures."""
    import torch

    from fairseq_aiayn.complexity import table
    from fairseq_aiayn.report.markdown import blocks_as_markdown
    from fairseq_aiayn.report.markdown_and_json import write_markdown_and_json
    from fairseq_aiayn.text import whole_path

    torch.set_num_threads(1)
    found = table.measure_all(arguments.lengths, arguments.widths, PATHS)
    text = blocks_as_markdown([table.table(found)])
    print(text, end="")
    if arguments.output:
        write_markdown_and_json(arguments.output, "table1", text, table.as_json(found))
        with whole_path(arguments.output / "table1.png") as part:
            table.draw(found).savefig(part, format="png", dpi=120)


def _default(sizes: tuple[int, ...]) -> str:
    return f"default: {' '.join(map(str, sizes))}"
