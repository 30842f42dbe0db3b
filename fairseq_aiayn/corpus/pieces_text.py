"""Cut text into pieces line by line, as apply_pieces.py does, for held-out sets.

python -m fairseq_aiayn.corpus.pieces_text --model model.model < text > pieces
"""

from __future__ import annotations

import argparse
import sys

from fairseq_aiayn.corpus.moses_text import read_text
from fairseq_aiayn.corpus.pieces import add_pieces_options, open_pieces
from fairseq_aiayn.messages import one_line_errors


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_pieces_options(parser)
    arguments = parser.parse_args()
    with one_line_errors("pieces_text"):
        pieces = open_pieces(arguments.codes, arguments.model)
        for line in read_text(sys.stdin.buffer):
            sys.stdout.buffer.write(f"{pieces(line)}\n".encode())


if __name__ == "__main__":
    main()
