"""print a row's training regime, or its search, as options of fairseq's commands

The update frequency keeps the row's batch on any number of GPUs: about 25,000 source and 25,000
target tokens (section 5.1). Add data, task, precision (--fp16 or --bf16) and directories
yourself.

For a smaller budget than the paper's, set --batch-tokens, --warmup-updates and --max-update; the
interval between checkpoints shrinks in proportion to the updates. --lr-factor multiplies Equation 3
(section 5.3) for either system.

--system stock prints the same regime for the nearest model of stock fairseq. A row whose heads are
not of size d_model / h has no such model.

--search prints options of fairseq-generate instead: beam size, α and longest output for the row's
task (sections 6.1 and 6.3). They are the defaults of this package's tasks, but not of stock
fairseq.

examples:
  aiayn flags base --gpus 8
  aiayn flags big --gpus 4 --max-tokens 3125
  aiayn flags base --gpus 1 --batch-tokens 4096 --max-update 6000 --warmup-updates 2000
  fairseq-train DATA --user-dir $(aiayn user-dir) --task aiayn_translation \\
      $(aiayn flags base --gpus 1) --fp16
  fairseq-train DATA --task translation $(aiayn flags base --gpus 1 --system stock) --fp16
  fairseq-generate DATA --task translation --path stock.pt $(aiayn flags base --search)
"""

from __future__ import annotations

import argparse

from fairseq_aiayn.paper import find_row
from fairseq_aiayn.settings import (
    BUDGET_OPTIONS,
    Budget,
    as_words,
    decoding,
    generate_options,
    stock_flags,
    train_flags,
)

SYSTEMS = {"aiayn": train_flags, "stock": stock_flags}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn flags`."""
    parser.add_argument("row", help="name of a row, see aiayn rows")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--gpus", type=int, metavar="N", help="number of GPUs, over all nodes")
    what.add_argument("--search", action="store_true", help="print the row's search instead")
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="M",
        help="tokens that a GPU processes at once (default: at most 4096)",
    )
    for name, (option, unit, meaning) in BUDGET_OPTIONS.items():
        parser.add_argument(
            option,
            dest=name,
            type=float if name == "lr_factor" else int,
            metavar=unit,
            help=f"{meaning} (default: the row's)",
        )
    parser.add_argument(
        "--system",
        choices=SYSTEMS,
        default="aiayn",
        help="the model of this package or of stock fairseq (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the options on one line; no option needs quoting."""
    row = find_row(arguments.row)
    budget = {name: getattr(arguments, name) for name in BUDGET_OPTIONS}
    if arguments.search:
        given = {"--max-tokens": arguments.max_tokens}
        given |= {BUDGET_OPTIONS[name][0]: value for name, value in budget.items()}
        for option, value in given.items():
            if value is not None:
                raise ValueError(f"--search has no {option}, which is of a training")
        print(*as_words(generate_options(decoding(row))))
        return
    flags = SYSTEMS[arguments.system]
    print(*flags(Budget(**budget).of(row), arguments.gpus, arguments.max_tokens))
