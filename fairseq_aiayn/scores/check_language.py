"""Fail with one line, before a training, if translations into a language cannot be scored.

python -m fairseq_aiayn.scores.check_language --language de
"""

from __future__ import annotations

import argparse

from fairseq_aiayn.messages import one_line_errors
from fairseq_aiayn.scores.bleu import check_language


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--language", required=True)
    with one_line_errors("check_language"):
        check_language(parser.parse_args().language)


if __name__ == "__main__":
    main()
