"""How a run was made, as recipes/lib/run_settings.py writes it into the run's settings.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_type_hints


@dataclass(frozen=True)
class Settings:
    """What settings.json says; None or empty where the recipe did not say it."""

    system: str  # aiayn or stock
    name: str  # that tables show
    row: str | None = None  # of aiayn rows
    corpus: str | None = None
    subset: str | None = None  # that was translated and scored: valid or test
    averaged: int | None = None  # checkpoints
    seed: int | None = None
    device: str | None = None  # cpu or cuda
    gpus: int | None = None  # of each node
    nodes: int | None = None
    commands: dict = field(default_factory=dict)  # by the name of the stage
    commit: str | None = None
    packages: dict = field(default_factory=dict)  # name to version
    hardware: dict = field(default_factory=dict)  # processor, cores, memory_gib, gpus, driver, cuda
    written: str | None = None  # date and time


def settings_from_json(content: object, where: object) -> Settings:
    """Make Settings of a JSON object; only "system" is required, and is the name if there is none.

    Raises ValueError, with the place, for a value that is missing or of the wrong type.
    """
    if not isinstance(content, Mapping) or "system" not in content:
        raise ValueError(f"{where}: must have 'system', has not")
    content = {"name": content["system"], **content}
    kinds = get_type_hints(Settings)
    known = {key: content[key] for key in kinds if key in content}
    for key, value in known.items():
        if not isinstance(value, kinds[key]):
            raise ValueError(f"{where}: {key!r} must be {_name(kinds[key])}, got {value!r}")
    return Settings(**known)


def _name(kind: type) -> str:
    return getattr(kind, "__name__", str(kind)).replace(" | None", "")
