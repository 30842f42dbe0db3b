"""compare the paper's estimate of a row's training cost with a count of its FLOPs

The paper's rule (Table 2) is training time x GPUs x single-precision TFLOPS of a GPU. It says what
the GPUs could have computed. The count says what the model needs: its matrix products, at two FLOPs
per multiply-add, times three for the backward pass, over all steps and the row's batch.

The paper's 9.5 TFLOPS for a P100 is its authors' sustained figure. Figures for later GPUs are dense
peaks from NVIDIA's data sheets: they make the rule's result higher and the utilization lower.
Training in 16 bits can exceed the single-precision peak.

examples:
  aiayn cost base
  aiayn cost big --gpu A100 --gpus 8 --hours 20
  aiayn cost a_h1 --vocab 32000 --length 25 --json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from fairseq_aiayn.cli.vocabulary_option import add_vocabulary_option
from fairseq_aiayn.cost import (
    GPUS,
    USUAL_LENGTH,
    Estimate,
    ForwardFlops,
    estimate,
    find_gpu,
    forward_flops,
    in_powers,
    paper_estimate,
    training_flops,
)
from fairseq_aiayn.paper import Row, find_row
from fairseq_aiayn.text import aligned_lines

NOT_STATED = "not stated"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `aiayn cost`."""
    parser.add_argument("row", help="name of a row, see aiayn rows")
    add_vocabulary_option(parser)
    parser.add_argument(
        "--length",
        type=int,
        default=USUAL_LENGTH,
        metavar="N",
        help="tokens per sentence (default: %(default)s, an assumption: about WMT's in byte pairs)",
    )
    run = parser.add_argument_group("a training of your own")
    run.add_argument("--gpu", metavar="NAME", help=f"one of {', '.join(GPUS)}")
    run.add_argument("--gpus", type=int, metavar="N", help="how many of them")
    run.add_argument("--hours", type=float, metavar="H", help="how long the row's steps took")
    parser.add_argument("--json", action="store_true", help="print JSON, FLOPs in full")


def run(arguments: argparse.Namespace) -> None:
    """Print the count and the estimates."""
    row = find_row(arguments.row)
    forward = forward_flops(row, arguments.vocab, arguments.length)
    counted = training_flops(row, arguments.vocab, arguments.length)
    paper, own = paper_estimate(row, counted), _own_estimate(arguments, counted)
    if arguments.json:
        settings = {"row": row.name, "vocabulary": arguments.vocab, "length": arguments.length}
        print(json.dumps(settings | _as_json(row, forward, counted, paper, own), indent=2))
        return
    print(f"{row.name} over {arguments.vocab:,} types, sentences of {arguments.length} tokens\n")
    print(*aligned_lines(_forward_lines(forward)), sep="\n")
    print(
        f"\ntraining: 3 x {_millions(forward.total)} x {row.batch_tokens:,} tokens x"
        f" {row.steps:,} steps = {in_powers(counted)} FLOPs counted\n"
    )
    print(*aligned_lines(_estimate_lines(paper, own)), sep="\n")
    if own:
        print(f"\n{own.gpu.name}: {own.gpu.source}")


def _own_estimate(arguments: argparse.Namespace, counted: int) -> Estimate | None:
    """Estimate the user's own training; raises ValueError if some of its options are missing."""
    given = {f"--{name}": getattr(arguments, name) for name in ("gpu", "gpus", "hours")}
    missing = [option for option, value in given.items() if value is None]
    if len(missing) == len(given):
        return None
    if missing:
        raise ValueError(
            f"--gpu, --gpus and --hours belong together: {' and '.join(missing)} not given"
        )
    return estimate(counted, find_gpu(arguments.gpu), arguments.gpus, arguments.hours)


def _as_json(
    row: Row, forward: ForwardFlops, counted: int, paper: Estimate | None, own: Estimate | None
) -> dict:
    return {
        "steps": row.steps,
        "batch_tokens": row.batch_tokens,
        "forward_flops": asdict(forward) | {"total": forward.total},
        "training_flops": counted,
        "paper": paper and asdict(paper),
        "own": own and asdict(own),
    }


def _forward_lines(forward: ForwardFlops) -> list[list[str]]:
    """Return the parts of the forward pass with their shares."""
    parts = {
        "matrices of the encoder": forward.encoder,
        "matrices of the decoder": forward.decoder,
        "QK^T and weighted sums of V": forward.attention,
        "projection to the vocabulary": forward.projection,
    }
    return [
        ["FLOPs per source and target token", "forward", ""],
        *([f"  {name}", _millions(n), f"{n / forward.total:.1%}"] for name, n in parts.items()),
        ["  all", _millions(forward.total), ""],
    ]


def _estimate_lines(paper: Estimate | None, own: Estimate | None) -> list[list[str]]:
    """Return a column per estimate; lines about tensor cores only if the GPU has them."""
    titles = ["", "GPUs", "hours", "TFLOPS of a GPU, single precision"]
    titles += ["training FLOPs by the paper's rule", "utilization: counted / rule"]
    titles += ["TFLOPS of a GPU, 16-bit tensor cores", "utilization of these"]
    columns = [titles, _column("the paper", paper), *([_column("your run", own)] if own else [])]
    lines = [list(cells) for cells in zip(*columns, strict=True)]
    return lines if own and own.gpu.tensor_tflops else lines[:-2]


def _column(name: str, found: Estimate | None) -> list[str]:
    if found is None:
        return [name, "", NOT_STATED, "", NOT_STATED, "", "", ""]
    gpu = found.gpu
    return [
        name,
        f"{found.gpus} x {gpu.name}",
        f"{found.hours:g}",
        f"{gpu.single_tflops:g} {gpu.rate}",
        in_powers(found.flops),
        f"{found.utilisation:.1%}",
        f"{gpu.tensor_tflops:g} {gpu.rate}" if gpu.tensor_tflops else "",
        f"{found.tensor_utilisation:.1%}" if found.tensor_utilisation else "",
    ]


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f}M"
