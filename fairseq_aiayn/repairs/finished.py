"""fairseq compares with --max-update and --patience only after an update, so that a finished
training that is resumed does one more. Here, it does none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from fairseq.trainer import Trainer
from omegaconf import DictConfig

from fairseq_aiayn.repairs.program import TRAIN, training_program


def unless_done(
    train: Callable, cfg: DictConfig, trainer: Trainer, *arguments: object
) -> tuple[list[Any], bool]:
    """Train for an epoch unless the training is done, as only one that was resumed can be."""
    most, patience = cfg.optimization.max_update, cfg.checkpoint.patience
    waited = getattr(training_program().should_stop_early, "num_runs", 0)
    updates = trainer.get_num_updates()
    if 0 < most <= updates or 0 < patience <= waited:
        logging.getLogger(TRAIN).info("the training is done already: %d updates", updates)
        return [None], True
    return train(cfg, trainer, *arguments)
