"""The option --vocab of the commands that compute a row's cost."""

from __future__ import annotations

import argparse

from fairseq_aiayn.paper import VOCABULARY_EN_DE


def add_vocabulary_option(parser: argparse.ArgumentParser) -> None:
    """Declare --vocab, in types, with English-German's as the default."""
    parser.add_argument(
        "--vocab",
        type=int,
        default=VOCABULARY_EN_DE,
        metavar="V",
        help="types (default: %(default)s)",
    )
