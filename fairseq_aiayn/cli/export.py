"""The command that writes a trained model for use without fairseq, or for other programs."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from fairseq_aiayn.cli.options import (
    FLOAT32,
    QUANTIZATIONS,
    add_model,
    find_model,
    read_model,
)
from fairseq_aiayn.inference.export import to_fairseq
from fairseq_aiayn.inference.folder import NONE, Precision, write_folder
from fairseq_aiayn.settings import option

FOLDER, FAIRSEQ, CTRANSLATE2, MARIAN = TARGETS = ("folder", "fairseq", "ctranslate2", "marian")
TOLD = ("data", "scores", "licence")
TARGETS_OF = {  # an option
    "precision": (FOLDER,),
    "quantization": (CTRANSLATE2,),
    **{name: (FOLDER, MARIAN) for name in TOLD},
}


def declare_export(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn export`."""
    add_model(parser)
    parser.add_argument(
        "--to", choices=TARGETS, default=FOLDER, help="what to write (default: folder)"
    )
    parser.add_argument("--output", type=Path, required=True, help="must not exist yet")
    parser.add_argument(
        "--precision",
        choices=get_args(Precision),
        help="of the weights in the folder (default: float32)",
    )
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        help="of the weights, with --to ctranslate2 (default: float32)",
    )
    card = parser.add_argument_group("for the model card")
    for name in TOLD:
        card.add_argument(f"--{name}", metavar="TEXT")


def run_export(arguments: argparse.Namespace) -> None:
    """write a trained model as one folder for use without fairseq, or for other programs

    A folder has all that raw text needs: weights, vocabularies, byte pairs or word pieces, and the
    search's defaults. `aiayn translate FOLDER` and fairseq_aiayn.load("FOLDER") use it; they need
    torch and safetensors, and sacremoses, subword-nmt or sentencepiece for the text. Nothing in it
    is executed. From a run directory of the recipes, everything is found; a checkpoint needs the
    data directory of its training, and the file that cut its text. --to marian writes what
    transformers' MarianMTModel loads; --to fairseq makes a checkpoint of a folder.

    For CTranslate2, an engine in C++, a run, a checkpoint or a folder becomes a directory of
    CTranslate2's own format (needs pip install ctranslate2), which `aiayn translate` uses, too.

    examples:
      aiayn export exp/demo/aiayn-tiny-1 --output demo-en-de
      aiayn export --checkpoint average.pt --data-bin bin --bpe-codes codes --normalize \\
          --output en-de
      aiayn export demo-en-de --to fairseq --output checkpoint.pt
      aiayn export demo-en-de --to ctranslate2 --quantization int8 --output demo-en-de-int8
      aiayn export exp/demo/aiayn-tiny-1 --to marian --output marian-en-de
    """
    for name, targets in TARGETS_OF.items():
        if getattr(arguments, name) and arguments.to not in targets:
            raise ValueError(f"{option(name)}: goes with --to {' or '.join(targets)}")
    output: Path = arguments.output
    if output.exists():
        raise ValueError(f"--output {output}: must not exist yet")
    given = find_model(arguments)
    model = read_model(given)
    if model.config.text.pieces == NONE and not isinstance(given, Path):
        print(
            "nothing says how the text was cut (--bpe-codes, --sentencepiece-model):"
            " the model takes text in pieces",
            file=sys.stderr,
        )
    told = {name: getattr(arguments, name) for name in TOLD if getattr(arguments, name)}
    precision = cast(Precision, arguments.precision or FLOAT32)
    config = replace(model.config, precision=precision, told=model.config.told | told)
    model = replace(model, config=config)
    if arguments.to == FOLDER:
        write_folder(model, output)
    elif arguments.to == FAIRSEQ:
        to_fairseq(model, output)
    elif arguments.to == MARIAN:
        from fairseq_aiayn.inference.marian import write_marian

        write_marian(model, output)
    else:
        from fairseq_aiayn.inference.ctranslate2_writer import write_ctranslate2

        write_ctranslate2(model, arguments.quantization or FLOAT32, output)
