"""Trainings as fairseq writes them down, for the tests of diagnosis/.

Run as a script, it prints what fairseq_aiayn/diagnosis/fairseq_defaults.json must be:

    PYTHONPATH=tests python tests/diagnosis/trainings.py
"""

from __future__ import annotations

import json
from argparse import Namespace
from copy import deepcopy
from functools import cache
from pathlib import Path

import torch
from building import parse
from checkpoint_states import save, state_of
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_aiayn.diagnosis.diagnosis import OFF
from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.paper import BASE, Row
from fairseq_aiayn.runs.configurations import printed_configuration
from fairseq_aiayn.settings import stock_flags

STOCK = ["--criterion", "label_smoothed_cross_entropy", "--optimizer", "adam"]
STOCK += ["--lr-scheduler", "inverse_sqrt"]


parsed_once = cache(parse)


def parsed(words: list[str], task: str = "translation") -> Namespace:
    """What fairseq-train makes of options; every architecture fills in its sizes."""
    return deepcopy(parsed_once(*words, task=task))


def evidence(words: list[str], task: str = "translation", **known: object) -> Evidence:
    """A training with these options."""
    return Evidence("run", vars(parsed(words, task)), **known)


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


def defaults() -> dict[str, object]:
    """Return what fairseq sets in every training of a Transformer, without what is switched off."""
    groups = printed_configuration([configuration_line(["--arch", "transformer", *STOCK])])
    options: dict[str, object] = {}
    for group in groups.values():
        options |= group or {}
    return {name: options[name] for name in sorted(options) if options[name] not in OFF}


if __name__ == "__main__":
    print(json.dumps(defaults(), indent=2))
