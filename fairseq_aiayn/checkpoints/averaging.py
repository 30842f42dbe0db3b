"""Average the parameters of the last checkpoints of a run (section 6.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from fairseq_aiayn.checkpoints.reading import (
    last_checkpoints,
    read_checkpoint,
    require_intact,
)
from fairseq_aiayn.checkpoints.sizes import identity
from fairseq_aiayn.files.whole import whole_path

# What fairseq needs to load a model. The rest belongs to a single checkpoint, not to their mean:
# the optimizer's state, meters, the best score, a moving average of the parameters.
KEPT = ("args", "cfg", "model", "criterion", "task_state", "optimizer_history")
KEPT_EXTRA_STATE = ("train_iterator", "epoch", "batch_offset")  # the last two: before fairseq 0.6


def average_last(count: int, directory: Path, output: Path) -> list[Path]:
    """Write the mean of the last `count` checkpoints in `directory` to `output`.

    Returns the paths of these checkpoints. Raises ValueError if checkpoints are missing, broken or
    differ in their parameters, OSError if a file cannot be read or written; `output` is then left
    unchanged.
    """
    paths = last_checkpoints(directory, count)
    if not output.parent.is_dir() or (output.exists() and not output.is_file()):
        raise ValueError(f"{output}: must be a plain file in a directory that exists")
    if output.exists() and any(output.samefile(path) for path in paths):
        raise ValueError(f"{output}: is one of the checkpoints to average")
    state = inference_state(read_checkpoint(paths[-1]))
    state["model"] = mean_parameters(paths)
    write_checkpoint(state, output)
    return paths


def inference_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a checkpoint that is needed for translating or fine-tuning."""
    kept = {key: state[key] for key in KEPT if key in state}
    extra = state.get("extra_state", {})
    kept["extra_state"] = {key: extra[key] for key in KEPT_EXTRA_STATE if key in extra}
    return kept


def mean_parameters(paths: list[Path]) -> dict[str, Tensor]:
    """Return the mean of every parameter and buffer over the checkpoints in `paths`.

    Means of half-precision parameters are float32. Memory holds one float64 sum of the parameters
    and one checkpoint at a time. Raises ValueError with the file and the parameter that does not
    match.
    """
    sums = None
    for path in tqdm(paths, desc="averaging", unit="checkpoint", disable=None):
        require_intact(path)
        model = read_checkpoint(path)["model"]
        if sums is None:
            sums = ParameterSums(path, model)
        else:
            sums.add(path, model)
    assert sums is not None, "last_checkpoints returns at least one"
    return sums.means()


class ParameterSums:
    """The sums of the parameters of checkpoints with the same parameters.

    Sums are float64, so that the mean of equal values is exactly that value. Means have the dtype
    of the parameter, but float32 instead of half precision, whose rounding would undo the
    averaging. Integers and booleans have no mean: they must be equal. Parameters that are one
    tensor in the first checkpoint (tied embeddings) must be equal in the others, and are one tensor
    in the means: `owners` maps each name to the first name of its tensor.
    """

    def __init__(self, path: Path, model: dict[str, Tensor]) -> None:
        """Start the sums with the parameters `model` of the checkpoint in `path`."""
        _require_finite(path, model)
        self.path, self.count = path, 1
        self.layout = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in model.items()}
        self.owners = _owners(model)
        self.sums = {
            name: tensor.double() if tensor.is_floating_point() else tensor.clone()
            for name, tensor in model.items()
            if self.owners[name] == name
        }

    def add(self, path: Path, model: dict[str, Tensor]) -> None:
        """Add the parameters `model` of the checkpoint in `path`."""
        self._require_same_layout(path, model)
        _require_finite(path, model)
        for name, owner in self.owners.items():
            if name != owner:
                if not torch.equal(model[name], model[owner]):
                    raise ValueError(f"{path}: {name} is not {owner}, in {self.path} it is")
            elif model[name].is_floating_point():
                self.sums[name] += model[name]
            elif not torch.equal(self.sums[name], model[name]):
                raise ValueError(
                    f"{path}: {name} differs from {self.path}; it is of {model[name].dtype},"
                    " which has no mean"
                )
        self.count += 1

    def means(self) -> dict[str, Tensor]:
        """Return the means and free the sums."""
        means = {}
        for name in list(self.sums):
            total = self.sums.pop(name)
            if total.is_floating_point():
                dtype = torch.promote_types(self.layout[name][1], torch.float32)
                total = total.div_(self.count).to(dtype)
            means[name] = total
        return {name: means[owner] for name, owner in self.owners.items()}

    def _require_same_layout(self, path: Path, model: dict[str, Tensor]) -> None:
        for name in [*self.layout, *model]:
            if (name in model) != (name in self.layout):
                has, lacks = (path, self.path) if name in model else (self.path, path)
                raise ValueError(f"{lacks}: has no parameter {name}, {has} has it")
        for name, (shape, dtype) in self.layout.items():
            tensor = model[name]
            if (tuple(tensor.shape), tensor.dtype) != (shape, dtype):
                raise ValueError(
                    f"{path}: {name} is {list(tensor.shape)} of {tensor.dtype},"
                    f" in {self.path} it is {list(shape)} of {dtype}"
                )


def _require_finite(path: Path, model: dict[str, Tensor]) -> None:
    for name, tensor in model.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{path}: {name} has values that are NaN or infinite")


def _owners(model: dict[str, Tensor]) -> dict[str, str]:
    """Map each name to the first name of its tensor: the name itself if it is not tied."""
    first: dict[tuple, str] = {}
    return {
        name: first.setdefault(identity(tensor), name) if tensor.data_ptr() else name
        for name, tensor in model.items()
    }


def write_checkpoint(state: dict[str, Any], output: Path) -> None:
    """Write `state` to `output`, whole or not at all; raises OSError with the path `output`."""
    try:
        with whole_path(output) as part, part.open("wb") as file:
            torch.save(state, file)
    except (OSError, RuntimeError) as error:
        # If writing fails, torch raises its own RuntimeError instead of the OSError.
        failure = error if isinstance(error, OSError) else error.__context__
        if not isinstance(failure, OSError):
            raise
        raise OSError(failure.errno, failure.strerror, str(output)) from error
