"""What docs/tour.md shows: code of the package, and results of the experiments, as Markdown."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path

from fairseq_aiayn.report.document import Markdown, Table, blocks_as_markdown
from fairseq_aiayn.text import read_json

MEASURED = Path(__file__).parent / "measured.json"


def code(module: str, *names: str) -> str:
    """Return functions of fairseq_aiayn or of the tour, or methods ("Class.method"), without their
    docstrings."""
    package, below = ("docs", module) if module.startswith("tour.") else ("fairseq_aiayn", module)
    path = f"{package}/{below.replace('.', '/')}.py"
    found = import_module(module if package == "docs" else f"{package}.{module}")
    sources = [without_docstring(attrgetter(name)(found)) for name in names]
    return "\n".join([f"[`{path}`](../{path}):", "", "```python", "\n\n\n".join(sources), "```"])


def table(name: str) -> str:
    """Return a table of measured.json."""
    rows = [[Markdown(cell) for cell in row] for row in measured()[name]["rows"]]
    header = list(map(Markdown, measured()[name]["header"]))
    return blocks_as_markdown([Table(header, rows, measured()[name]["left"])]).rstrip()


def text(name: str, *keys: str) -> str:
    """Return texts of measured.json, each on a line of its own."""
    return "\n".join(["```", *(measured()[name][key] for key in keys), "```"])


@cache
def measured() -> dict:
    """Return the results that `python -m tour` wrote."""
    return read_json(MEASURED)


def without_docstring(function: Callable) -> str:
    """Return the source of a function, without indentation and docstring."""
    source = textwrap.dedent(inspect.getsource(function)).rstrip()
    first = ast.parse(source).body[0].body[0]
    lines = source.split("\n")
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        del lines[first.lineno - 1 : first.end_lineno]
    return "\n".join(lines)
