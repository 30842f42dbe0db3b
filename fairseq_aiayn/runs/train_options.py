"""The options of fairseq-train, defaults included, as its log has them."""

from __future__ import annotations

import ast
from pathlib import Path

from fairseq_aiayn.files.parallel_text import read_lines

START = "{'_name'"  # of the line that fairseq-train writes before it builds the model


def read_train_options(log: Path) -> dict[str, str]:
    """Return all options with their values of the newest start.

    fairseq writes the printed form of its configuration, in which a Namespace has every option.
    Empty where the log has none that can be read.
    """
    lines = [line for line in read_lines(log) if line.startswith(START)]
    try:
        tree = ast.parse(lines[-1], mode="eval") if lines else ast.Module([], [])
    except SyntaxError:
        return {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return {one.arg: _written(one.value) for one in node.keywords if one.arg}
    return {}


def _written(value: ast.expr) -> str:
    """A value as Python writes it, without quotation marks."""
    is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return value.value if is_text else ast.unparse(value)
