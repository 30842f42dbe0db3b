"""A trained model on the command line: a run of the recipes, a model folder, or a checkpoint with
the data of its training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_aiayn.settings import option

if TYPE_CHECKING:
    from fairseq_aiayn.inference.export import Trained
    from fairseq_aiayn.inference.folder import Model, TextProcessing

CLEANED = ("normalize", "lowercase")
OF_CHECKPOINT = ("data_bin", "bpe_codes", "sentencepiece_model", *CLEANED)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declare the options that name a model and how its text was cut."""
    parser.add_argument(
        "trained", nargs="?", type=Path, metavar="RUN|FOLDER", help="run directory, or model folder"
    )
    one = parser.add_argument_group("a checkpoint instead of a run")
    one.add_argument("--checkpoint", type=Path, metavar="FILE")
    one.add_argument("--data-bin", type=Path, metavar="DIR", help="the data it was trained on")
    one.add_argument(
        "--bpe-codes", type=Path, metavar="FILE", help="its text is in these byte pairs"
    )
    one.add_argument("--sentencepiece-model", type=Path, metavar="FILE")
    one.add_argument("--normalize", action="store_true", help="Moses normalized its punctuation")
    one.add_argument("--lowercase", action="store_true", help="its text is lower-cased")


def require_one_model(arguments: argparse.Namespace) -> None:
    """Raise ValueError unless one model is given, with options that belong to it."""
    if (arguments.trained is None) == (arguments.checkpoint is None):
        raise ValueError("a run directory, a model folder or --checkpoint must be given, only one")
    of_checkpoint = [name for name in OF_CHECKPOINT if getattr(arguments, name)]
    if of_checkpoint and not arguments.checkpoint:
        raise ValueError(f"{option(of_checkpoint[0])}: goes with --checkpoint")
    if arguments.checkpoint and arguments.data_bin is None:
        raise ValueError("--data-bin must be given with --checkpoint: it has the dictionaries")
    cleaned = [name for name in CLEANED if getattr(arguments, name)]
    if cleaned and not arguments.bpe_codes:
        raise ValueError(f"{option(cleaned[0])}: goes with --bpe-codes")
    if arguments.bpe_codes and arguments.sentencepiece_model:
        raise ValueError("--bpe-codes and --sentencepiece-model: only one can have cut the text")


def is_folder(trained: Path | None) -> bool:
    """Return whether what is given is a model folder."""
    from fairseq_aiayn.inference.folder import CONFIG

    return trained is not None and (trained / CONFIG).exists()


def read_trained(arguments: argparse.Namespace) -> Trained:
    """Return the model of a run or of a checkpoint; raises as inference/export.py does."""
    from fairseq_aiayn.inference import export

    if arguments.trained:
        return export.of_run(arguments.trained)
    text, pieces = _text(arguments)
    return export.of_checkpoint(arguments.checkpoint, arguments.data_bin, text, pieces)


def read_model(arguments: argparse.Namespace) -> Model:
    """Return the model, ready for use, wherever it is; raises as inference/export.py does."""
    from fairseq_aiayn.inference.export import model_of
    from fairseq_aiayn.inference.folder import read_folder

    if is_folder(arguments.trained):
        return read_folder(arguments.trained)
    return model_of(read_trained(arguments))


def _text(arguments: argparse.Namespace) -> tuple[TextProcessing, Path | None]:
    """Return how the text of a checkpoint was cut: by the options or, without any, by what a recipe
    noted beside its data."""
    from fairseq_aiayn.inference.folder import text_of_data, text_of_files

    codes, model = arguments.bpe_codes, arguments.sentencepiece_model
    if not codes and not model:
        return text_of_data(arguments.data_bin)
    return text_of_files(codes, model, arguments.normalize, arguments.lowercase)
