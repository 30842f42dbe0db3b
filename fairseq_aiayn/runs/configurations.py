"""The starts of fairseq's commands in a log, with the options that each printed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.runs.logs import CONFIGURATION, Log

NAMED_GROUPS = {  # the option that says what a group of options is the configuration of
    "model": "arch",
    **{name: name for name in ("task", "criterion", "optimizer", "lr_scheduler")},
}
# What fairseq-train writes down as well, but does not use
OTHER_COMMANDS = ("generation", "eval_lm", "interactive", "common_eval", "scoring")
OBJECT = re.compile(r"<[^<>']*(?:'[^']*')?[^<>']*>")  # as Python prints what has no literal


@dataclass(frozen=True)
class Start:
    """A start of a command of fairseq: what it printed of its options, and what it wrote then."""

    configuration: Mapping[str, object]
    log: Log

    @property
    def options(self) -> dict[str, object]:
        """The options by fairseq's argument names."""
        return flat_options(self.configuration)

    @property
    def search_options(self) -> dict[str, object]:
        """The options of fairseq-generate."""
        groups = (self.configuration.get(name) for name in ("generation", "common_eval"))
        own = [group for group in groups if isinstance(group, Mapping)]
        return {name: value for group in [self.options, *own] for name, value in group.items()}

    @property
    def is_training(self) -> bool:
        """Whether the command is fairseq-train: other commands that have a model have its path."""
        common = self.configuration.get("common_eval") or self.configuration
        has_path = isinstance(common, Mapping) and common.get("path")
        return "arch" in self.options and not has_path


def starts_of(log: Log) -> list[Start]:
    """Return the starts of commands that wrote a log, by the configurations that can be read."""
    starts, number = [], 0
    while number < len(log.lines):
        configuration, number = _configuration(log.lines, number)
        if configuration:
            starts.append((configuration, number))
    ends = [*(end for _, end in starts), len(log.lines)][1:]
    return [
        Start(configuration, Log(log.path, log.lines[begin:end]))
        for (configuration, begin), end in zip(starts, ends, strict=True)
    ]


def last_training(starts: Sequence[Start]) -> list[Start]:
    """Return the starts of the last training: the last, and those whose checkpoints it loaded."""
    trainings: list[Start] = []
    for start in (start for start in starts if start.is_training):
        resumes = trainings and trainings[0].options.get("save_dir") == start.options.get(
            "save_dir"
        )
        trainings = [*trainings, start] if resumes and start.log.loaded_update else [start]
    return trainings


def printed_configuration(lines: Sequence[str]) -> Mapping[str, object]:
    """Return the last configuration in a log as plain data; empty if none can be read."""
    return next((start.configuration for start in reversed(starts_of(Log(Path(), lines)))), {})


def _configuration(lines: Sequence[str], number: int) -> tuple[dict[str, object], int]:
    """Return the configuration that begins in a line, or nothing, and the number of the line after.

    One that is broken over lines goes on until its brackets are closed. One that is cut off is
    skipped. Nothing in it is evaluated.
    """
    for mark in CONFIGURATION.finditer(lines[number]):
        text, end = lines[number][mark.start() :], number + 1
        while _is_open(text) and end < len(lines) and not CONFIGURATION.search(lines[end]):
            text, end = text + lines[end], end + 1
        for literals in (text, OBJECT.sub("None", text)):
            try:
                configuration = _plain(ast.parse(literals.strip(), mode="eval").body)
            except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
                continue
            if isinstance(configuration, dict):
                return configuration, end
    return {}, number + 1


def _is_open(text: str) -> bool:
    """Return whether brackets are open at the end of a text."""
    return sum(map(text.count, "([{")) > sum(map(text.count, ")]}"))


def _plain(node: ast.expr) -> object:
    """Return the value of a printed constant, container or Namespace; other text unchanged."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return {_plain(key): _plain(value) for key, value in pairs if key}
        case ast.Call(func=ast.Name(), keywords=keywords):
            return {item.arg: _plain(item.value) for item in keywords if item.arg}
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_plain(item) for item in items]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
    return ast.unparse(node)


def flat_options(configuration: Mapping) -> dict[str, object]:
    """Return the options of a plain configuration by fairseq's argument names, such as max_tokens.

    fairseq before 0.10 has a Namespace with every option. Since then it has groups of options, such
    as "optimization", and in the group "model" often still a Namespace with every option. An option
    that several groups have gets the value that fairseq-train uses.
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
            options |= {name: value for name, value in values.items() if _is_own(name, value)}
    return options


def _joined(model: Mapping, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield a model's options; those of its parts have joined names, such as encoder_layers."""
    for name, value in model.items():
        if isinstance(value, Mapping):
            yield from _joined(value, f"{prefix}{name}_")
        elif _is_own(name, value):
            yield prefix + name, value


def _is_own(name: str, value: object) -> bool:
    """Return whether an option is neither a group's name nor a reference to another option, such as
    ${optimization.lr}."""
    return name != "_name" and not (isinstance(value, str) and value.startswith("${"))
