"""What a comparison with the paper finds, how much a difference is expected to cost, and what to
type instead.

A change is a command, or options for the end of fairseq-train's, where `without` names those that
are left out of it; "fairseq-generate ... " begins options for the end of that command.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from shlex import quote
from typing import Literal

from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.paper import Row
from fairseq_aiayn.settings import USUAL_MAX_TOKENS, task_of

__all__ = ["Weight"]

PLUGIN = "--user-dir $(aiayn user-dir)"
SEARCH = "fairseq-generate ... "
BFLOAT16 = f"{PLUGIN} --bf16, without --fp16"


class Weight(IntEnum):
    """How much a difference is expected to cost or gain; the heaviest comes first."""

    LARGE = 4  # 1 BLEU or more
    MEDIUM = 3  # 0.3 to 1 BLEU
    UNKNOWN = 2  # its effect on BLEU after a whole training has not been measured
    SMALL = 1  # less than 0.3 BLEU
    NONE = 0  # as in the paper, or of no effect


@dataclass(frozen=True)
class Finding:
    """What the paper did, what a training did, and what follows."""

    paper: str
    here: str
    weight: Weight = Weight.NONE
    effect: str = ""  # with its source; empty if this is as in the paper
    change: str = ""  # what to type instead

    @property
    def differs(self) -> bool:
        """Return whether the training differs from the paper."""
        return bool(self.effect)


Here = str | Literal[True] | None  # what a training had: True, what the paper has; None, not known


def compare(
    paper: str, here: Here, effect: str, change: str, weight: Weight = Weight.UNKNOWN
) -> Finding | None:
    """Return what a training had beside what the paper has, and what follows if that differs; None
    if no file says what it had."""
    if here is None:
        return None
    if here is True or here == paper:
        return Finding(paper, paper)
    return Finding(paper, here, weight, effect, change)


def whole(run: Evidence, row: Row, system: str = "aiayn") -> str:
    """Return the whole command of a training as a row's, by this plugin, or by stock fairseq where
    its models can have the row's heads."""
    if {row.h * row.d_k, row.h * row.d_v} != {row.d_model}:
        system = "aiayn"
    task = f"{PLUGIN} --task {task_of(row)}" if system == "aiayn" else "--task translation"
    flags = f"{row.name} --gpus {run.devices}{' --system stock' * (system == 'stock')}"
    if run.lacked_memory and run.is_seq2seq:
        flags += f" --max-tokens {tokens_of_a_gpu(run, row)[0]}"
    device = " --cpu" * run.is_on("cpu") + " --fp16" * run.is_on("fp16")
    data = run.is_ours("task") is not None and run.text("data")  # another task has no pairs
    command = f"fairseq-train {quote(data or 'DATA')} {task} $(aiayn flags {flags}){device}"
    return f"{command} --save-dir checkpoints/{system}-{row.name}"


def tokens_of_a_gpu(run: Evidence, row: Row) -> tuple[int, int, int]:
    """Return --max-tokens, --update-freq and the number of GPUs for the row's batch: in half the
    memory where there was too little, or with at least the usual tokens on a GPU where pairs were
    left out, if need be on fewer GPUs."""
    usual = run.number("max_tokens") or USUAL_MAX_TOKENS
    if run.lacked_memory:
        usual //= 2
    elif run.left_out:
        usual = max(usual, USUAL_MAX_TOKENS)
    least = min(usual, row.batch_tokens) if run.left_out else 1
    used = max(1, min(run.devices, row.batch_tokens // int(least)))
    every = max(1, math.ceil(row.batch_tokens / (used * usual)))
    return math.ceil(row.batch_tokens / used / every), every, used


def commands(run: Evidence, row: Row) -> dict[str, str]:
    """Return the whole commands of a row: of this plugin, and for stock's models the nearest."""
    stocks = {"the nearest of stock fairseq": whole(run, row, "stock")}
    ours = {"all as the row has it": whole(run, row)}
    return stocks | ours if run.is_ours("arch") is False else ours
