"""The configuration of a fairseq training as one mapping of options, whatever wrote it down.

fairseq before 0.10 has a Namespace with every option. Since then it has groups of options, such as
"optimization", and in the group "model" often still a Namespace with every option.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

NAMED_GROUPS = {  # the option that says what a group is the configuration of
    "model": "arch",
    **{name: name for name in ("task", "criterion", "optimizer", "lr_scheduler")},
}
# What fairseq-train writes down as well, but does not use
OTHER_COMMANDS = ("generation", "eval_lm", "interactive", "common_eval", "scoring")
STARTS = ("{'_name'", "Namespace(")  # of a printed configuration


def printed_configuration(lines: Sequence[str]) -> dict:
    """Return the last configuration in a log as plain data; empty if none can be read.

    A cut-off line is skipped. Nothing in the log is evaluated.
    """
    for line in reversed(lines):
        start = next((line.find(mark) for mark in STARTS if mark in line), None)
        if start is None:
            continue
        try:
            found = _plain(ast.parse(line[start:].strip(), mode="eval").body)
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            continue
        if isinstance(found, dict):
            return found
    return {}


def flat_options(configuration: Mapping) -> dict[str, object]:
    """Return the options of a plain configuration by fairseq's argument names, such as max_tokens.

    An option that several groups have gets the value that fairseq-train uses.
    """
    model = configuration.get("model")
    if not isinstance(model, Mapping) and "generation" not in configuration:  # no groups
        return {name: value for name, value in configuration.items() if name[:1] != "_"}
    options = dict(_joined(model)) if isinstance(model, Mapping) else {}  # generate has none
    for group, values in configuration.items():
        if not isinstance(values, Mapping) or group in OTHER_COMMANDS:
            continue
        if group in NAMED_GROUPS and values.get("_name"):
            options[NAMED_GROUPS[group]] = values["_name"]
        if group != "model":
            options |= {
                name: value
                for name, value in values.items()
                if name != "_name" and not _is_reference(value)
            }
    return options


def _joined(model: Mapping, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield a model's options; those of its parts have joined names, such as encoder_layers."""
    for name, value in model.items():
        if isinstance(value, Mapping):
            yield from _joined(value, f"{prefix}{name}_")
        elif name != "_name" and not _is_reference(value):
            yield prefix + name, value


def _is_reference(value: object) -> bool:
    """Does a value only point to another option, as ${optimization.lr} does?"""
    return isinstance(value, str) and value.startswith("${")


def _plain(node: ast.expr) -> object:
    """Return the value of a printed constant, container or Namespace; other text as it stands."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return {_plain(key): _plain(value) for key, value in pairs if key}
        case ast.Call(func=ast.Name(), keywords=keywords):
            return {one.arg: _plain(one.value) for one in keywords if one.arg}
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_plain(item) for item in items]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
    return ast.unparse(node)
