"""The command that writes a trained model for use without fairseq, or back to fairseq."""

from __future__ import annotations

import argparse
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import cast, get_args

from fairseq_aiayn.cli.options import FLOAT32, add_model, find_model, read_model
from fairseq_aiayn.console import note
from fairseq_aiayn.inference.description import Model, Precision
from fairseq_aiayn.inference.export import to_fairseq
from fairseq_aiayn.settings import option

FOLDER, FAIRSEQ = TARGETS = ("folder", "fairseq")
TOLD = ("data", "scores", "licence", "use")


def declare_export(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_model(parser)
    add("--to", choices=TARGETS, default=FOLDER, help="what to write (default: folder)")
    add("--output", type=Path, required=True, help="must not exist yet")
    add("--precision", choices=get_args(Precision), help="of the folder (default: float32)")
    add("--no-ctranslate2", action="store_true", help="leave CTranslate2's files out of the folder")
    card = parser.add_argument_group("for the model card")
    for name in TOLD:
        card.add_argument(f"--{name}", metavar="TEXT")


def run_export(arguments: argparse.Namespace) -> None:
    """write a trained model as one folder for use without fairseq, or as a checkpoint

    A folder has all that raw text needs: weights, vocabularies, byte pairs or word pieces, and the
    search's defaults. `aiayn translate FOLDER` and fairseq_aiayn.load("FOLDER") use it; they need
    torch and safetensors, and sacremoses, subword-nmt or sentencepiece for the text. Nothing in it
    is executed. From a run directory of the recipes, everything is found; a checkpoint needs the
    data directory of its training, and the file that cut its text. --to fairseq makes a
    checkpoint of a folder.

    Where CTranslate2, an engine in C++, is installed (pip install 'fairseq-aiayn[ctranslate2]'),
    the folder of a translation model also has its files, in float32, in FOLDER/ctranslate2, which
    `aiayn translate` and other programs use.

    examples:
      aiayn export exp/demo/aiayn-demo-1 --output demo-en-de
      aiayn export --checkpoint average.pt --data-bin bin --bpe-codes codes --output en-de
      aiayn export demo-en-de --to fairseq --output checkpoint.pt
    """
    for name in ("precision", "no_ctranslate2", *TOLD):
        if getattr(arguments, name) and arguments.to != FOLDER:
            raise ValueError(f"{option(name)}: goes with --to {FOLDER}")
    output: Path = arguments.output
    if output.exists() or output.is_symlink():
        raise ValueError(f"--output {output}: must not exist yet")
    given = find_model(arguments)
    model = read_model(given)
    if model.config.text.pieces == "none" and not isinstance(given, Path):
        note(
            "nothing says how the text was cut (--bpe-codes, --sentencepiece-model):"
            " the model takes text in pieces"
        )
    told = {name: getattr(arguments, name) for name in TOLD if getattr(arguments, name)}
    precision = cast(Precision, arguments.precision or FLOAT32)
    config = replace(model.config, precision=precision, told=model.config.told | told)
    model = replace(model, config=config)
    if arguments.to == FOLDER:
        _write_folder(model, output, not arguments.no_ctranslate2)
    else:
        to_fairseq(model, output)


def _write_folder(model: Model, output: Path, for_ctranslate2: bool) -> None:
    """Write a folder, with CTranslate2's files if the model can have them and CTranslate2 is there;
    say on standard error which."""
    from fairseq_aiayn.inference.folder import write_folder

    if model.config.task != "translation" or not for_ctranslate2:
        return write_folder(model, output)
    is_there = find_spec("ctranslate2") is not None
    write_folder(model, output, is_there)
    needed = "" if is_there else ", which need pip install 'fairseq-aiayn[ctranslate2]'"
    with_or_without = "with" if is_there else "without"
    note(f"wrote {output} {with_or_without} CTranslate2's files{needed}")
