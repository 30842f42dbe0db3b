"""Small models with random weights, without a file."""

import random
from dataclasses import dataclass, replace

import torch

from fairseq_aiayn.inference.folder import (
    END,
    NONE,
    PADDING,
    SPECIAL,
    Config,
    Model,
    TextProcessing,
    Vocabulary,
)
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer
from fairseq_aiayn.paper import Decoding

SIZES = Dimensions(N=2, d_model=16, d_ff=24, h=4, d_k=4, d_v=4, P_drop=0.1)
SEARCH = Decoding(beam=4, alpha=0.6, extra_length=5)
WORDS = tuple(f"w{number}" for number in range(30))


@dataclass(frozen=True)
class Kind:
    """A kind of model."""

    sizes: Dimensions = SIZES
    sharing: str = "all"
    learned: tuple[int, int] | None = None
    spread: float = 1.0  # of the embeddings


KINDS = {
    "d_k < d_v": Kind(replace(SIZES, d_k=2)),
    "one head, d_k > d_v": Kind(replace(SIZES, h=1, d_k=16, d_v=9)),
    "two vocabularies": Kind(sharing="target"),
    "three matrices": Kind(sharing="none"),
    "small values": Kind(spread=1e-3),  # the layer norm's ε matters
    "learned positions": Kind(learned=(20, 25)),
    "odd sizes": Kind(Dimensions(N=1, d_model=10, d_ff=7, h=3, d_k=2, d_v=5, P_drop=0.1)),
}


def random_model(kind: Kind = Kind(), search: Decoding = SEARCH, ends: float = 0.0) -> Model:
    """A model whose parameters are all random, also those that begin as 0 or 1; with `ends`, near
    their initial values, and outputs end the earlier the larger it is."""
    torch.manual_seed(1)
    source = Vocabulary(SPECIAL + WORDS)
    target = source if kind.sharing == "all" else Vocabulary(SPECIAL + WORDS[:-2])
    transformer = create_transformer(
        kind.sizes, len(source), len(target), PADDING, kind.sharing, kind.learned
    )
    with torch.no_grad():
        for parameter in transformer.parameters():
            noise = torch.randn_like(parameter)
            parameter.copy_(parameter + noise * 0.1 if ends else noise * 0.5)
        for embedding in {transformer.encoder.embedding, transformer.decoder.embedding}:
            embedding.weight *= kind.spread
        if ends:
            norm = transformer.decoder.layers[-1].feed_forward_norm.norm
            norm.bias += ends * transformer.decoder.projection.weight[END]
    config = Config(
        format=1,
        task="translation",
        row="base",
        source_lang="en",
        target_lang="de",
        sizes=kind.sizes,
        sharing=kind.sharing,
        search=search,
        text=TextProcessing(NONE, lowercase=True),
        learned_lengths=kind.learned,
    )
    return Model(config, transformer.eval(), source, target, None)


def preferring(model: Model, tokens: list[int], logit: float) -> Model:
    """The same model, to which some tokens are always likely, the first one most."""
    decoder = model.transformer.decoder
    with torch.no_grad():
        decoder.layers[-1].feed_forward_norm.norm.bias.fill_(1.0)
        for place, token in enumerate(tokens):
            weight = decoder.projection.weight
            weight[token] = (logit - place / 3) / weight.size(1)
    return model


def sentences(vocabulary: Vocabulary, lengths: list[int], seed: int = 2) -> list[str]:
    """Random sentences of a model's own types."""
    draw, types = random.Random(seed), vocabulary.types[len(SPECIAL) :]
    return [" ".join(draw.choices(types, k=length)) for length in lengths]
