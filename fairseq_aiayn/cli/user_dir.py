"""print the directory to give to fairseq's --user-dir

fairseq-train DATA --user-dir $(aiayn user-dir) --task aiayn_translation --arch aiayn_base ...
"""

from __future__ import annotations

import argparse
from pathlib import Path

import fairseq_aiayn


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`aiayn user-dir` has no options."""


def run(arguments: argparse.Namespace) -> None:
    """Print the directory of the package."""
    print(Path(fairseq_aiayn.__file__).resolve().parent)
