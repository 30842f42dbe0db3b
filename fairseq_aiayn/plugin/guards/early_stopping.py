"""A resumed training continues with the patience that was left when it was stopped.

fairseq's --patience counts validations without an improvement. The count is only in memory, not in
the checkpoint, so a resumed training would run longer than an undisturbed one. The log has all
validations, so the count is restored from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path

from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import DictConfig

from fairseq_aiayn.plugin.guards.training_program import training_program
from fairseq_aiayn.runs.fairseq_log import read_log


def install() -> None:
    """Make fairseq-train start with the count of its log; other commands stay unchanged."""
    train = training_program()
    if train and not hasattr(train.validate_and_save, "counts_on"):
        train.validate_and_save = counting_on(train.validate_and_save, train.should_stop_early)


def counting_on(validate_and_save: Callable, should_stop_early: Callable) -> Callable:
    """Wrap the function that fairseq calls after every update: its first call restores the
    attributes in which `should_stop_early` counts."""

    @wraps(validate_and_save)
    def wrapped(cfg: DictConfig, trainer: Trainer, *arguments: object, **options: object) -> object:
        if not wrapped.counts_on:
            wrapped.counts_on = True
            restore(cfg, trainer, should_stop_early)
        return validate_and_save(cfg, trainer, *arguments, **options)

    wrapped.counts_on = False
    return wrapped


def restore(cfg: DictConfig, trainer: Trainer, should_stop_early: Callable) -> None:
    """Restore the best value of the validations before the trainer's update, and the number of
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
    """Return the best value of the log's validations before `updates`, and how many came after it;
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


def validations(path: Path, subset: str, metric: str, before: int) -> Sequence[float]:
    """Return the values of a metric in a JSON log, at updates below `before`.

    If a later start measured some updates again, only its values count.
    """
    found: dict[int, float] = {}
    log = read_log(path)
    for line in log.statistics:
        if f"{subset}_{metric}" in line and f"{subset}_num_updates" in line:
            update = int(log.number(line, f"{subset}_num_updates"))
            found = {key: value for key, value in found.items() if key < update}
            if update < before:
                found[update] = log.number(line, f"{subset}_{metric}")
    return list(found.values())
