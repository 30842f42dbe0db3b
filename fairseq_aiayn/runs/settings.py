"""How a run was made, as runs/write_settings.py writes it into the settings.json of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairseq_aiayn.text import dataclass_of


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
    text_sha256: str | None = None  # of its binaries, in their sha256
    subset: str | None = None  # that was translated and scored: valid or test
    averaged: int | None = None  # checkpoints
    seed: int | None = None
    device: str | None = None  # cpu or cuda
    gpus: int | None = None  # of each node
    nodes: int | None = None
    commands: dict[str, str] = field(default_factory=dict)  # by the name of the stage
    commit: str | None = None
    packages: dict = field(default_factory=dict)  # name to version
    hardware: dict = field(default_factory=dict)  # processor, cores, memory_gib, gpus, driver, cuda
    written: str | None = None  # date and time
    resumed: tuple[Start, ...] = ()  # the first start is all of the above
    evaluated_by: str | None = None  # the commit whose code translated and scored


def settings_from_json(content: object, where: object) -> Settings:
    """Make Settings of a JSON object; only "system" is required, and is the name if there is none.

    Raises ValueError, with the place, for a value that is missing or of the wrong type.
    """
    if not isinstance(content, Mapping) or "system" not in content:
        raise ValueError(f"{where}: must have 'system', has not")
    settings = dataclass_of({"name": content["system"], **content}, Settings, where)
    for start in (settings, *settings.resumed):
        _require_gpus(start.hardware.get("gpus", []), where)
    if not settings.name or not settings.name.isprintable():
        raise ValueError(f"{where}: 'name' must be characters to print, got {settings.name!r}")
    return settings


def _require_gpus(gpus: object, where: object) -> None:
    if not isinstance(gpus, list) or not all(isinstance(name, str) for name in gpus):
        raise ValueError(f"{where}: 'gpus' must be a list of names, got {gpus!r}")
