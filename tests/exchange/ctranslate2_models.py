"""Small models, and their directories for CTranslate2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from fairseq_aiayn.inference.ctranslate2 import write_ctranslate2
from fairseq_aiayn.inference.folder import (
    NONE,
    PADDING,
    SPECIAL,
    Config,
    Model,
    TextProcessing,
    Vocabulary,
)
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer
from fairseq_aiayn.paper import Decoding

SIZES = Dimensions(N=2, d_model=16, d_ff=24, h=4, d_k=4, d_v=4, P_drop=0.1)
SEARCH = Decoding(beam=4, alpha=0.6, extra_length=5)
LEARNED = [20, 25]  # of the longest source and its longest output, with an end token each


@dataclass(frozen=True)
class Kind:
    """A kind of model."""

    sizes: Dimensions = SIZES
    sharing: str = "all"
    learned: bool = False
    spread: float = 1.0  # of the embeddings


KINDS = {
    "base": Kind(),
    "d_k < d_v": Kind(replace(SIZES, d_k=2)),
    "d_k > d_v": Kind(replace(SIZES, d_v=3, d_k=5)),
    "one head": Kind(replace(SIZES, h=1, d_k=16, d_v=16)),
    "odd sizes": Kind(replace(SIZES, N=1, d_model=10, d_ff=7, h=3, d_k=2, d_v=1)),
    "two vocabularies": Kind(sharing="target"),
    "three matrices": Kind(sharing="none"),
    "learned positions": Kind(learned=True),
    "small values": Kind(spread=1e-3),  # the layer norm's ε matters
}


def small_model(kind: Kind, seed: int = 1, learned: list[int] = LEARNED) -> Model:
    """A model whose parameters are all random, also those that begin as 0 or 1."""
    torch.manual_seed(seed)
    source, target = (
        Vocabulary((*SPECIAL, *(f"{side}{number}" for number in range(size))))
        for side, size in (("a", 30), ("a" if kind.sharing == "all" else "b", 30))
    )
    lengths = learned if kind.learned else None
    transformer = create_transformer(
        kind.sizes, len(source), len(target), PADDING, kind.sharing, lengths
    )
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
        for embedding in {transformer.encoder.embedding, transformer.decoder.embedding}:
            embedding.weight *= kind.spread
    text = TextProcessing(NONE)
    config = Config(
        1, "translation", "base", "en", "de", kind.sizes, kind.sharing, SEARCH, text,
        learned_lengths=lengths,
    )  # fmt: skip
    return Model(config, transformer.eval(), source, target, None)


def sentences(vocabulary: Vocabulary, lengths: list[int], seed: int = 2) -> list[str]:
    """Random sentences of a model's own types."""
    generator = torch.Generator().manual_seed(seed)
    types = vocabulary.types[len(SPECIAL) :]
    return [
        " ".join(types[one] for one in torch.randint(len(types), (n,), generator=generator))
        for n in lengths
    ]


def written(model: Model, path: Path, quantization: str = "float32") -> Path:
    """The model for CTranslate2, in a new directory."""
    write_ctranslate2(model, quantization, path / quantization)
    return path / quantization
