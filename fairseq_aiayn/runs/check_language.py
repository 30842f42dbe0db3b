"""Fail with one line, before a training, if translations into a language cannot be scored.

python -m fairseq_aiayn.runs.check_language --language de
"""

from __future__ import annotations

from fairseq_aiayn.scores import check_language
from fairseq_aiayn.text import script


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--language", required=True)
        check_language(parser.parse_args().language)


if __name__ == "__main__":
    main()
