"""Section 6.1: what a trained model translates, and what its heads attend to meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure

from fairseq_aiayn.attention_maps.weights import all_attention_weights
from fairseq_aiayn.decoding.beam_search import EnsembleContinuations, Search, Symbols, beam_search
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.paper import TRANSLATION
from fairseq_aiayn.report.document import Table
from tour.number_words import END, PADDING, SYMBOLS, VOCABULARY, Pair, names_of
from tour.training import DEVELOPMENT, batch_of

DRAWN = 72_041  # a number that is not in the training text
MISTAKES = 3  # that are shown


@torch.no_grad()
def translate(model: Transformer, pairs: Sequence[Pair]) -> list[list[str]]:
    """Translate the English names with the paper's search; return the words of each output."""
    model.eval()
    source = batch_of(pairs).source
    symbols = Symbols(end=END, padding=PADDING)
    options = Search(TRANSLATION.beam, TRANSLATION.alpha, TRANSLATION.extra_length)
    max_lengths = options.max_lengths(source, symbols)
    found = beam_search(EnsembleContinuations([model], source), max_lengths, symbols, options)
    return [[VOCABULARY[token] for token in best.tokens[:-1]] for best, *_ in found]


def attention_picture(model: Transformer) -> Figure:
    """Draw the encoder-decoder attention of the last layer while the model names one number."""
    pair = names_of(DRAWN)
    batch = batch_of([pair])
    heads = all_attention_weights(model, batch.source[0], batch.shifted[0])["cross"][-1]
    source, target = ((*words, SYMBOLS[END]) for words in pair)
    figure = Figure(figsize=(4 * len(heads), 4), layout="constrained")
    for number, (axes, weights) in enumerate(zip(figure.subplots(1, len(heads)), heads), start=1):
        axes.imshow(weights.numpy(), cmap="Blues", vmin=0, vmax=1)
        axes.set_title(f"head {number}")
        axes.set_xticks(range(len(source)), source, rotation=90)
        axes.set_yticks(range(len(target)), target)
    return figure


def mistakes(model: Transformer) -> Table:
    """Return the first unseen numbers that the model gets wrong."""
    wrong = [
        [" ".join(pair[0]), " ".join(output), " ".join(pair[1])]
        for pair, output in zip(DEVELOPMENT, translate(model, DEVELOPMENT), strict=True)
        if output != pair[1]
    ]
    return Table(["source", "translation", "right"], wrong[:MISTAKES], left=3)
