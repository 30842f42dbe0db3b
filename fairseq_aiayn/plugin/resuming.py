"""A resumed training goes on exactly where it stopped, also with another number of processes.

What fairseq does not do:

- It copies a checkpoint to checkpoint_last.pt in place, so that a kill can leave half a file there,
  which it then cannot load.
- It stores how many batches of the epoch each process had. With another number of processes, some
  batches would be seen twice or left out.
- --patience counts validations without an improvement in memory only, so that a resumed training
  would run longer than an undisturbed one. The log has all validations.
- It compares with --max-update only after an update, so that a finished training does one more.
- It starts with new weights if --restore-file or --finetune-from-model is a directory or a pipe.
- It does not write and validate a checkpoint of --save-interval-updates where an epoch ends.
"""

from __future__ import annotations

import logging
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from omegaconf import DictConfig
from torch import distributed

from fairseq_aiayn.plugin.commands import training_program
from fairseq_aiayn.runs.logs import read_log
from fairseq_aiayn.text import require_plain_file, whole_path

logger = logging.getLogger(__name__)

BEST, LAST = "checkpoint_best.pt", "checkpoint_last.pt"
# The options that decide which batches an epoch has, and their order
BATCHES = (
    *(("dataset", name) for name in ("max_tokens", "batch_size", "required_batch_size_multiple")),
    *(("dataset", name) for name in ("train_subset", "num_batch_buckets", "grouped_shuffling")),
    ("common", "seed"),
)


def install() -> None:
    """Make fairseq-train resume this way; other commands stay unchanged."""
    train = training_program()
    if train is None:
        return
    checkpoint_utils.load_checkpoint = from_whole_file(checkpoint_utils.load_checkpoint)
    checkpoint_utils.load_checkpoint_to_cpu = telling_batches(
        checkpoint_utils.load_checkpoint_to_cpu
    )
    Trainer.load_checkpoint = placing(Trainer.load_checkpoint)
    EpochBatchIterator.load_state_dict = at_place(EpochBatchIterator.load_state_dict)
    EpochBatchIterator.ordered_batches = without_seen(EpochBatchIterator.ordered_batches)
    train.train = unless_done(train.train, train.should_stop_early)
    train.validate_and_save = saving_at_every_interval(train.validate_and_save)


# --- a whole checkpoint -----------------------------------------------------------------------


def from_whole_file(load_checkpoint: Callable) -> Callable:
    """Wrap the function that a training resumes with: the first process repairs the copies."""

    @wraps(load_checkpoint)
    def wrapped(cfg: DictConfig, trainer: Trainer, **options: object) -> object:
        for path in filter(None, (cfg.restore_file, cfg.finetune_from_model)):
            require_plain_file(Path(path))
        if trainer.is_data_parallel_master and cfg.restore_file == LAST:
            repair_copies(Path(cfg.save_dir), () if cfg.no_last_checkpoints else (BEST, LAST))
        if trainer.data_parallel_world_size > 1:  # all see the same file
            distributed.barrier(trainer.data_parallel_process_group)
        return load_checkpoint(cfg, trainer, **options)

    return wrapped


def repair_copies(directory: Path, names: Sequence[str] = (BEST, LAST)) -> None:
    """Replace copies that are cut short by what they were to be copies of: the checkpoint that was
    written last. Without a whole checkpoint, nothing is changed.

    A checkpoint is a zip archive with its directory at the end, which half a file does not have.
    checkpoint_last.pt is also made if it is not there: a kill can come before fairseq begins it.
    """
    found = {path: zipfile.is_zipfile(path) for path in directory.glob("checkpoint*.pt")}
    whole = [path for path, is_whole in found.items() if is_whole]
    newest = max(whole, key=lambda path: path.stat().st_mtime_ns, default=None)
    for name in names if newest else ():
        if not found.get(directory / name, name != LAST):
            with whole_path(directory / name) as part:
                shutil.copyfile(newest, part)
            logger.warning("%s was not whole: it is %s again", directory / name, newest.name)


# --- the place in the epoch -------------------------------------------------------------------


def telling_batches(load_checkpoint_to_cpu: Callable) -> Callable:
    """Wrap the function that reads a checkpoint: the state of its iterator also says with which
    options and how many processes it was written, so that all processes know."""

    @wraps(load_checkpoint_to_cpu)
    def wrapped(*arguments: object, **options: object) -> dict[str, Any]:
        state = load_checkpoint_to_cpu(*arguments, **options)
        iterator = (state.get("extra_state") or {}).get("train_iterator")
        if iterator and state.get("cfg"):
            iterator["batches"] = batch_options(state["cfg"])
            iterator["processes"] = state["cfg"].distributed_training.distributed_world_size
        return state

    return wrapped


def batch_options(cfg: DictConfig) -> dict[str, object]:
    """Return the options that decide which batches an epoch has."""
    return {name: cfg[section].get(name) for section, name in BATCHES}


def placing(load_checkpoint: Callable) -> Callable:
    """Wrap the trainer's function: the iterator's state says how many batches of the epoch all
    processes together have had ("seen"), or why that means nothing now ("begins_again")."""

    @wraps(load_checkpoint)
    def wrapped(trainer: Trainer, *arguments: object, **options: object) -> dict | None:
        extra_state = load_checkpoint(trainer, *arguments, **options)
        state = (extra_state or {}).get("train_iterator", {})
        then, processes = state.pop("batches", None), state.pop("processes", None)
        if then and state.get("iterations_in_epoch"):
            state["seen"] = state["iterations_in_epoch"] * processes
            now = batch_options(trainer.cfg)
            if then["grouped_shuffling"]:  # in groups of a batch for each process
                then["distributed_world_size"] = processes
                now["distributed_world_size"] = trainer.data_parallel_world_size
            if then != now:
                state["begins_again"] = difference(then, now)
        return extra_state

    return wrapped


def difference(then: Mapping[str, object], now: Mapping[str, object]) -> str:
    """Return in words which options differ."""
    return ", ".join(
        f"--{name.replace('_', '-')} was {then[name]}, is {now[name]}"
        for name in then
        if then[name] != now[name]
    )


def at_place(load_state_dict: Callable) -> Callable:
    """Wrap the iterator's function: it skips the batches that all processes have had."""

    @wraps(load_state_dict)
    def wrapped(iterator: EpochBatchIterator, state: dict[str, Any]) -> None:
        seen = state.get("seen")
        if reason := state.get("begins_again"):
            seen = 0
            logger.warning("epoch %d begins again, with other batches: %s", state["epoch"], reason)
        if seen is not None:
            iterator.seen_in = {state["epoch"]: seen}
            state = {**state, "iterations_in_epoch": seen // iterator.num_shards}
        load_state_dict(iterator, state)

    return wrapped


def without_seen(ordered_batches: Callable) -> Callable:
    """Wrap the iterator's function that lists this process's batches of an epoch.

    Process i of n has the batches i, n + i, 2n + i … If the number of batches seen is no multiple
    of n, the first processes have had theirs of the next n: they get an empty one instead, as
    fairseq gives at the end of an epoch.
    """

    @wraps(ordered_batches)
    def wrapped(
        iterator: EpochBatchIterator, epoch: int, *arguments: object, **options: object
    ) -> list[list[int]]:
        batches = ordered_batches(iterator, epoch, *arguments, **options)
        row, seen = divmod(getattr(iterator, "seen_in", {}).get(epoch, 0), iterator.num_shards)
        if iterator.shard_id < seen:
            batches[row] = []
        return batches

    return wrapped


# --- the end ----------------------------------------------------------------------------------


def unless_done(train: Callable, should_stop_early: Callable) -> Callable:
    """Wrap the function that trains for an epoch: its first call restores the attributes in which
    `should_stop_early` counts, and does nothing if the training was done already."""

    @wraps(train)
    def wrapped(cfg: DictConfig, trainer: Trainer, *arguments: object) -> tuple[list, bool]:
        if not wrapped.resumes:
            wrapped.resumes = True
            restore_patience(cfg, trainer, should_stop_early)
            most, patience = cfg.optimization.max_update, cfg.checkpoint.patience
            waited = getattr(should_stop_early, "num_runs", 0)
            if 0 < most <= trainer.get_num_updates() or 0 < patience <= waited:
                logger.info("the training is done already: %d updates", trainer.get_num_updates())
                return [None], True
        return train(cfg, trainer, *arguments)

    wrapped.resumes = False
    return wrapped


def restore_patience(cfg: DictConfig, trainer: Trainer, should_stop_early: Callable) -> None:
    """Restore the best value of the validations up to the trainer's update, and the number of
    validations since it.

    All processes must stop together, and only the first one's log has validations: what it counted
    holds for all.
    """
    if cfg.checkpoint.patience <= 0:
        return
    first = trainer.is_data_parallel_master
    counted = best_and_waited(cfg, trainer.get_num_updates()) if first else None
    if trainer.data_parallel_world_size > 1:
        group, device = trainer.data_parallel_process_group, trainer.device
        counted = distributed_utils.broadcast_object(counted, 0, group, dist_device=device)
    if counted:
        should_stop_early.best, should_stop_early.num_runs = counted


def best_and_waited(cfg: DictConfig, updates: int) -> tuple[float, int] | None:
    """Return the best value of the log's validations up to `updates`, and how many came after it;
    None if there are none."""
    log = cfg.common.log_file
    if not log or not Path(log).exists():
        return None
    subset = cfg.dataset.valid_subset.split(",")[0]
    values = validations(Path(log), subset, cfg.checkpoint.best_checkpoint_metric, updates)
    if not values:
        return None
    best = max(values) if cfg.checkpoint.maximize_best_checkpoint_metric else min(values)
    return best, len(values) - 1 - values.index(best)


def validations(path: Path, subset: str, metric: str, last: int) -> Sequence[float]:
    """Return the values of a metric in a JSON log, at updates up to `last`.

    If a later start measured some updates again, only its values count.
    """
    found: dict[int, float] = {}
    log = read_log(path)
    for line in log.statistics:
        if f"{subset}_{metric}" in line and f"{subset}_num_updates" in line:
            update = int(log.number(line, f"{subset}_num_updates"))
            found = {key: value for key, value in found.items() if key < update}
            if update <= last:
                found[update] = log.number(line, f"{subset}_{metric}")
    return list(found.values())


# --- checkpoints of the interval --------------------------------------------------------------


def saving_at_every_interval(validate_and_save: Callable) -> Callable:
    """Wrap the function that fairseq calls after every update, also after one that overflowed and
    changed nothing: where a checkpoint of the interval is due and none of the epoch, the update
    counts as one within the epoch.

    fairseq takes an update that ends an epoch for the epoch's alone: with --no-epoch-checkpoints or
    --save-interval it writes only checkpoint_last.pt there, and does not validate. Then the
    checkpoints to average have a gap; if the interval is a whole number of epochs, there are none
    at all. And where the update after a checkpoint overflows in float16, fairseq validates and
    writes the same weights again: --patience counts this as a validation without an improvement.
    """

    @wraps(validate_and_save)
    def wrapped(
        cfg: DictConfig,
        trainer: Trainer,
        task: FairseqTask,
        epoch_itr: EpochBatchIterator,
        valid_subsets: Sequence[str],
        end_of_epoch: bool,
    ) -> tuple[list[float | None], bool]:
        updates = trainer.get_num_updates()
        is_new, wrapped.updates = updates != wrapped.updates, updates
        if not is_new and not end_of_epoch:
            return [None], False  # what fairseq returns where no checkpoint is due
        if is_new and end_of_epoch and only_interval_is_due(cfg, epoch_itr.epoch, updates):
            epoch_itr, end_of_epoch = WithinEpoch(epoch_itr), False
        return validate_and_save(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)

    wrapped.updates: int | None = None  # at the last call
    return wrapped


def only_interval_is_due(cfg: DictConfig, epoch: int, updates: int) -> bool:
    """Return whether this end of an epoch has a checkpoint of the interval and none of its own."""
    interval = cfg.checkpoint.save_interval_updates
    of_epoch = not cfg.checkpoint.no_epoch_checkpoints and epoch % cfg.checkpoint.save_interval == 0
    return interval > 0 and updates % interval == 0 and not of_epoch


class WithinEpoch:
    """fairseq's iterator over an epoch, which denies that the epoch has ended; the state that a
    checkpoint stores is the iterator's own, so that a resumed training begins the next epoch."""

    def __init__(self, iterator: EpochBatchIterator) -> None:
        self._iterator = iterator

    def __getattr__(self, name: str) -> object:
        return getattr(self._iterator, name)

    def end_of_epoch(self) -> bool:
        return False
