"""How a run was made, as recipes/lib/run_settings.py writes it into the run's settings.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_type_hints


@dataclass(frozen=True)
class Start:
    """A later start of a training, which went on from a checkpoint; fields as in Settings."""

    commit: str | None = None
    packages: dict = field(default_factory=dict)
    hardware: dict = field(default_factory=dict)
    device: str | None = None
    gpus: int | None = None
    nodes: int | None = None
    command: str | None = None  # fairseq-train's
    written: str | None = None


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
    resumed: tuple = ()  # of Start: the first start is all of the above


def settings_from_json(content: object, where: object) -> Settings:
    """Make Settings of a JSON object; only "system" is required, and is the name if there is none.

    Raises ValueError, with the place, for a value that is missing or of the wrong type.
    """
    if not isinstance(content, Mapping) or "system" not in content:
        raise ValueError(f"{where}: must have 'system', has not")
    starts = content.get("resumed", [])
    if not isinstance(starts, list | tuple) or not all(isinstance(x, Mapping) for x in starts):
        raise ValueError(f"{where}: 'resumed' must be a list of objects, got {starts!r}")
    resumed = tuple(Start(**_known(start, Start, where)) for start in starts)
    content = {"name": content["system"], **content, "resumed": resumed}
    return Settings(**_known(content, Settings, where))


def _known(content: Mapping, kind: type, where: object) -> dict[str, object]:
    """Return what a dataclass has fields for; ValueError where a value is of the wrong type."""
    kinds = get_type_hints(kind)
    known = {key: content[key] for key in kinds if key in content}
    for key, value in known.items():
        if not isinstance(value, kinds[key]):
            raise ValueError(f"{where}: {key!r} must be {_name(kinds[key])}, got {value!r}")
    return known


def _name(kind: type) -> str:
    return getattr(kind, "__name__", str(kind)).replace(" | None", "")
