"""fairseq leaves pairs out of a data set without saying because of which option. Here, the log says
so once, with numbers, and a data set of which nothing is left is refused."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any
from weakref import WeakSet

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask

from fairseq_aiayn.repairs.program import TRAIN, training_program

POSITION_OPTIONS = ("--max-source-positions", "--max-target-positions")
SideLimits = list[tuple[float, list[str]]]  # of both sides: the most tokens, and what says so
counted: WeakSet[FairseqDataset] = WeakSet()  # the data sets of which the log has said it


def counting_pairs(
    get_batch_iterator: Callable, task: FairseqTask, *arguments: Any, **named: Any
) -> EpochBatchIterator:
    """Make batches, and log which pairs are in none, once per data set; raises ValueError if all
    are."""
    call = signature(get_batch_iterator).bind(task, *arguments, **named)
    call.apply_defaults()
    given, dataset = call.arguments, call.arguments["dataset"]
    if dataset in counted or not isinstance(given["max_positions"], tuple):
        return get_batch_iterator(task, *arguments, **named)
    name = next((name for name, one in task.datasets.items() if one is dataset), "input")
    limits = limits_of(task, name, given)
    iterator = get_batch_iterator(task, *arguments, **named)
    counted.add(dataset)
    left_out = np.ones(len(dataset), bool)
    left_out[np.concatenate([np.empty(0, int), *iterator.frozen_batches])] = False
    if left_out.any():
        multiple = f"--required-batch-size-multiple {given['required_batch_size_multiple']}"
        reasons = lengths_by_limit(dataset, left_out.nonzero()[0], limits, multiple)
        line = f"{name}: {left_out.sum():,} of {len(dataset):,} pairs are left out by "
        if left_out.all():
            raise ValueError(line + described(reasons))
        logging.getLogger(TRAIN).warning(line + described(reasons))
    return iterator


def limits_of(task: FairseqTask, name: str, given: Mapping[str, Any]) -> SideLimits:
    """Return the limits of a data set: of its options, the smallest on each side."""
    validates = training_program() is not None and name != getattr(
        task.cfg, "train_subset", "train"
    )
    tokens, limits = given["max_tokens"] or math.inf, []
    for position, of_task, most in zip(
        POSITION_OPTIONS, task.max_positions(), given["max_positions"], strict=True
    ):
        least = min(most or math.inf, tokens)
        values = {position: of_task, "--max-tokens" + "-valid" * validates: tokens}
        options = [f"{option} {value}" for option, value in values.items() if value == least]
        limits.append((least, options or [f"the model's {least} positions"]))
    return limits


def lengths_by_limit(
    dataset: FairseqDataset, pairs: Iterable[int], limits: SideLimits, otherwise: str
) -> dict[str, list[int]]:
    """Return the lengths of the pairs that exceed each limit; `otherwise` is of those that exceed
    none."""
    lengths: dict[str, list[int]] = {}
    for pair in pairs:
        size = dataset.size(pair)
        broken = {
            option: length
            for length, (most, options) in sorted(zip(size, limits, strict=True))
            for option in options
            if length > most
        }
        for option, length in (broken or {otherwise: max(size)}).items():
            lengths.setdefault(option, []).append(length)
    return lengths


def described(lengths: Mapping[str, list[int]]) -> str:
    """Return the limits, each with how many pairs exceed it and the longest of them."""
    return "; ".join(
        f"{limit} ({len(those):,}, of up to {max(those)} tokens)"
        for limit, those in lengths.items()
    )
