"""Let fairseq's commands load checkpoints, checked before anything is built from them.

Stock fairseq refuses every checkpoint on PyTorch 2.6 and later. Moreover, the configuration in a
checkpoint selects the classes that fairseq builds, and some of them evaluate strings of it as
Python, open files that it names, or take as much memory as it says.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, models, utils
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.file_io import PathManager
from fairseq.logging import meters
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY, FairseqTask
from fairseq.tasks.translation import TranslationTask
from fairseq.tasks.translation_multi_simple_epoch import TranslationMultiSimpleEpochTask

from fairseq_aiayn.checkpoints import SAFE_GLOBALS, plain, read_checkpoint

# When a training resumes, the first process sends the loaded checkpoint to the others by torch.save
# and torch.load. This frozen dataclass, which holds one index, then replaces each tensor. It occurs
# in no file.
SENT_BETWEEN_PROCESSES = _TensorPlaceholder
# Classes of fairseq that were reviewed: they evaluate strings only through functions that `literal`
# wraps, run no other code, and open at most the files that options with such names give.
REVIEWED = {
    "model": {TransformerModel},
    "task": {TranslationTask, TranslationMultiSimpleEpochTask},
    "criterion": {CrossEntropyCriterion, LabelSmoothedCrossEntropyCriterion},
}
PATHS = ("embed_path", "lang_dict", "source_dict", "target_dict", "fixed_dictionary")
# Numbers in tables of sinusoids, which a file does not have: 256 MiB, or 30,000 positions of the
# big model.
TABLES = 2**26


def install() -> None:
    """Make fairseq load checkpoints in this way."""
    torch.serialization.add_safe_globals([*SAFE_GLOBALS, SENT_BETWEEN_PROCESSES])
    loading = Loading()
    checkpoint_utils.load_checkpoint_to_cpu = loading.checked(
        checkpoint_utils.load_checkpoint_to_cpu
    )
    models.build_model = loading.bounded(models.build_model)
    for name in ("eval_str_list", "eval_str_dict", "eval_bool"):
        setattr(utils, name, literal(getattr(utils, name)))


class Loading:
    """The checkpoint that is being loaded; `size` is that of its file, in bytes."""

    size = 0

    def checked(self, load_checkpoint_to_cpu: Callable) -> Callable:
        """Wrap the function through which all of fairseq reads checkpoints.

        The wrapped function raises ValueError, with the name of the file, as `read_checkpoint` and
        the functions below do.
        """

        @wraps(load_checkpoint_to_cpu)
        def load(
            path: str, arg_overrides: dict | None = None, load_on_all_ranks: bool = False
        ) -> dict:
            local = Path(PathManager.get_local_path(path))
            state = read_checkpoint(local)  # memory-mapped, so its tensors are not read
            try:
                require_known_names(state)
                require_plain_model(state, arg_overrides or {})
                require_meters(state)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
            self.size = local.stat().st_size
            return load_checkpoint_to_cpu(path, arg_overrides, load_on_all_ranks)

        return load

    def bounded(self, build_model: Callable) -> Callable:
        """Wrap the function that builds a model: that of a checkpoint is first built without
        memory. Raises ValueError if it has more parameters than the file can hold."""

        @wraps(build_model)
        def build(cfg: Any, task: FairseqTask, from_checkpoint: bool = False) -> Any:
            if from_checkpoint:
                with torch.device("meta"):
                    needed = numbers(build_model(cfg, task, from_checkpoint))
                if needed > self.size + TABLES:
                    raise ValueError(
                        f"the checkpoint's configuration asks for a model of {needed:,} numbers,"
                        f" its file has {self.size:,} bytes"
                    )
            return build_model(cfg, task, from_checkpoint)

        return build


def numbers(model: torch.nn.Module) -> int:
    """Count the numbers in a model's parameters, buffers and other tensors, shared ones once."""
    tensors = {
        id(value): value.numel()
        for module in model.modules()
        for values in (vars(module), module._parameters, module._buffers)
        for value in values.values()
        if isinstance(value, torch.Tensor)
    }
    return sum(tensors.values())


def require_known_names(state: Mapping[str, Any]) -> None:
    """Raise ValueError unless every class that a configuration selects is registered, and its
    model, task and criterion are this package's or REVIEWED."""
    registries: dict[str, Any] = {kind: known["registry"] for kind, known in REGISTRIES.items()}
    registries |= {"model": ARCH_MODEL_REGISTRY | MODEL_REGISTRY, "task": TASK_REGISTRY}
    selected = [choice for choice in selections(state, registries) if choice[1] is not None]
    if "model" not in dict(selected):
        raise ValueError("expected a configuration with the name of a model, got none")
    for kind, name in selected:
        known = registries[kind].get(name) if isinstance(name, str) else None
        ours = known is not None and known.__module__.startswith("fairseq_aiayn.")
        if known is None or not (ours or known in REVIEWED.get(kind, {known})):
            raise ValueError(
                f"asks for the {kind} {str(name)[:60]!r}, which is not known to be harmless; this"
                " plugin loads its own classes, and fairseq's transformer, translation,"
                " translation_multi_simple_epoch, cross_entropy and label_smoothed_cross_entropy"
            )


def selections(state: Mapping[str, Any], kinds: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every kind of class with each name that fairseq could take for a configuration's."""
    args, cfg = plain(state.get("args")) or {}, plain(state.get("cfg")) or {}
    for kind in kinds:
        option = "arch" if kind == "model" else kind
        yield kind, args.get(option)
        section: Any = cfg.get(kind)
        names = ("_name", option) if isinstance(section, dict) else ()
        yield from ((kind, section.get(name)) for name in names)
        if not names:
            yield kind, section


def require_plain_model(state: Mapping[str, Any], overrides: Mapping[str, Any]) -> None:
    """Raise ValueError for a model that reads files, or has more layers than weights."""
    most = len(state["model"])
    for key in ("args", "cfg"):
        for name, value in named_values(plain(state.get(key))):
            if name.endswith(PATHS) and value and name not in overrides:
                raise ValueError(
                    f"{name} is {str(value)[:60]!r}, and paths in a checkpoint are not opened:"
                    f" give --model-overrides \"{{'{name}': None}}\""
                )
            if name.endswith("layers") and isinstance(value, int) and value > most:
                raise ValueError(f"{name} is {value:,}, more than its {most:,} weights")


def named_values(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of a plain configuration with the name of its option."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from named_values(part, key)
    else:
        yield name, value


def require_meters(state: Mapping[str, Any]) -> None:
    """Raise ValueError if "metrics" names anything but meters, which fairseq would call."""
    known = {
        name
        for name, value in vars(meters).items()
        if isinstance(value, type) and issubclass(value, meters.Meter)
    }
    metrics = (state.get("extra_state") or {}).get("metrics") or {}
    for _, _, kind, _ in (meter for group in metrics.values() for meter in group):
        if kind not in known:
            raise ValueError(f"expected a meter of fairseq in 'metrics', got {str(kind)[:60]!r}")


def literal(evaluate: Callable) -> Callable:
    """Wrap a function of fairseq that evaluates a string, so that it accepts only literals such as
    `[1, 2]`."""

    @wraps(evaluate)
    def read(value: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(value, str):
            try:
                value = ast.literal_eval(value)
            except (SyntaxError, ValueError) as error:
                raise ValueError(f"expected a list, a dict or a number, got {value!r}") from error
            if evaluate.__name__ == "eval_bool":
                return bool(value)
        return evaluate(value, *arguments, **options)

    return read
