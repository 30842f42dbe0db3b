"""The commands of the paper's configurations: their sizes, options and cost."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import fairseq_aiayn
from fairseq_aiayn.console import aligned_lines, note
from fairseq_aiayn.cost import (
    USUAL_LENGTH,
    Estimate,
    forward_flops,
    in_millions,
    in_powers,
    paper_estimate,
    row_as_json,
    row_tables,
    training_flops,
)
from fairseq_aiayn.paper import ROWS, VOCABULARY_EN_DE, find_row
from fairseq_aiayn.settings import (
    BUDGET_OPTIONS,
    as_words,
    decoding,
    doubts,
    generate_options,
    stock_flags,
    train_flags,
    with_budget,
)

SYSTEMS = {"aiayn": train_flags, "stock": stock_flags}
FORWARD = {  # what `aiayn cost` calls the parts of ForwardFlops
    "encoder": "matrices of the encoder",
    "decoder": "matrices of the decoder",
    "attention": "QK^T and weighted sums of V",
    "projection": "projection to the vocabulary",
}


def declare_rows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows to list (default: all)")
    _add_vocabulary(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, in full precision")


def _add_vocabulary(parser: argparse.ArgumentParser) -> None:
    """Declare --vocab, by default English-German's."""
    parser.add_argument(
        "--vocab",
        type=int,
        default=VOCABULARY_EN_DE,
        metavar="V",
        help="types in the vocabulary (default: %(default)s)",
    )


def run_rows(arguments: argparse.Namespace) -> None:
    """list the paper's models with their sizes and costs

    One table has sizes and training settings, a second one costs and results. Computed, all but t2t
    for the given vocabulary:
      params      parameters of our model. Parsing has separate vocabularies of this size for words
                  and for trees.
      FLOPs/pair  of the forward pass for one source token and one target token
      training    FLOPs of all steps, as counted by aiayn cost
      memory      what training needs for any batch: weights, gradients and Adam's two moments in
                  float32, 16 bytes per parameter. Activations come on top: they grow with the batch
                  and depend on the attention kernel that PyTorch chooses.
      t2t         parameters of a row of Table 3 as the authors' code, tensor2tensor, counted them,
                  with a vocabulary of its own (docs/deviations.md). All but big's round to the
                  paper's.
    The last three columns are the paper's: its parameters, development perplexity and BLEU.

    examples:
      aiayn rows
      aiayn rows base big --vocab 37000 --json
    """
    rows = [find_row(name) for name in arguments.names] or [*ROWS.values()]
    if arguments.json:
        print(json.dumps([row_as_json(row, arguments.vocab) for row in rows], indent=2))
        return
    tables = row_tables(rows, arguments.vocab)
    print("\n\n".join("\n".join(aligned_lines(table)) for table in tables))


def declare_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("row", help="name of a row, see aiayn rows")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--gpus", type=int, metavar="N", help="number of GPUs, over all nodes")
    what.add_argument("--search", action="store_true", help="print the row's search instead")
    most = "tokens that a GPU processes at once (default: at most 4096)"
    add("--max-tokens", type=int, metavar="M", help=most)
    for name, (option, unit, meaning) in BUDGET_OPTIONS.items():
        kind = float if name == "lr_factor" else int
        add(option, dest=name, type=kind, metavar=unit, help=f"{meaning} (default: the row's)")
    add("--system", choices=SYSTEMS, default="aiayn", help="whose options (default: aiayn, ours)")


def run_flags(arguments: argparse.Namespace) -> None:
    """print a row's training regime, or its search, as options of fairseq's commands

    The update frequency keeps the row's batch on any number of GPUs: about 25,000 source and 25,000
    target tokens (section 5.1). Add data, task, precision and directories yourself.

    For a smaller budget than the paper's, set --batch-tokens, --warmup-updates and --max-update;
    the interval between checkpoints shrinks in proportion to the updates. --lr-factor multiplies
    Equation 3 (section 5.3) for either system.

    --system stock prints the same regime for the nearest model of stock fairseq. A row whose heads
    are not of size d_model / h has no such model.

    --search prints options of fairseq-generate instead: beam size, α and longest output for the
    row's task (sections 6.1 and 6.3). They are the defaults of this package's tasks, but not of
    stock fairseq.

    examples:
      aiayn flags base --gpus 8
      aiayn flags big --gpus 4 --max-tokens 3125
      aiayn flags base --gpus 1 --batch-tokens 4096 --max-update 6000 --warmup-updates 2000
      fairseq-train DATA --task translation $(aiayn flags base --gpus 1 --system stock) --fp16
      fairseq-generate DATA --task translation --path stock.pt $(aiayn flags base --search)
    """
    row = find_row(arguments.row)
    budget = {name: getattr(arguments, name) for name in BUDGET_OPTIONS}
    if arguments.search:
        if {arguments.max_tokens, *budget.values()} != {None}:
            raise ValueError("--search: expected no option of a training")
        print(*as_words(generate_options(decoding(row))))
        return
    row, flags = with_budget(row, **budget), SYSTEMS[arguments.system]
    print(*flags(row, arguments.gpus, arguments.max_tokens))
    for text in doubts(row, arguments.gpus, arguments.max_tokens):
        note(f"note: {text}")


def declare_cost(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("row", help="name of a row, see aiayn rows")
    _add_vocabulary(parser)
    parser.add_argument(
        "--length",
        type=int,
        default=USUAL_LENGTH,
        metavar="N",
        help="tokens per sentence (default: %(default)s, an assumption: about WMT's in byte pairs)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, FLOPs in full")


def run_cost(arguments: argparse.Namespace) -> None:
    """compare the paper's estimate of a row's training cost with a count of its FLOPs

    The paper's rule (Table 2) is training time x GPUs x single-precision TFLOPS of a GPU. It says
    what the GPUs could have computed. The count says what the model needs: its matrix products, at
    two FLOPs per multiply-add, times three for the backward pass, over all steps and the row's
    batch.

    The paper's 9.5 TFLOPS for a P100 is its authors' sustained figure, and not a data sheet's peak.

    examples:
      aiayn cost base
      aiayn cost a_h1 --vocab 32000 --length 25 --json
    """
    row = find_row(arguments.row)
    forward = forward_flops(row, arguments.vocab, arguments.length)
    counted = training_flops(row, arguments.vocab, arguments.length)
    paper = paper_estimate(row, counted)
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
        }
        print(json.dumps(content, indent=2))
        return
    total = sum(forward)
    lines = [["FLOPs per source and target token", "forward", ""]]
    for name, count in forward._asdict().items():
        lines.append([f"  {FORWARD[name]}", in_millions(count, 1), f"{count / total:.1%}"])
    lines.append(["  all", in_millions(total, 1), ""])
    print(f"{row.name} over {arguments.vocab:,} types, sentences of {arguments.length} tokens\n")
    print(*aligned_lines(lines), sep="\n")
    print(
        f"\ntraining: 3 x {in_millions(total, 1)} x {row.batch_tokens:,} tokens x"
        f" {row.steps:,} steps = {in_powers(counted)} FLOPs counted\n"
    )
    print(*_estimate_lines(paper), sep="\n")


def _estimate_lines(paper: Estimate | None) -> list[str]:
    """Return the paper's estimate as the lines of a table, or that there is none."""
    if paper is None:
        return ["The paper does not state this row's time and GPUs."]
    return aligned_lines(
        [
            ("", "the paper"),
            ("GPUs", f"{paper.gpus} x {paper.gpu}"),
            ("hours", f"{paper.hours:g}"),
            ("TFLOPS of a GPU, single precision", f"{paper.tflops:g} sustained"),
            ("training FLOPs by the paper's rule", in_powers(paper.flops)),
            ("utilization: counted / rule", f"{paper.utilisation:.1%}"),
        ]
    )


def run_user_dir(arguments: argparse.Namespace) -> None:
    """print the directory to give to fairseq's --user-dir

    fairseq-train DATA --user-dir $(aiayn user-dir) --task aiayn_translation --arch aiayn_base ...
    """
    print(Path(fairseq_aiayn.__file__).resolve().parent)


def declare_recipes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, help="where to write them; must not exist yet")


def run_recipes(arguments: argparse.Namespace) -> None:
    """write the recipes, which run the paper's experiments from raw text to the score

    aiayn recipes recipes && recipes/multi30k/run.sh --help
    """
    package = Path(fairseq_aiayn.__file__).resolve().parent
    source = package / "recipes"  # in a wheel; a checkout has them beside the package
    source = source if source.exists() else package.parent / "recipes"
    shutil.copytree(source, arguments.directory, ignore=shutil.ignore_patterns("__pycache__"))
