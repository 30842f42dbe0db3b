"""Let fairseq's commands load checkpoints on PyTorch 2.6 and later, with weights_only on.

A checkpoint's configuration chooses the classes that fairseq builds from it, and some of fairseq's
evaluate its strings as Python. Stock fairseq refuses every checkpoint on PyTorch 2.6 and later.
Here a checkpoint loads if it asks only for classes of this package and for those listed below.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.file_io import PathManager
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_aiayn.checkpoints import reading
from fairseq_aiayn.checkpoints.contents import CONFIGURATIONS, parts, written
from fairseq_aiayn.checkpoints.sizes import require_declared_sizes

# On resuming, the first process sends the loaded checkpoint to the others by torch.save and
# torch.load, with this frozen dataclass of one index in place of each tensor; no file has it.
SENT_BETWEEN_PROCESSES = (_TensorPlaceholder,)

# Classes of fairseq whose construction was read: it evaluates nothing but what `literal` stands for
# below, runs nothing, and opens at most files of word vectors.
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
# Where fairseq looks for a class's name, in "args" and in a section of "cfg"
NAMES = {"model": ("arch", "_name"), "task": ("task", "_name"), "criterion": ("criterion", "_name")}


def allow_fairseq_checkpoints() -> None:
    """Add the plain data that fairseq's checkpoints hold to what torch.load accepts, and look at
    what a checkpoint asks for before anything of it is used."""
    reading.allow_fairseq_checkpoints()
    torch.serialization.add_safe_globals(list(SENT_BETWEEN_PROCESSES))
    checkpoint_utils.load_checkpoint_to_cpu = guarded(checkpoint_utils.load_checkpoint_to_cpu)
    for name in ("eval_str_list", "eval_str_dict", "eval_bool"):
        setattr(utils, name, literal(getattr(utils, name)))


def guarded(load_checkpoint_to_cpu: Callable) -> Callable:
    """Wrap the function through which all of fairseq reads checkpoints.

    It raises ValueError, naming the file, for one that must not be built or lacks what fairseq
    needs.
    """

    def load(path: str, arg_overrides: dict | None = None, load_on_all_ranks: bool = False) -> dict:
        local = Path(PathManager.get_local_path(path))
        state = reading.read_checkpoint(local)  # mapped: its tensors are not read
        require_known_classes(local, state)
        require_declared_sizes(local, state)
        return load_checkpoint_to_cpu(path, arg_overrides, load_on_all_ranks)

    return load


def literal(evaluate: Callable) -> Callable:
    """Wrap a function of fairseq that evaluates a string: it takes literals alone, as `[1, 2]`."""

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
                    " harmless; with this plugin its own load, and fairseq's transformer,"
                    " translation, cross_entropy and label_smoothed_cross_entropy"
                )


def asked_for(configuration: Any, nested: bool) -> Iterator[tuple[str, Any]]:
    """Yield the names of all classes that fairseq could build, by what they are."""
    fields = dict(parts(configuration))
    for section, names in NAMES.items():
        part = written(fields.get(section)) if nested else configuration
        if isinstance(part, str):  # the criterion's name alone
            yield section, part
            continue
        values = {name: written(one) for name, one in parts(part)}
        given = [values[name] for name in names if values.get(name) is not None]
        yield from ((section, name) for name in given)
        if section == "model" and not given:  # fairseq would take the name of the only field
            yield from ((section, name) for name in values if len(values) == 1)


def class_name(found: Any) -> str | None:
    """Module and name of a class; None for no class."""
    return f"{found.__module__}.{found.__qualname__}" if isinstance(found, type) else None
