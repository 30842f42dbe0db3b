"""End with one line if translations into a language could not be scored: before they are trained.

python check_language.py --language de
"""

from __future__ import annotations

import argparse

from fairseq_aiayn.evaluation.bleu import check_language
from fairseq_aiayn.messages import one_line_errors


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--language", required=True)
    with one_line_errors("check_language"):
        check_language(parser.parse_args().language)


if __name__ == "__main__":
    main()
