"""Print as JSON how many sentences fairseq-generate searched and in how many seconds.

Standard input is the log of the stage. If it has several searches, the last counts.

python search_seconds.py < 10-parse-aiayn-parsing-1-test.log > seconds.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable

from fairseq_aiayn.text import script

SEARCHED = re.compile(r"Translated ([\d,]+) sentences \([\d,]+ tokens\) in ([\d.]+)s")


def search_seconds(lines: Iterable[str]) -> dict[str, float]:
    """Return the numbers of the last search; raises ValueError if the log has no search."""
    found = None
    for line in lines:
        found = SEARCHED.search(line) or found
    if found is None:
        raise ValueError("must be a log of fairseq-generate, has no line 'Translated …'")
    return {"sentences": int(found[1].replace(",", "")), "seconds": float(found[2])}


def main() -> None:
    with script(__doc__) as parser:
        parser.parse_args()
        sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline="\n")
        print(json.dumps(search_seconds(sys.stdin)))


if __name__ == "__main__":
    main()
