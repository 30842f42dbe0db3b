"""Read JSON files, and turn their content into dataclasses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import TypeVar, get_args, get_origin, get_type_hints

Kind = TypeVar("Kind")


def read_json(path: Path) -> object:
    """Read a JSON file; raises OSError if it is unreadable, ValueError if it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(f"{path}: must be JSON, is not or is cut short") from None


def dataclass_of(content: object, kind: type[Kind], where: object) -> Kind:
    """Turn a JSON object into a dataclass, with nested dataclasses; unknown keys are ignored.

    Raises ValueError, with `where`, for a value that is missing or has the wrong type.
    """
    for field in fields(kind):
        needed = field.default is MISSING and field.default_factory is MISSING
        if not isinstance(content, Mapping) or (needed and field.name not in content):
            raise ValueError(f"{where}: must have {field.name!r}, has not")
    return kind(**known_fields(content, kind, where))


def known_fields(content: Mapping, kind: type, where: object) -> dict[str, object]:
    """Return the values for a dataclass's fields; raises ValueError for a wrong type."""
    kinds = get_type_hints(kind)
    return {key: _value(content[key], kinds[key], where, key) for key in kinds if key in content}


def _value(value: object, kind: type, where: object, key: str) -> object:
    if is_dataclass(kind):
        return dataclass_of(value, kind, f"{where}: {key!r}")
    of = get_args(kind)[1] if get_origin(kind) is dict else None  # dict[str, of]
    kind = dict if of else int | float if kind is float else kind
    is_odd = isinstance(value, bool) and kind in (int, int | float)  # to Python, True is a number
    if not isinstance(value, kind) or is_odd:
        name = getattr(kind, "__name__", str(kind)).replace(" | None", "").replace(" | ", " or ")
        raise ValueError(f"{where}: {key!r} must be {name}, got {value!r}")
    if of:
        return {name: _value(one, of, f"{where}: {key!r}", name) for name, one in value.items()}
    return value
