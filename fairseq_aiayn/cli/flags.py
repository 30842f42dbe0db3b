"""print a row's training regime as options of fairseq-train

The batch is the row's on any number of GPUs: about 25,000 source and 25,000 target tokens (section
5.1), by the update frequency. You add data, precision (--fp16, --bf16, --amp) and directories.

examples:
  aiayn flags base --gpus 8
  aiayn flags big --gpus 4 --max-tokens 3125
  fairseq-train DATA --user-dir $(aiayn user-dir) --task aiayn_translation \\
      $(aiayn flags base --gpus 1) --fp16
"""

from __future__ import annotations

import argparse

from fairseq_aiayn.paper import find_row
from fairseq_aiayn.training.regime import train_flags


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn flags`."""
    parser.add_argument("row", help="name of a row, see aiayn rows")
    parser.add_argument(
        "--gpus", type=int, required=True, metavar="N", help="GPUs of all nodes together"
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="M",
        help="tokens that a GPU takes at once (default: at most 4096)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the options on one line; none needs quoting."""
    print(" ".join(train_flags(find_row(arguments.row), arguments.gpus, arguments.max_tokens)))
