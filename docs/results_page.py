"""Write docs/results.md from the JSON files of docs/results.

A table.json of `aiayn compare` or a table3.json of recipes/table3/table.py stands there under the
name that its heading gets; NAME.remark.md beside it may say what a reader must know of it. A
measurement of another kind is a section, NAME.section.md. The page starts with summary.md. Examples
and commands are in the JSON files only.

    cp exp/wmt14_en_de/table/table.json docs/results/wmt14_en_de_base.json
    python docs/results_page.py --results docs/results --output docs/results.md
"""

from __future__ import annotations

import math
import os
import textwrap
from pathlib import Path
from urllib.parse import quote

from fairseq_aiayn.console import script
from fairseq_aiayn.files import dataclass_of, read_dataclass, write_whole
from fairseq_aiayn.report.document import as_markdown
from fairseq_aiayn.report.pages import sections
from fairseq_aiayn.report.results import Results

INTRODUCTION = """\
# Results

This page is written by `docs/results_page.py` from the files in [{name}]({name}/).
The JSON files also have the commands, machine and versions of each run; the other sections were
written by hand.
"""
WIDTH = 120
SECTION = ".section.md"
LEFT_OUT = {"Examples", "How the runs were made"}  # a table.json has them


def make_page(results: Path, output: Path) -> str:
    """Return the page; raises OSError, or ValueError for a file without a table."""
    name = Path(os.path.relpath(results, output.parent)).as_posix()
    parts = [INTRODUCTION.format(name=name), *text_of(results / "summary.md")]
    for path in sorted(results.iterdir()):
        if path.name.endswith(SECTION):
            heading = path.name.removesuffix(SECTION)
            parts.append(f"## {heading}\n\n{path.read_text(encoding='utf-8').strip()}\n")
        elif path.suffix == ".json":
            parts += [f"## {path.stem}\n", f"From [{path.name}]({name}/{quote(path.name)}).\n"]
            parts += text_of(path.with_suffix(".remark.md"))
            tables = sections(read_results(path))
            shown = {title: tables[title] for title in tables if title not in LEFT_OUT}
            parts.append(as_markdown(shown, level=3))
    return "\n".join(map(wrapped, "\n".join(parts).split("\n")))


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


def text_of(path: Path) -> list[str]:
    """Return the text of a file that may be missing."""
    return [path.read_text(encoding="utf-8").rstrip() + "\n"] if path.exists() else []


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--results", type=Path, required=True, metavar="DIR")
        parser.add_argument("--output", type=Path, required=True, metavar="PAGE")
        arguments = parser.parse_args()
        write_whole(arguments.output, make_page(arguments.results, arguments.output))


if __name__ == "__main__":
    main()
