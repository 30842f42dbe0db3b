"""compare the paper's estimate of a row's training cost with a count of its FLOPs

The paper's rule (Table 2) is training time x GPUs x single-precision TFLOPS of a GPU. It says what
the GPUs could have computed. The count says what the model needs: its matrix products, at two FLOPs
per multiply-add, times three for the backward pass, over all steps and the row's batch.

The paper's 9.5 TFLOPS for a P100 is its authors' sustained figure. A data sheet's peak makes the
rule's result higher and the utilization lower; so does the rate of 16-bit tensor cores.

examples:
  aiayn cost base
  aiayn cost big --gpus 8 --tflops 19.5 --hours 20
  aiayn cost a_h1 --vocab 32000 --length 25 --json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from fairseq_aiayn.cli.rows import add_vocabulary
from fairseq_aiayn.cost import (
    USUAL_LENGTH,
    Estimate,
    ForwardFlops,
    estimate,
    forward_flops,
    in_powers,
    paper_estimate,
    training_flops,
)
from fairseq_aiayn.paper import SUSTAINED_TFLOPS, find_row
from fairseq_aiayn.text import aligned_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn cost`."""
    parser.add_argument("row", help="name of a row, see aiayn rows")
    add_vocabulary(parser)
    parser.add_argument(
        "--length",
        type=int,
        default=USUAL_LENGTH,
        metavar="N",
        help="tokens per sentence (default: %(default)s, an assumption: about WMT's in byte pairs)",
    )
    run = parser.add_argument_group("a training of your own")
    run.add_argument("--gpus", type=int, metavar="N", help="how many GPUs")
    run.add_argument("--hours", type=float, metavar="H", help="how long the row's steps took")
    rate = run.add_mutually_exclusive_group()
    rate.add_argument("--tflops", type=float, metavar="T", help="single-precision TFLOPS of a GPU")
    rate.add_argument(
        "--gpu",
        choices=SUSTAINED_TFLOPS,
        type=str.upper,
        help="the paper's figure for one of its GPUs, in place of --tflops",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, FLOPs in full")


def run(arguments: argparse.Namespace) -> None:
    """Print the count and the estimates."""
    row = find_row(arguments.row)
    forward = forward_flops(row, arguments.vocab, arguments.length)
    counted = training_flops(row, arguments.vocab, arguments.length)
    paper, own = paper_estimate(row, counted), _own_estimate(arguments, counted)
    if arguments.json:
        content = {
            "row": row.name,
            "vocabulary": arguments.vocab,
            "length": arguments.length,
            "steps": row.steps,
            "batch_tokens": row.batch_tokens,
            "forward_flops": forward._asdict() | {"total": sum(forward)},
            "training_flops": counted,
            "paper": paper and asdict(paper),
            "own": own and asdict(own),
        }
        print(json.dumps(content, indent=2))
        return
    print(f"{row.name} over {arguments.vocab:,} types, sentences of {arguments.length} tokens\n")
    print(*aligned_lines(_forward_lines(forward)), sep="\n")
    print(
        f"\ntraining: 3 x {_millions(sum(forward))} x {row.batch_tokens:,} tokens x"
        f" {row.steps:,} steps = {in_powers(counted)} FLOPs counted\n"
    )
    print(*aligned_lines(_estimate_lines(paper, own)), sep="\n")


def _own_estimate(arguments: argparse.Namespace, counted: int) -> Estimate | None:
    """Estimate the user's own training; raises ValueError if some of its options are missing."""
    gpu = arguments.gpu or arguments.tflops
    options = (gpu, arguments.gpus, arguments.hours)
    if options == (None, None, None):
        return None
    if None in options:
        raise ValueError("expected --gpus, --hours and --tflops (or --gpu) together, got only some")
    return estimate(counted, *options)


def _forward_lines(forward: ForwardFlops) -> list[list[str]]:
    """Return the parts of the forward pass with their shares."""
    total = sum(forward)
    parts = {
        "matrices of the encoder": forward.encoder,
        "matrices of the decoder": forward.decoder,
        "QK^T and weighted sums of V": forward.attention,
        "projection to the vocabulary": forward.projection,
    }
    return [
        ["FLOPs per source and target token", "forward", ""],
        *([f"  {name}", _millions(count), f"{count / total:.1%}"] for name, count in parts.items()),
        ["  all", _millions(total), ""],
    ]


def _estimate_lines(paper: Estimate | None, own: Estimate | None) -> list[list[str]]:
    """Return a line per figure, with a column per estimate."""
    titles = ["", "GPUs", "hours", "TFLOPS of a GPU, single precision"]
    titles += ["training FLOPs by the paper's rule", "utilization: counted / rule"]
    columns = [titles, _column("the paper", paper), *([_column("your run", own)] if own else [])]
    return [list(cells) for cells in zip(*columns, strict=True)]


def _column(name: str, cost: Estimate | None) -> list[str]:
    if cost is None:
        return [name, "", "not stated", "", "not stated", ""]
    return [
        name,
        f"{cost.gpus} x {cost.gpu}" if cost.gpu else f"{cost.gpus}",
        f"{cost.hours:g}",
        f"{cost.tflops:g} sustained" if cost.gpu else f"{cost.tflops:g}",
        in_powers(cost.flops),
        f"{cost.utilisation:.1%}",
    ]


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f}M"
