"""Tokenize text as clean_corpus.py does, but keep every line, as held-out sets need it.

python -m fairseq_aiayn.corpus.moses_text --language de --normalize < text > tokens
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator

from fairseq_aiayn.corpus.moses import moses_tokenizer
from fairseq_aiayn.messages import one_line_errors


def read_text(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield lines of UTF-8 without line ends; raises ValueError with the number of a bad line."""
    for number, line in enumerate(lines, start=1):
        try:
            yield line.removesuffix(b"\n").decode()
        except UnicodeDecodeError:
            raise ValueError(f"line {number:,} must be UTF-8, is not") from None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--language", required=True)
    parser.add_argument("--normalize", action="store_true")
    parser.add_argument("--lowercase", action="store_true")
    given = parser.parse_args()
    tokenize = moses_tokenizer(given.language, given.normalize, given.lowercase)
    with one_line_errors("moses_text"):
        for line in read_text(sys.stdin.buffer):
            sys.stdout.buffer.write(f"{tokenize(line)}\n".encode())


if __name__ == "__main__":
    main()
