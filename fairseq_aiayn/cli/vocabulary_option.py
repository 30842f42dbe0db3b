"""The option --vocab, for the commands that compute a row's cost."""

from __future__ import annotations

import argparse

from fairseq_aiayn.paper import VOCABULARY_EN_DE


def add_vocabulary_option(parser: argparse.ArgumentParser) -> None:
    """Declare --vocab, the number of types, by default English-German's."""
    parser.add_argument(
        "--vocab",
        type=int,
        default=VOCABULARY_EN_DE,
        metavar="V",
        help="types in the vocabulary (default: %(default)s)",
    )
