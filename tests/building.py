"""Options, dictionaries and models as fairseq's commands build them, but in the process of the test
and in small, or without memory for weights."""

from argparse import Namespace
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq import options
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens

import fairseq_aiayn.plugin  # noqa: F401  (registers the architectures)
from fairseq_aiayn.nn import cpu_kernels
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer
from fairseq_aiayn.paper import Row
from fairseq_aiayn.plugin.model import AiaynDecoder, AiaynEncoder, AiaynModel, apply_row

TYPES = 12  # in the small dictionary that replaces the paper's 37,000 types


def parse(*flags: str, task: str = "translation") -> Namespace:
    """The options that fairseq-train reads from these flags, with the architecture's defaults."""
    words = ["data", "--task", task, *flags]
    return options.parse_args_and_arch(options.get_training_parser(task), words)


def dictionary(words: Iterable[str]) -> Dictionary:
    made = Dictionary()
    for word in words:
        made.add_symbol(word)
    return made


def dictionaries_task(source: Dictionary, target: Dictionary | None = None) -> SimpleNamespace:
    """What models and losses ask of a task; without a target, the dictionary is joined."""
    return SimpleNamespace(source_dictionary=source, target_dictionary=target or source)


def build(args: Namespace, types: int = TYPES) -> AiaynModel:
    """The model with a dictionary of `types` types, without memory for its weights."""
    joined = dictionary(f"word{i}" for i in range(types - len(Dictionary())))
    with torch.device("meta"):
        return AiaynModel.build_model(args, dictionaries_task(joined))


def count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def sharp_model(task: object, row: Row, seed: int, sharpness: float, **sizes: object) -> AiaynModel:
    """A small model with sharp output distributions, like those of a trained one."""
    torch.manual_seed(seed)
    lengths = {"max_source_positions": 64, "max_target_positions": 64}
    args = Namespace(encoder_embed_dim=16, encoder_attention_heads=2, d_k=8, **lengths | sizes)
    apply_row(row, args)
    model = AiaynModel.build_model(args, task).eval()
    with torch.no_grad():
        model.decoder.stack.projection.weight *= sharpness
    return model


def padded(rows: Iterable[list[int]], words: Dictionary) -> torch.Tensor:
    """A batch of sources: an end token after each row, and padding on the left as in fairseq."""
    ended = [torch.tensor([*row, words.eos()]) for row in rows]
    return collate_tokens(ended, words.pad(), left_pad=True)


def product_types(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """The types of the matrix products that models take from now on, by PyTorch's own kernel."""
    linear, types = F.linear, []

    def recorded(x: torch.Tensor, *arguments: torch.Tensor) -> torch.Tensor:
        y = linear(x, *arguments)
        types.append(y.dtype)
        return y

    monkeypatch.setattr(F, "linear", recorded)
    monkeypatch.setattr(cpu_kernels, "fits_onednn", lambda *_: False)
    return types


def plain_model(words: Dictionary, sizes: Dimensions, autocast=None) -> AiaynModel:
    """A small model without options, with the same weights every time."""
    torch.manual_seed(0)
    transformer = create_transformer(sizes, len(words), len(words), words.pad())
    encoder = AiaynEncoder(words, transformer.encoder, longest=64)
    return AiaynModel(encoder, AiaynDecoder(words, transformer.decoder, longest=64), autocast)
