"""What run directories of all kinds have in common: a trained model and its evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fairseq_aiayn.runs.settings import Settings, settings_from_json
from fairseq_aiayn.runs.train_log import Training
from fairseq_aiayn.text import read_json


@dataclass(frozen=True)
class TrainedRun:
    """One training with its settings and its cost, and the test set of its evaluation."""

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
    """Read a settings.json; raises OSError, or ValueError for a value that it must not have."""
    return settings_from_json(read_json(path), path)


def require_same(
    runs: Sequence[tuple[Path, AnyRun]], rules: Mapping[str, Callable[[AnyRun], object]]
) -> None:
    """Raise ValueError, with both directories, if a rule gives two runs different values."""
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
    """Return the fields of a run from what dataclasses.asdict returned of it.

    Raises KeyError or TypeError for any other content.
    """
    settings = settings_from_json(content["settings"], where)
    perplexity = content["dev_perplexity"]
    return {
        **content,
        "settings": settings,
        "training": Training(**content["training"]),
        # JSON has no number for that of a training that diverged.
        "dev_perplexity": math.nan if perplexity is None else perplexity,
    }
