"""fairseq loads no checkpoint on PyTorch 2.6 and later, and runs the code in one before that; and
what it builds of one takes as much memory as the checkpoint says. Here, all are loaded, and checked
before anything is built of them."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from fairseq.checkpoint_utils import get_maybe_sharded_checkpoint_filename as sharded
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.registry import REGISTRIES
from fairseq.tasks import FairseqTask
from fairseq.utils import split_paths
from torch import nn
from torch.nn.modules.module import register_module_buffer_registration_hook as of_buffers
from torch.nn.modules.module import register_module_parameter_registration_hook as of_parameters

from fairseq_aiayn.checkpoints import Unread, only_safe_globals, read_checkpoint
from fairseq_aiayn.configuration import Allowance
from fairseq_aiayn.repairs.guard import AskedForMoreError, guarded, is_trusted, nothing_unasked
from fairseq_aiayn.repairs.program import given

# When a training resumes, the first process loads the checkpoint and sends it to the others by
# torch.save and torch.load. A placeholder, which holds one index, then replaces each tensor.
SENT_BETWEEN_PROCESSES = (distributed_utils._TensorPlaceholder, Unread)
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


def checked(
    load_checkpoint_to_cpu: Callable, path: str, *arguments: object, **options: object
) -> dict:
    """Load a checkpoint, as all of fairseq does; raises ValueError, with the name of the file, as
    `read_checkpoint` does."""
    local = Path(PathManager.get_local_path(path))
    with nothing_unasked(str(local)):
        read_checkpoint(local)
        guarded.size = local.stat().st_size
        try:
            with only_safe_globals():
                loaded = load_checkpoint_to_cpu(path, *arguments, **options)
            # Drop the validation sums: nothing reads them; --eval-bleu stores arrays there
            loaded["extra_state"].get("metrics", {}).pop("valid", None)
            require_numbers(loaded)
        except (OSError, AskedForMoreError):
            raise
        except Exception as error:  # any value of the wrong type can raise any error
            reason = str(error) or type(error).__name__
            message = f"{path}: fairseq cannot load this checkpoint: {reason}"
            raise ValueError(message) from error
    return loaded


def bounded(
    build_model: Callable, cfg: Any, task: FairseqTask, from_checkpoint: bool = False
) -> Any:
    """Build a model, that of a checkpoint first without memory; raises ValueError if it is larger
    than the file can hold."""
    if from_checkpoint and guarded.files is not None and not is_trusted():
        require_plain_search(getattr(task, "cfg", None))
        with torch.device("meta"), at_most(2 * guarded.size + TABLES):
            build_model(cfg, task, from_checkpoint)
    return build_model(cfg, task, from_checkpoint)


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


def building_nothing_unasked(
    load_models: Callable, filenames: Sequence[str], *arguments: object, **options: object
) -> object:
    """Build tasks and models of checkpoints."""
    call = signature(load_models).bind(filenames, *arguments, **options)
    call.apply_defaults()
    suffix, shards = call.arguments["suffix"], call.arguments["num_shards"]
    files = [
        PathManager.get_local_path(sharded(name, suffix, shard, shards))
        for name in filenames
        for shard in range(shards)
    ]
    with nothing_unasked(*files):
        return load_models(filenames, *arguments, **options)


def criterion_of_a_checkpoint(
    build_criterion: Callable, *arguments: object, **options: object
) -> object:
    """Build a criterion: fairseq-validate builds a checkpoint's."""
    with nothing_unasked(*reversed(split_paths(str(given.get("path"))))):  # the last one's
        return build_criterion(*arguments, **options)


def require_plain_search(cfg: Any) -> None:
    """Raise ValueError if the --eval-bleu of a checkpoint asks for anything but a small beam
    search; fairseq takes its options as they are."""
    if not getattr(cfg, "eval_bleu", False):
        return
    for name, largest in ALLOWED_OPTIONS.items():
        text: Any = getattr(cfg, name, None)
        try:
            chosen = json.loads(text)
            plain_search = all(
                type(value) in (type(largest[option]), int, bool)
                and (option == "beam") <= value <= largest[option]
                for option, value in chosen.items()
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


def literal(evaluate: Callable, value: Any, *arguments: Any, **options: Any) -> Any:
    """Evaluate a value if it is a literal such as `[1, 2]`; raises ValueError for another one."""
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise ValueError(f"expected a list, a dict or a number, got {value!r}") from error
        if evaluate.__name__ == "eval_bool":
            return bool(value)
    return evaluate(value, *arguments, **options)
