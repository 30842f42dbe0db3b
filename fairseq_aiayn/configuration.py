"""What a configuration of fairseq says: plain values, its references resolved, and its options by
their names in commands."""

from __future__ import annotations

import argparse
import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

REFERENCE = re.compile(r"\$\{(\w+(?:\.\w+)*)\}")  # ${optimization.lr}
# A configuration of fairseq, its references resolved, has about 500 values in 50,000 characters.
# Ten references in each of nine nested lists would make 10⁹ values.
LARGEST, EACH_VALUE = 1_000_000, 10  # characters, and what a value counts beside its own
PLAIN = (bool, int, float, str, bytes, enum.Enum)
# What fairseq-train writes down as well, but does not use
OTHER_COMMANDS = ("generation", "eval_lm", "interactive", "common_eval", "scoring")
NAMED_GROUPS = {  # the option that says what a group of options is the configuration of
    "model": "arch",
    **{name: name for name in ("task", "criterion", "optimizer", "lr_scheduler")},
}


def plain_configuration(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's configuration ("args" before fairseq 0.10, "cfg" since) as dicts, lists
    and values, its references resolved."""
    configuration = plain(state["args"] if state.get("cfg") is None else state["cfg"])
    return resolved(configuration, configuration, Allowance())


class Allowance:
    """How much a configuration may still hold."""

    def __init__(self) -> None:
        self.left = LARGEST

    def take(self, value: object) -> None:
        """Count a value; raises ValueError if it is too much."""
        self.left -= EACH_VALUE + (len(value) if isinstance(value, str | bytes) else 0)
        if self.left < 0:
            raise ValueError(
                f"expected a configuration of at most {LARGEST:,} characters or"
                f" {LARGEST // EACH_VALUE:,} values, got more"
            )


def plain(value: Any, allowance: Allowance | None = None) -> Any:
    """Return a configuration, or a part of one, as dicts, lists and values, not resolved; raises
    ValueError for one that is too large, RecursionError for a list within itself."""
    import omegaconf  # the configuration that a log has is read without it

    allowance = allowance or Allowance()
    if isinstance(value, omegaconf.Container):
        return plain(value._content, allowance)
    if isinstance(value, omegaconf.Node):
        return plain(value._value(), allowance)
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    allowance.take(value)
    if isinstance(value, Mapping):
        for name in value:
            allowance.take(name)
        return {str(name): plain(part, allowance) for name, part in value.items()}
    if isinstance(value, Sequence | set) and not isinstance(value, str | bytes):
        return [plain(part, allowance) for part in value]
    return value if value is None or isinstance(value, PLAIN) else str(value)


def resolved(value: Any, root: Any, allowance: Allowance) -> Any:
    """Return a plain value with the references in it replaced by values of `root`; raises
    ValueError for a reference to anything but one value, or a list of values, of `root`: OmegaConf
    would look in the environment (${oc.env:HOME}), or follow references without end."""
    if isinstance(value, dict):
        return {name: resolved(part, root, allowance) for name, part in value.items()}
    if isinstance(value, list):
        return [resolved(part, root, allowance) for part in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    target: Any = root
    match = REFERENCE.fullmatch(value)
    for name in match[1].split(".") if match else ():
        target = target.get(name, root) if isinstance(target, dict) else root
    for part in target if isinstance(target, list) else [target]:
        allowance.take(part)  # before it is looked through: no reference takes time beyond that
        if isinstance(part, dict | list) or (isinstance(part, str) and "${" in part):
            expected = "expected a reference to a value of the configuration"
            raise ValueError(f"{expected}, got {value[:60]}")
    return target


def flat_options(configuration: Mapping) -> dict[str, object]:
    """Return the options of a plain configuration by fairseq's argument names, such as max_tokens;
    one that several groups have gets the value that fairseq-train uses."""
    # Before 0.10, a Namespace has every option; since then "model" often has one beside the groups
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


def as_typed(value: object) -> str:
    """Return an option's value as a command has it, with commas between those of a list."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


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
