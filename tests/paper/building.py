"""Build the options and the model of a row as fairseq-train does, but in the process of the test
and without memory for weights."""

from argparse import Namespace
from types import SimpleNamespace

import torch
from fairseq import options
from fairseq.data import Dictionary

import fairseq_aiayn.plugin  # noqa: F401  (registers the architectures)
from fairseq_aiayn.plugin.model import AiaynModel

TYPES = 12  # in the small dictionary that replaces the paper's 37,000 types


def parse(*flags: str) -> Namespace:
    """The options that fairseq-train reads from these flags, with the architecture's defaults."""
    task = ["data", "--task", "translation"]
    return options.parse_args_and_arch(options.get_training_parser(), [*task, *flags])


def build(args: Namespace, types: int = TYPES) -> AiaynModel:
    """The model with a dictionary of `types` types, without memory for its weights."""
    dictionary = Dictionary()
    for i in range(types - len(dictionary)):
        dictionary.add_symbol(f"word{i}")
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    with torch.device("meta"):
        return AiaynModel.build_model(args, task)


def count(model: torch.nn.Module) -> int:
    """The number of parameters; shared ones count once."""
    return sum(p.numel() for p in model.parameters())
