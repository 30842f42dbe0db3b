"""write a trained model as one folder for use without fairseq, or for other programs

A folder has all that raw text needs: weights, vocabularies, byte pairs or word pieces, and the
search's defaults. `aiayn translate FOLDER` and fairseq_aiayn.load("FOLDER") use it; they need torch
and safetensors, and sacremoses, subword-nmt or sentencepiece for the text. Nothing in it is
executed. From a run directory of the recipes, everything is found; a checkpoint needs the data
directory of its training, and the file that cut its text. --to marian writes what transformers'
MarianMTModel loads, --to onnx graphs for ONNX Runtime; --to fairseq makes a checkpoint of a folder.

examples:
  aiayn export exp/demo/aiayn-tiny-1 --output demo-en-de
  aiayn export --checkpoint average.pt --data-bin bin --bpe-codes codes --normalize --output en-de
  aiayn export demo-en-de --to fairseq --output checkpoint.pt
  aiayn export exp/demo/aiayn-tiny-1 --to marian --output marian-en-de
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairseq_aiayn.model_folder.export import Trained
    from fairseq_aiayn.model_folder.folder import Model
    from fairseq_aiayn.model_folder.text import TextProcessing

FOLDER, FAIRSEQ, MARIAN, ONNX = "folder", "fairseq", "marian", "onnx"
TOLD = ("data", "scores", "licence")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn export`."""
    parser.add_argument(
        "trained", nargs="?", type=Path, metavar="RUN|FOLDER", help="run directory, or model folder"
    )
    parser.add_argument(
        "--to", choices=[FOLDER, FAIRSEQ, MARIAN, ONNX], default=FOLDER, help="default: folder"
    )
    parser.add_argument("--output", type=Path, required=True, help="must not exist yet")
    parser.add_argument(
        "--precision",
        choices=["float32", "float16", "bfloat16"],
        default="float32",
        help="of the weights in the folder (default: float32)",
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
    card = parser.add_argument_group("for the model card")
    for name in TOLD:
        card.add_argument(f"--{name}", metavar="TEXT")


def run(arguments: argparse.Namespace) -> None:
    """Write the folder or the checkpoint."""
    from fairseq_aiayn.model_folder import export

    if arguments.to == FAIRSEQ:
        if arguments.trained is None or arguments.checkpoint:
            raise ValueError("--to fairseq: must be given a model folder")
        export.to_fairseq(arguments.trained, arguments.output)
        return
    if (arguments.trained is None) == (arguments.checkpoint is None):
        raise ValueError("a run directory or --checkpoint must be given, and not both")
    if arguments.output.exists():
        raise ValueError(f"--output {arguments.output}: must not exist yet")
    if arguments.to in (MARIAN, ONNX):
        _to_other(arguments)
    else:
        trained, told = _trained(arguments)
        export.to_folder(trained, arguments.precision, told, arguments.output)


def _to_other(arguments: argparse.Namespace) -> None:
    """Write a directory for another program."""
    from fairseq_aiayn.exchange.marian import to_marian
    from fairseq_aiayn.exchange.onnx import to_onnx

    if arguments.precision != "float32":
        raise ValueError(f"--precision: --to {arguments.to} writes float32 only")
    write = {MARIAN: to_marian, ONNX: to_onnx}[arguments.to]
    write(*_model(arguments), arguments.output)


def _model(arguments: argparse.Namespace) -> tuple[Model, dict[str, str]]:
    """Return a trained model, be it in a folder or not, and what is told of it."""
    from fairseq_aiayn.model_folder.folder import CONFIG, loaded, read_folder

    if arguments.trained and (arguments.trained / CONFIG).exists():
        model = read_folder(arguments.trained)
        return model, model.config.told | _told(arguments)
    trained, told = _trained(arguments)
    return loaded(trained.config, trained.transformer, trained.files), told


def _trained(arguments: argparse.Namespace) -> tuple[Trained, dict[str, str]]:
    """Return the model of a run or of a checkpoint, and what is told of it."""
    from fairseq_aiayn.model_folder import export

    if arguments.trained:
        trained, known = export.of_run(arguments.trained)
        return trained, known | _told(arguments)
    if arguments.data_bin is None:
        raise ValueError("--data-bin must be given with --checkpoint: it has the dictionaries")
    text, pieces = _text(arguments)
    trained = export.of_checkpoint(arguments.checkpoint, arguments.data_bin, text, pieces)
    return trained, _told(arguments)


def _told(arguments: argparse.Namespace) -> dict[str, str]:
    return {name: getattr(arguments, name) for name in TOLD if getattr(arguments, name)}


def _text(arguments: argparse.Namespace) -> tuple[TextProcessing, Path | None]:
    """Return how the text of a checkpoint was cut: by the options or, without any, by what a recipe
    noted beside its data."""
    from fairseq_aiayn.model_folder.text import (
        BYTE_PAIRS,
        WORD_PIECES,
        TextProcessing,
        text_of_data,
    )

    codes, model = arguments.bpe_codes, arguments.sentencepiece_model
    if codes and model:
        raise ValueError("--bpe-codes and --sentencepiece-model: only one can have cut the text")
    if not codes and not model:
        return text_of_data(arguments.data_bin)
    kind = BYTE_PAIRS if codes else WORD_PIECES
    return TextProcessing(kind, arguments.normalize, arguments.lowercase), codes or model
