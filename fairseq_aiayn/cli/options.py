"""The options that name a trained model, and those of its search, for all commands that use one."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from fairseq_aiayn.console import note
from fairseq_aiayn.inference.description import IN_HAND, Model, TextProcessing
from fairseq_aiayn.inference.engine import BATCH_TOKENS
from fairseq_aiayn.inference.export import Checkpoint, folder_or_run, text_of_data
from fairseq_aiayn.settings import option

FLOAT32 = "float32"
PRECISIONS = (FLOAT32, "float16", "bfloat16")  # nn/cpu_kernels.py has them, but imports torch
# CTranslate2's names, here because importing it takes time
INTEGERS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16")
MOST_THREADS = 1_024
QUANTIZATIONS = (FLOAT32, "float16", "bfloat16", *INTEGERS)
TEXT = ("bpe_codes", "sentencepiece_model", "normalize", "lowercase")
GOES_WITH = (  # options, and another one that each needs
    *((name, "checkpoint") for name in ("data_bin", *TEXT)),
    ("checkpoint", "data_bin"),  # it has the dictionaries
    ("normalize", "bpe_codes"),
    ("lowercase", "bpe_codes"),
)


def add_model(
    parser: argparse.ArgumentParser, name: str = "model", has_default: bool = False
) -> None:
    """Declare the options that name a model: as an argument, or as an option called `name`; with
    `has_default`, the package's own is used if none is named."""
    parser.set_defaults(default_model=IN_HAND if has_default else None)
    parser.add_argument(
        name,
        type=Path,
        metavar="RUN|FOLDER",
        help="a run directory of the recipes, or what aiayn export wrote"
        + " (default: a small English-German model that comes with the package)" * has_default,
        nargs=None if name.startswith("-") else "?",
    )
    group = parser.add_argument_group("a checkpoint instead of RUN|FOLDER")
    group.add_argument("--checkpoint", type=Path, metavar="FILE")
    group.add_argument("--data-bin", type=Path, metavar="DIR", help="the data it was trained on")
    pieces = group.add_mutually_exclusive_group()
    pieces.add_argument("--bpe-codes", type=Path, metavar="FILE", help="its text's byte pairs")
    pieces.add_argument("--sentencepiece-model", type=Path, metavar="FILE")
    group.add_argument("--normalize", action="store_true", help="Moses normalized its punctuation")
    group.add_argument("--lowercase", action="store_true", help="its text is lower-cased")


def add_search(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a search over sentences."""
    add = parser.add_argument
    add("--beam", type=int, metavar="N", help="beam size (default: the model's)")
    skips = "print an empty line for an invalid sentence, say so on standard error and go on"
    add("--skip-invalid", action="store_true", help=skips)
    most = f"source tokens per batch, with padding (default: {BATCH_TOKENS})"
    add("--batch-tokens", type=int, default=BATCH_TOKENS, metavar="N", help=most)
    add(
        "--precision",
        choices=PRECISIONS,
        default=FLOAT32,
        help="of the search's matrix products; float16 is faster on a GPU, bfloat16 on a new one "
        "and on a processor that has AVX512-BF16; both change some outputs (default: float32)",
    )
    add("--threads", type=int, metavar="N", help="threads of the search")
    device = parser.add_mutually_exclusive_group()
    add = device.add_argument
    add("--device", help="cpu or cuda (default: a GPU if there is one)")
    add("--cpu", dest="device", action="store_const", const="cpu", help="the same as --device cpu")


def find_model(arguments: argparse.Namespace) -> Path | Checkpoint:
    """Return the model that is given: a model folder, or the checkpoint of a run or of the options;
    raises ValueError unless it is one model with options that belong to it, and the errors of
    inference/{folder,export}.py."""
    model: Path | None = arguments.model
    if model is None and arguments.checkpoint is None and arguments.default_model:
        model = arguments.default_model
        note("no model is named: this is the package's small English-German one, for software help")
    if (model is None) == (arguments.checkpoint is None):
        raise ValueError("expected exactly one of RUN, FOLDER and --checkpoint")
    for name, other in GOES_WITH:
        if getattr(arguments, name) and not getattr(arguments, other):
            raise ValueError(f"{option(name)}: goes with {option(other)}")
    if model:
        return folder_or_run(model)
    # By the options or, without any, by what a recipe noted beside its data
    codes, pieces = arguments.bpe_codes, arguments.sentencepiece_model
    text, file = text_of_data(arguments.data_bin)
    if codes or pieces:
        steps = arguments.normalize, arguments.lowercase
        text = TextProcessing("byte_pairs" if codes else "word_pieces", *steps)
        file = codes or pieces
    return Checkpoint(arguments.checkpoint, arguments.data_bin, text, file)


def options_of_model(arguments: argparse.Namespace) -> str:
    """Return what was typed to name a model."""
    words = [str(arguments.model)] if arguments.model else []
    for name in ("checkpoint", "data_bin", *TEXT):
        value = getattr(arguments, name)
        words += [option(name)] * bool(value) + [str(value)] * isinstance(value, Path)
    return shlex.join(words)


def read_model(given: Path | Checkpoint) -> Model:
    """Return what `find_model` found, ready for use, and say in a terminal what the first seconds
    are for; raises as inference/{folder,export}.py do."""
    if sys.stderr.isatty():
        print("loading PyTorch and the model ...", file=sys.stderr)
    from fairseq_aiayn.inference.folder import read_folder

    return read_folder(given) if isinstance(given, Path) else given.read()


def search_settings(arguments: argparse.Namespace) -> tuple[str | None, int, int | None]:
    """Return the device, the batch size and the number of threads; raises ValueError for numbers
    that no machine can use."""
    if arguments.batch_tokens < 1:
        raise ValueError(f"--batch-tokens must be at least 1, got {arguments.batch_tokens}")
    if arguments.threads is not None and not 1 <= arguments.threads <= MOST_THREADS:
        raise ValueError(f"--threads must be from 1 to {MOST_THREADS}, got {arguments.threads}")
    return arguments.device, arguments.batch_tokens, arguments.threads
