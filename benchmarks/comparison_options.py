"""The options that the comparisons share; each checks its own value."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.runs.record import ROOT

WORK = ROOT / "exp" / "bench"
DATA = WORK / "multi30k_en_de" / "bin"
LANGUAGE_FILES = "train.*-*.*.idx"  # fairseq-preprocess's


def comparison_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all comparisons."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all figures as JSON")
    parser.add_argument(
        "--work",
        type=lambda text: Path(text).resolve(),
        default=WORK,
        metavar="DIR",
        help="directory for logs and models (default: exp/bench)",
    )
    return parser


def add_row(parser: argparse.ArgumentParser) -> None:
    """Declare --row, which is one row."""
    parser.add_argument(
        "--row", type=row_name, default="tiny", help="of aiayn rows (default: tiny)"
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare --data."""
    parser.add_argument(
        "--data",
        type=binaries,
        default=str(DATA),  # a string is checked like an option
        metavar="DIR",
        help="output of fairseq-preprocess (default: Multi30k, as `make bench` prepares it)",
    )


def add_count(
    parser: argparse.ArgumentParser, option: str, default: int | None, meaning: str
) -> None:
    """Declare an option that is a number from 1 on."""
    shown = "" if default is None else f" (default: {default})"
    parser.add_argument(option, type=count, default=default, metavar="N", help=meaning + shown)


def count(text: str) -> int:
    """Read a number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number from 1 on, got {text}")
    return int(text)


def row_name(text: str) -> str:
    """Read the name of a row."""
    if text not in ROWS:
        raise argparse.ArgumentTypeError(f"must be of {', '.join(ROWS)}; got {text}")
    return text


def new_file(text: str) -> Path:
    """Read the path of a file that can be written."""
    path = Path(text)
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"must be in a directory that exists, got {text}")
    return path


def old_file(text: str) -> Path:
    """Read the path of a file that exists."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"must be a file, got {text}")
    return path


def binaries(text: str) -> Path:
    """Read the path of a directory with a training split."""
    path = Path(text)
    if not any(path.glob(LANGUAGE_FILES)):
        raise argparse.ArgumentTypeError(f"must have been made by fairseq-preprocess, got {text}")
    return path
