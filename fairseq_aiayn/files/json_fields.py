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
    if not isinstance(content, Mapping):
        raise ValueError(f"{where}: must be an object, got {content!r}")
    for field in fields(kind):
        needed = field.default is MISSING and field.default_factory is MISSING
        if needed and field.name not in content:
            raise ValueError(f"{where}: must have {field.name!r}, has not")
    kinds = get_type_hints(kind)
    values = {key: _value(content[key], kinds[key], where, key) for key in kinds if key in content}
    return kind(**values)


def _value(value: object, kind: type, where: object, key: object) -> object:
    place, origin, parts = f"{where}: {key!r}", get_origin(kind), get_args(kind)
    if origin in (dict, tuple):  # dict[str, X], tuple[X, ...]
        kind = dict if origin is dict else list | tuple
    elif nested := next((one for one in (kind, *parts) if is_dataclass(one)), None):
        is_left_out = value is None and isinstance(None, kind)
        return None if is_left_out else dataclass_of(value, nested, place)
    kind = int | float if kind is float else kind
    is_odd = isinstance(value, bool) and kind in (int, int | float)  # to Python, True is a number
    if not isinstance(value, kind) or is_odd:
        name = getattr(kind, "__name__", str(kind)).replace(" | None", "").replace(" | ", " or ")
        raise ValueError(f"{place} must be {name}, got {value!r}")
    if origin is dict:
        return {name: _value(one, parts[1], place, name) for name, one in value.items()}
    if origin is tuple:
        return tuple(_value(one, parts[0], place, number) for number, one in enumerate(value, 1))
    return value
