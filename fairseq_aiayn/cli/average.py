"""average the last checkpoints of a run into one

The last checkpoints are those with the most updates. If the run wrote checkpoints of
--save-interval-updates (checkpoint_EPOCH_UPDATES.pt), these are averaged, otherwise those of whole
epochs (checkpointEPOCH.pt). The average can translate, validate and start fine-tuning like any
other checkpoint; it has no optimizer state. Checkpoints of stock fairseq work, too.

  aiayn average --last 5 --dir checkpoints --output checkpoints/average.pt
  fairseq-generate DATA --user-dir $(aiayn user-dir) --task aiayn_translation \\
      --path checkpoints/average.pt

Section 6.1 averages 5 checkpoints for the base model and 20 for the big one, ten minutes apart.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn average`."""
    parser.add_argument(
        "--last", type=int, required=True, metavar="N", help="how many checkpoints to average"
    )
    parser.add_argument(
        "--dir", type=Path, required=True, metavar="DIR", help="the run's --save-dir"
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="where to write the average"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the average and print which checkpoints are in it."""
    from fairseq_aiayn.checkpoints import average_last

    paths = average_last(arguments.last, arguments.dir, arguments.output)
    print(f"{arguments.output}: the mean of {', '.join(path.name for path in paths)}")
