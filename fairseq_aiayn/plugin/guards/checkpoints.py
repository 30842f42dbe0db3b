"""Let fairseq's commands load checkpoints on PyTorch 2.6 and later, with weights_only on.

Stock fairseq refuses every checkpoint on PyTorch 2.6 and later. Moreover, the configuration in a
checkpoint selects the classes that fairseq builds, and some of fairseq's classes evaluate strings
of the configuration as Python. With this module, a checkpoint loads if it selects only classes of
this package and the classes listed below.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.file_io import PathManager
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_aiayn import checkpoints
from fairseq_aiayn.checkpoints import CONFIGURATIONS, parts, require_declared_sizes, written

# When a training resumes, the first process sends the loaded checkpoint to the others by torch.save
# and torch.load. This frozen dataclass, which holds one index, then replaces each tensor. It occurs
# in no file.
SENT_BETWEEN_PROCESSES = (_TensorPlaceholder,)

# Classes of fairseq whose constructors were reviewed: they evaluate strings only through functions
# that `literal` wraps below, run no other code, and open at most files of word vectors.
STOCK = {
    "model": ("fairseq.models.transformer.transformer_legacy.TransformerModel",),
    "task": ("fairseq.tasks.translation.TranslationTask",),
    "criterion": (
        "fairseq.criterions.cross_entropy.CrossEntropyCriterion",
        "fairseq.criterions.label_smoothed_cross_entropy.LabelSmoothedCrossEntropyCriterion",
    ),
}
REGISTRIES = {
    "model": (ARCH_MODEL_REGISTRY, MODEL_REGISTRY),
    "task": (TASK_REGISTRY,),
    "criterion": (CRITERION_REGISTRY,),
}
# Where fairseq looks for the name of a class, in "args" and in a section of "cfg"
NAMES = {"model": ("arch", "_name"), "task": ("task", "_name"), "criterion": ("criterion", "_name")}


def install() -> None:
    """Make torch.load accept the plain data of fairseq's checkpoints, and check the classes that a
    checkpoint selects before it is used."""
    checkpoints.allow_fairseq_checkpoints()
    torch.serialization.add_safe_globals(list(SENT_BETWEEN_PROCESSES))
    checkpoint_utils.load_checkpoint_to_cpu = guarded(checkpoint_utils.load_checkpoint_to_cpu)
    for name in ("eval_str_list", "eval_str_dict", "eval_bool"):
        setattr(utils, name, literal(getattr(utils, name)))


def guarded(load_checkpoint_to_cpu: Callable) -> Callable:
    """Wrap the function through which all of fairseq reads checkpoints.

    The wrapped function raises ValueError, with the name of the file, for a checkpoint that selects
    a class that is not allowed, or that lacks a part that fairseq needs.
    """

    def load(path: str, arg_overrides: dict | None = None, load_on_all_ranks: bool = False) -> dict:
        local = Path(PathManager.get_local_path(path))
        state = checkpoints.read_checkpoint(local)  # memory-mapped, so its tensors are not read
        require_known_classes(local, state)
        require_declared_sizes(local, state)
        return load_checkpoint_to_cpu(path, arg_overrides, load_on_all_ranks)

    return load


def literal(evaluate: Callable) -> Callable:
    """Wrap a function of fairseq that evaluates a string, so that it accepts only literals such as
    `[1, 2]`."""

    @wraps(evaluate)
    def read(value: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(value, str):
            try:
                value = ast.literal_eval(value)
            except (SyntaxError, ValueError):
                raise ValueError(f"must be a list, a dict or a number, got {value!r}") from None
            if evaluate.__name__ == "eval_bool":
                return bool(value)
        return evaluate(value, *arguments, **options)

    return read


def require_known_classes(path: Path, state: dict) -> None:
    """Raise ValueError for a model, task or criterion that is neither this package's nor one of
    STOCK."""
    for key in CONFIGURATIONS:
        if state.get(key) is None:
            continue
        for section, name in asked_for(state[key], nested=key == "cfg"):
            registries = REGISTRIES[section] if isinstance(name, str) else ()
            found = {class_name(registry.get(name)) for registry in registries} - {None}
            own = all(one.startswith("fairseq_aiayn.") or one in STOCK[section] for one in found)
            if not found or not own:
                raise ValueError(
                    f"{path}: asks for the {section} {str(name)[:60]!r}, which is not known to be"
                    " harmless; this plugin loads its own classes, and fairseq's transformer,"
                    " translation, cross_entropy and label_smoothed_cross_entropy"
                )


def asked_for(configuration: Any, nested: bool) -> Iterator[tuple[str, Any]]:
    """Yield the names of all classes that fairseq could build, each with its section: model, task
    or criterion."""
    fields = dict(parts(configuration))
    for section, names in NAMES.items():
        part = written(fields.get(section)) if nested else configuration
        if isinstance(part, str):  # only the name of the criterion
            yield section, part
            continue
        values = {name: written(one) for name, one in parts(part)}
        given = [values[name] for name in names if values.get(name) is not None]
        yield from ((section, name) for name in given)
        if section == "model" and not given:  # fairseq would take the only field for the name
            yield from ((section, name) for name in values if len(values) == 1)


def class_name(found: Any) -> str | None:
    """Return the module and the name of a class; None for anything else."""
    return f"{found.__module__}.{found.__qualname__}" if isinstance(found, type) else None
