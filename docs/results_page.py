"""Write the tables of docs/results.md, from the files of docs/results, in their places.

A table.json of `aiayn compare` or a table3.json of recipes/table3/table.py gets a place by a line
`<!-- tables of NAME.json -->` in the page; what follows, up to the next heading of level 2, is
written anew. Examples and commands are in the JSON files only.

    cp exp/wmt14_en_de/table/table.json docs/results/wmt14_en_de_base.json
    python docs/results_page.py
"""

from __future__ import annotations

import math
import re
import textwrap
from pathlib import Path

from fairseq_aiayn.console import script
from fairseq_aiayn.files import dataclass_of, read_dataclass, write_whole
from fairseq_aiayn.report.document import as_markdown
from fairseq_aiayn.report.pages import sections
from fairseq_aiayn.report.results import Results

PAGE = Path(__file__).with_name("results.md")
PLACE = re.compile(r"(?ms)^(<!-- tables of (\S+) -->\n\n).*?(?=^## |\Z)")
WIDTH = 120
LEFT_OUT = {"Examples", "How the runs were made"}  # a table.json has them


def make_page(page: Path) -> str:
    """Return the page with its tables; raises OSError, or ValueError for a file without a table."""

    def tables(place: re.Match[str]) -> str:
        found = sections(read_results(page.with_name("results") / place[2]))
        shown = {title: found[title] for title in found if title not in LEFT_OUT}
        lines = as_markdown(shown, level=3).strip().split("\n")
        return place[1] + "\n".join(map(wrapped, lines)) + "\n\n"

    return PLACE.sub(tables, page.read_text(encoding="utf-8")).rstrip() + "\n"


def read_results(path: Path) -> Results:
    """Read the results in a JSON file; raises OSError, or ValueError for anything else in it."""
    content = read_dataclass(dict, path)
    for run in content.get("runs", ()):
        # JSON has no number for the perplexity of a diverged training
        if run.get("dev_perplexity", 0) is None:
            run["dev_perplexity"] = math.nan
    return dataclass_of(content, Results, path)


def wrapped(line: str) -> str:
    """Return a line that is no row of a table in lines of at most WIDTH characters."""
    if line.startswith("|") or len(line) <= WIDTH:
        return line
    return textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    with script(__doc__) as parser:
        parser.parse_args()
        write_whole(PAGE, make_page(PAGE))
