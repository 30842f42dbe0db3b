"""The options that the comparisons share."""

from __future__ import annotations

import argparse
from pathlib import Path

from side_by_side import ROOT

from fairseq_aiayn.rows import ROWS

DEFAULT_WORK = ROOT / "exp" / "bench"
DEFAULT_DATA = DEFAULT_WORK / "multi30k_en_de" / "bin"
LANGUAGE_FILES = "train.*-*.*.idx"  # fairseq-preprocess's
COUNTS = (
    *("turns", "updates", "starts", "max_tokens", "batch_size", "train_updates", "points"),
    *("length", "seeds"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of all comparisons."""
    parser.add_argument(
        "--against",
        default="stock",
        metavar="stock|DIR",
        help="stock fairseq, or another checkout of this project (default: stock)",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of data and model (default: 1)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument(
        "--work",
        type=Path,
        default=DEFAULT_WORK,
        metavar="DIR",
        help="directory for logs and models (default: exp/bench)",
    )


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Declare --data."""
    parser.add_argument(
        "--data",
        type=Path,
        default=DEFAULT_DATA,
        metavar="DIR",
        help="output of fairseq-preprocess (default: Multi30k, as `make bench` prepares it)",
    )


def add_turns(parser: argparse.ArgumentParser, default: int) -> None:
    """Declare --turns."""
    parser.add_argument(
        "--turns",
        type=int,
        default=default,
        metavar="N",
        help=f"turns that count, per system (default: {default})",
    )


def check_options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End with status 2 for options that no comparison takes, and complete the paths of others."""
    for name in COUNTS:
        value = getattr(arguments, name, None)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json must be in a directory that exists, got {arguments.json}")
    rows = getattr(arguments, "row", [])
    for row in [rows] if isinstance(rows, str) else rows:
        if row not in ROWS:
            parser.error(f"--row must be of {', '.join(ROWS)}; got {row}")
    package = Path(arguments.against) / "fairseq_aiayn" / "__init__.py"
    if arguments.against != "stock" and not package.is_file():
        parser.error(f"--against must be stock or a checkout, got {arguments.against}")
    data = getattr(arguments, "data", None)
    if data and not any(data.glob(LANGUAGE_FILES)):
        parser.error(f"--data must have been made by fairseq-preprocess, got {data}")
    arguments.work = arguments.work.resolve()
