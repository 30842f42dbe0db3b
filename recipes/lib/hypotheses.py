"""Print the translations that fairseq-generate wrote, in the order of the test set.

python hypotheses.py < generate-test.txt > hypothesis.txt
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

HYPOTHESIS = re.compile(r"D-(\d+)\t[^\t]*\t(.*)")


def hypotheses(lines: Iterable[str]) -> list[str]:
    """Return the detokenised best hypothesis of every sentence (n-best lists are best first).

    Raises ValueError if a sentence has none.
    """
    found: dict[int, str] = {}
    for line in lines:
        if match := HYPOTHESIS.match(line.rstrip("\n")):
            found.setdefault(int(match[1]), match[2])
    for index in range(max(found, default=0) + 1):
        if index not in found:
            raise ValueError(f"every sentence must have a D- line: sentence {index} has none")
    return [found[index] for index in range(len(found))]


def main() -> None:
    sys.stdin.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        print(*hypotheses(sys.stdin), sep="\n")
    except ValueError as error:
        raise SystemExit(f"hypotheses: {error}") from None


if __name__ == "__main__":
    main()
