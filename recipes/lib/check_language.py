"""End with one line if translations into a language could not be scored: before they are trained.

python check_language.py --language de
"""

from __future__ import annotations

import argparse

from fairseq_aiayn.evaluation.bleu import check_language


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--language", required=True)
    try:
        check_language(parser.parse_args().language)
    except ValueError as error:
        raise SystemExit(f"check_language: {error}") from None


if __name__ == "__main__":
    main()
