"""Let fairseq's commands load checkpoints, checked before anything is built from them.

Stock fairseq refuses every checkpoint on PyTorch 2.6 and later. Moreover, the configuration in a
checkpoint selects the classes that fairseq builds, and some of them evaluate strings of it as
Python, open files that it names, or take as much memory as it says.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY, FairseqTask
from torch import nn
from torch.nn.modules.module import register_module_buffer_registration_hook as of_buffers
from torch.nn.modules.module import register_module_parameter_registration_hook as of_parameters

from fairseq_aiayn.checkpoints import Allowance, Unread, only_safe_globals, plain, read_checkpoint

# When a training resumes, the first process loads the checkpoint and sends it to the others by
# torch.save and torch.load. A placeholder, which holds one index, then replaces each tensor.
SENT_BETWEEN_PROCESSES = (distributed_utils._TensorPlaceholder, Unread)
# Modules of fairseq that were reviewed: they evaluate strings only through functions that `literal`
# wraps, run no other code, and open no files but dictionaries in the directory of the data.
REVIEWED = {
    "model": ("transformer.transformer_legacy",),
    "task": ("translation", "translation_multi_simple_epoch"),
    "criterion": (
        *("cross_entropy", "label_smoothed_cross_entropy"),
        *(f"label_smoothed_cross_entropy_with_{name}" for name in ("rdrop", "alignment")),
    ),
}
# What these options of a checkpoint may give, up to which value
ALLOWED_OPTIONS: dict[str, dict[str, float]] = {
    "eval_bleu_args": {"beam": 100, "max_len_a": 100.0, "max_len_b": 10_000, "min_len": 1}
    | {"lenpen": 100.0, "unnormalized": True},
    "eval_bleu_detok_args": {"moses_no_dash_splits": True, "moses_no_escape": True},
}
METERS = {  # of fairseq, with the numbers that they need
    "AverageMeter": {"sum", "count"},
    "SumMeter": {"sum"},
    "TimeMeter": {"init", "n"},
    "StopwatchMeter": {"sum", "n"},
}
# Numbers a model may have beside two for each byte of its file (in float16, a shared matrix counts
# three times): tables of sinusoids, which no file has. That is 32,000 positions of the big model.
TABLES = 2**26
EACH_TENSOR = 2**14  # numbers that take as much time as making an empty tensor


class Loading:
    """The checkpoint that is being loaded; `size` is that of its file, in bytes."""

    size = 0

    def checked(self, load_checkpoint_to_cpu: Callable) -> Callable:
        """Wrap the function through which all of fairseq reads checkpoints. The wrapped function
        raises ValueError, with the name of the file, as `read_checkpoint` and `require_known_names`
        do."""

        @wraps(load_checkpoint_to_cpu)
        def load(path: str, *arguments: object, **options: object) -> dict:
            local = Path(PathManager.get_local_path(path))
            state = read_checkpoint(local)
            try:
                require_known_names(state)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
            self.size = local.stat().st_size
            try:
                with only_safe_globals():
                    loaded = load_checkpoint_to_cpu(path, *arguments, **options)
                # Drop the validation sums: nothing reads them, and --eval-bleu stores arrays there.
                loaded["extra_state"].get("metrics", {}).pop("valid", None)
                require_numbers(loaded)
            except OSError:
                raise
            except Exception as error:  # any value of the wrong type can raise any error
                reason = str(error) or type(error).__name__
                message = f"{path}: fairseq cannot load this checkpoint: {reason}"
                raise ValueError(message) from error
            return loaded

        return load

    def bounded(self, build_model: Callable) -> Callable:
        """Wrap the function that builds a model: that of a checkpoint is first built without
        memory. Raises ValueError if it reads files, or is larger than the file can hold."""

        @wraps(build_model)
        def build(cfg: Any, task: FairseqTask, from_checkpoint: bool = False) -> Any:
            if from_checkpoint:
                require_no_vectors(plain(cfg))
                require_plain_search(getattr(task, "cfg", None))
                with torch.device("meta"), at_most(2 * self.size + TABLES):
                    build_model(cfg, task, from_checkpoint)
            return build_model(cfg, task, from_checkpoint)

        return build


@contextmanager
def at_most(numbers: int) -> Iterator[None]:
    """Raise ValueError as soon as modules have got more than so many numbers."""
    left = numbers

    def count(module: nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        nonlocal left
        left -= EACH_TENSOR + (0 if tensor is None else tensor.numel())
        if left < 0:
            raise ValueError(
                "the configuration of the checkpoint asks for a larger model than its file holds"
            )

    with of_parameters(count), of_buffers(count):
        yield


LOADING = Loading()


def require_known_names(state: Mapping[str, Any]) -> None:
    """Raise ValueError unless every class that a configuration selects is registered, and its
    model, task and criterion are this package's or REVIEWED."""
    registries: dict[str, Any] = {kind: known["registry"] for kind, known in REGISTRIES.items()}
    registries |= {"model": ARCH_MODEL_REGISTRY | MODEL_REGISTRY, "task": TASK_REGISTRY}
    selected = [*selections(state, registries)]
    if "model" not in dict(selected):
        raise ValueError("expected a configuration with the name of a model, got none")
    for kind, name in selected:
        known = registries[kind].get(name) if isinstance(name, str) else None
        home = known.__module__ if known is not None else "none"
        modules = REVIEWED.get(kind, ())
        is_reviewed = kind not in REVIEWED or home in [f"fairseq.{kind}s.{one}" for one in modules]
        if known is None or not (is_reviewed or home.startswith("fairseq_aiayn.")):
            expected = ", ".join(module.partition(".")[0] for module in modules)
            raise ValueError(
                f"{kind} {str(name)[:60]!r} is not known to be harmless in a checkpoint, expected"
                f" one of this plugin or of fairseq's {expected or 'registered ones'}"
            )


def selections(state: Mapping[str, Any], kinds: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every kind of class with each name that fairseq could take for a configuration's."""
    args, cfg = (plain(state.get(key)) or {} for key in ("args", "cfg"))
    for kind in kinds:
        option = "arch" if kind == "model" else kind
        section = cfg.get(kind)
        section = section if isinstance(section, dict) else {option: section}
        for name in (args.get(option), section.get(option), section.get("_name")):
            if name is not None:
                yield kind, name


def require_no_vectors(model: Any) -> None:
    """Raise ValueError for the configuration of a model that reads files of word vectors."""
    for name, value in model.items():
        if isinstance(value, dict):
            require_no_vectors(value)
        elif name.endswith("embed_path") and value:
            raise ValueError(
                f"{name} is {str(value)[:60]!r}, and files that a checkpoint names are not opened:"
                " fairseq-generate, fairseq-interactive and fairseq-validate take"
                f" --model-overrides \"{{'{name}': None}}\""
            )


def require_plain_search(cfg: Any) -> None:
    """Raise ValueError if the --eval-bleu of a checkpoint asks for anything but a small beam
    search; fairseq takes its options as they are."""
    if not getattr(cfg, "eval_bleu", False):
        return
    for name, largest in ALLOWED_OPTIONS.items():
        text: Any = getattr(cfg, name, None)
        try:
            given = json.loads(text)
            plain_search = all(
                type(value) in (type(largest[option]), int, bool)
                and (option == "beam") <= value <= largest[option]
                for option, value in given.items()
            )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            plain_search = False
        if not plain_search or cfg.eval_bleu_detok not in REGISTRIES["tokenizer"]["registry"]:
            expected = ", ".join(f"{option} up to {most}" for option, most in largest.items())
            raise ValueError(
                f"{name} is {str(text)[:60]!r}, expected {expected}: fairseq-validate takes"
                " --model-overrides \"{'eval_bleu': False}\""
            )


def require_numbers(state: Mapping[str, Any]) -> None:
    """Raise ValueError unless what a training takes from a checkpoint as it is, the place in the
    epoch, scores and meters, are numbers."""
    allowance = Allowance()
    extra, newest = state["extra_state"], state["optimizer_history"][-1]
    place = extra.get("train_iterator", {})
    counts = [place.get(name, 0) for name in ("epoch", "iterations_in_epoch", "processes")]
    counts.append(newest.get("num_updates", 0))
    scores = [extra.get(name) for name in ("best", "val_loss", "previous_training_time")]
    meters = [meter for group in extra.get("metrics", {}).values() for meter in group]
    are_numbers = (
        all(type(count) is int and 0 <= count < 2**31 for count in counts)
        and is_numeric([place.get("patience", {}), *scores], allowance)
        and isinstance(newest.get("lr_scheduler_state", {}), dict)
    )
    for priority, name, kind, content in meters:
        needed = [content.get(part) for part in METERS.get(kind, {""})]  # "": of no meter
        are_numbers &= type(priority) is int and isinstance(name, str) and None not in needed
        are_numbers &= is_numeric(content, allowance) and content.get("round") in (None, *range(10))
    if not are_numbers:
        raise ValueError("expected numbers as its place in the epoch, its scores and its meters")


def is_numeric(value: Any, allowance: Allowance) -> bool:
    """Return whether a value is a number of at most 64 bits, or has nothing else in it."""
    allowance.take(value)
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return all(is_numeric(part, allowance) for part in parts)
    if isinstance(value, torch.Tensor):
        return value.numel() == 1
    return isinstance(value, float | None) or (isinstance(value, int) and abs(value) < 2**63)


def of_a_command(setup_task: Callable) -> Callable:
    """Wrap the constructor of a task that opens files under the names of many options: it takes
    them from the command line only, and raises ValueError for those of a checkpoint."""

    @wraps(setup_task)
    def setup(args: Any, from_checkpoint: bool = False, **options: object) -> FairseqTask:
        if from_checkpoint:
            raise ValueError(
                "a translation_multi_simple_epoch task is not made from a checkpoint, whose options"
                " name files"
            )
        return setup_task(args, **options)

    return setup


def literal(evaluate: Callable) -> Callable:
    """Wrap a function of fairseq that evaluates a string, so that it accepts only literals such as
    `[1, 2]`."""

    @wraps(evaluate)
    def read(value: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(value, str):
            try:
                value = ast.literal_eval(value)
            except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
                raise ValueError(f"expected a list, a dict or a number, got {value!r}") from error
            if evaluate.__name__ == "eval_bool":
                return bool(value)
        return evaluate(value, *arguments, **options)

    return read
