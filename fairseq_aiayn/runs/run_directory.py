"""What run directories of all kinds have in common: a model that was trained, and evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fairseq_aiayn.files.json_fields import read_json
from fairseq_aiayn.runs.settings import Settings, settings_from_json
from fairseq_aiayn.runs.train_log import Training


@dataclass(frozen=True)
class TrainedRun:
    """One training and what was evaluated of it: how it was made, and what it cost."""

    settings: Settings
    training: Training
    dev_perplexity: float  # of the evaluated checkpoint, per piece
    vocabulary: int | None  # word pieces
    sentences: int  # that were translated or parsed
    test_set: str  # SHA-256 of them and of what is right for them

    @property
    def name(self) -> str:
        """The name that tables show."""
        return self.settings.name


AnyRun = TypeVar("AnyRun", bound=TrainedRun)


def read_settings(path: Path) -> Settings:
    """Read a settings.json; raises OSError, or ValueError for what it must not hold."""
    return settings_from_json(read_json(path), path)


def require_same(
    runs: Sequence[tuple[Path, AnyRun]], rules: Mapping[str, Callable[[AnyRun], object]]
) -> None:
    """Raise ValueError, naming both directories, where runs differ in what `rules` look at."""
    for what, value in rules.items():
        for path, run in runs[1:]:
            if value(run) != value(runs[0][1]):
                raise ValueError(
                    f"{path}: must have the {what} of {runs[0][0]}, {value(runs[0][1])}, "
                    f"has {value(run)}"
                )


def require_different_names(runs: Sequence[TrainedRun]) -> None:
    """Raise ValueError if tables would show two runs under the same name."""
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        raise ValueError(f"runs must have different names, got {', '.join(names)}")


def restored(content: Mapping, where: object) -> dict:
    """Return what dataclasses.asdict made of a run with TrainedRun's fields as they were; KeyError
    or TypeError where it is not that."""
    settings = settings_from_json(content["settings"], where)
    return {**content, "settings": settings, "training": Training(**content["training"])}
