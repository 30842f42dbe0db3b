"""Trainings as fairseq writes them down, for the tests of diagnosis/."""

from argparse import Namespace
from copy import deepcopy
from functools import cache
from pathlib import Path

import torch
from building import parse
from checkpoint_states import save, state_of
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_aiayn.paper import BASE, Row
from fairseq_aiayn.settings import stock_flags

parsed_once = cache(parse)


def parsed(words: list[str], task: str = "translation") -> Namespace:
    """What fairseq-train makes of options; every architecture fills in its sizes."""
    return deepcopy(parsed_once(*words, task=task))


@cache
def stock_words(row: Row = BASE) -> tuple[str, ...]:
    """A row in stock fairseq's options, on 8 GPUs."""
    return ("--distributed-world-size", "8", *stock_flags(row, gpus=8))


def configuration_line(words: list[str]) -> str:
    """The line of a train.log with all options."""
    return str(convert_namespace_to_omegaconf(parsed(words)))


def save_checkpoint(path: Path, configuration: dict, **model: torch.Tensor) -> Path:
    """Write what fairseq would after 70 updates."""
    model = model or {"encoder.embed_tokens.weight": torch.ones(9, 4)}
    return save(path, state_of(model, 70, **configuration))
