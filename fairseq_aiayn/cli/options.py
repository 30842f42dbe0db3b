"""The options that name a trained model, and those of its search, for all commands that use one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_aiayn.settings import option

if TYPE_CHECKING:
    from fairseq_aiayn.inference.folder import Model

PRECISIONS = ("float32", "bfloat16")  # nn/cpu_kernels.py has them, but imports torch
TEXT = ("bpe_codes", "sentencepiece_model", "normalize", "lowercase")
GOES_WITH = (  # options, and another one that each needs
    *((name, "checkpoint") for name in ("data_bin", *TEXT)),
    ("checkpoint", "data_bin"),  # it has the dictionaries
    ("normalize", "bpe_codes"),
    ("lowercase", "bpe_codes"),
)


def add_model(parser: argparse.ArgumentParser, name: str = "model") -> None:
    """Declare the options that name a model: as an argument, or as an option called `name`."""
    parser.add_argument(
        name,
        type=Path,
        metavar="RUN|FOLDER",
        help="a run directory of the recipes, or what aiayn export wrote",
        nargs=None if name.startswith("-") else "?",
    )
    group = parser.add_argument_group("a checkpoint instead of RUN|FOLDER")
    group.add_argument("--checkpoint", type=Path, metavar="FILE")
    group.add_argument("--data-bin", type=Path, metavar="DIR", help="the data it was trained on")
    pieces = group.add_mutually_exclusive_group()
    pieces.add_argument(
        "--bpe-codes", type=Path, metavar="FILE", help="its text is in these byte pairs"
    )
    pieces.add_argument("--sentencepiece-model", type=Path, metavar="FILE")
    group.add_argument("--normalize", action="store_true", help="Moses normalized its punctuation")
    group.add_argument("--lowercase", action="store_true", help="its text is lower-cased")


def add_search(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a search over sentences."""
    parser.add_argument("--beam", type=int, metavar="N", help="beam size (default: the model's)")
    parser.add_argument(
        "--skip-invalid",
        action="store_true",
        help="print an empty line for an invalid sentence, say so on standard error and go on",
    )
    parser.add_argument(
        "--batch-tokens",
        type=int,
        metavar="N",
        help="source tokens per batch, with padding (default: 4096)",
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="of the search's matrix products; bfloat16 is faster on a processor that has AMX or "
        "AVX512-BF16, and changes some outputs (default: float32)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the search")
    device = parser.add_mutually_exclusive_group()
    device.add_argument("--device", help="cpu or cuda (default: a GPU if there is one)")
    device.add_argument(
        "--cpu", dest="device", action="store_const", const="cpu", help="the same as --device cpu"
    )


def require_one_model(arguments: argparse.Namespace) -> None:
    """Raise ValueError unless one model is given, with options that belong to it."""
    if (arguments.model is None) == (arguments.checkpoint is None):
        raise ValueError("a run directory, a model folder or --checkpoint must be given, only one")
    for name, other in GOES_WITH:
        if getattr(arguments, name) and not getattr(arguments, other):
            raise ValueError(f"{option(name)}: goes with {option(other)}")


def is_folder(path: Path | None) -> bool:
    """Return whether what is given is a model folder."""
    from fairseq_aiayn.inference.folder import CONFIG

    return path is not None and (path / CONFIG).exists()


def read_model(arguments: argparse.Namespace) -> Model:
    """Return the model that is given, ready for use.

    Raises ValueError as `require_one_model` does, and as inference/{folder,export}.py do.
    """
    require_one_model(arguments)
    from fairseq_aiayn.inference.folder import TextProcessing, read_folder, text_of_data

    if is_folder(arguments.model):
        return read_folder(arguments.model)
    from fairseq_aiayn.inference.export import of_checkpoint, of_run  # needs omegaconf

    if arguments.model:
        return of_run(arguments.model)
    # By the options or, without any, by what a recipe noted beside its data
    codes, pieces = arguments.bpe_codes, arguments.sentencepiece_model
    text, file = text_of_data(arguments.data_bin)
    if codes or pieces:
        text = TextProcessing(
            "byte_pairs" if codes else "word_pieces", arguments.normalize, arguments.lowercase
        )
        file = codes or pieces
    return of_checkpoint(arguments.checkpoint, arguments.data_bin, text, file)


def search_settings(arguments: argparse.Namespace) -> tuple[str | None, int]:
    """Return the device and the batch size, and set the number of threads; raises ValueError for
    less than one thread."""
    import torch

    from fairseq_aiayn.inference.engine import BATCH_TOKENS

    if arguments.threads is not None:
        if arguments.threads < 1:
            raise ValueError(f"--threads must be at least 1, got {arguments.threads}")
        torch.set_num_threads(arguments.threads)
    batch_tokens = BATCH_TOKENS if arguments.batch_tokens is None else arguments.batch_tokens
    return arguments.device, batch_tokens
