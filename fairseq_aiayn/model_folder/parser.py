"""A trained parser (section 6.3) without fairseq: from words to the symbols of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from fairseq_aiayn.decoding.beam_search import Continuations, beam_search
from fairseq_aiayn.decoding.ensemble import EnsembleContinuations
from fairseq_aiayn.decoding.tree_constraint import (
    ConstrainedContinuations,
    TreeSymbols,
    classify_tokens,
)
from fairseq_aiayn.model_folder.folder import Model, read_folder
from fairseq_aiayn.model_folder.search import (
    SYMBOLS,
    find_device,
    find_product_type,
    longest_outputs,
    padded,
    search_options,
)
from fairseq_aiayn.model_folder.text import PIECES_FILES, WORD_PIECES, TextProcessing
from fairseq_aiayn.model_folder.vocabulary import END
from fairseq_aiayn.nn.precision import products_in
from fairseq_aiayn.treebank.linearization import (
    MAX_OPEN,
    require_words,
    source_text,
    split_symbol,
)


class Parser:
    """A model with its vocabularies and its word pieces."""

    def __init__(
        self,
        model: Model,
        beam: int,
        constrained: bool,
        device: str | None = None,
        precision: str = "float32",
    ):
        """`precision` is that of the search's matrix products, float32 or bfloat16.

        Raises ValueError for a model, a beam, a device or a precision with which no search is
        possible.
        """
        self.config, self.source, self.target = model.config, model.source, model.target
        self.cut = model.config.text.cutter(model.config.source_lang, model.pieces_file)
        self.options = search_options(model.config, len(self.target), beam)
        self.trees = tree_symbols(self.target.types, END) if constrained else None
        self.device, self.product_type = find_device(device), find_product_type(precision)
        self.transformer = model.transformer.to(self.device).eval()

    def symbols(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Parse a batch of sentences, given as lists of words; return the symbols of the best
        output of each, as the model wrote them.

        Raises ValueError for words that cannot be part of a tree.
        """
        if not sentences:
            return []
        for words in sentences:
            require_words(words)
        numbers = [self.source.numbers(self.cut(source_text(words))) for words in sentences]
        source = padded(numbers, self.device)
        longest = longest_outputs(self.config, source)
        with torch.no_grad(), products_in(self.product_type, self.device):
            continuations: Continuations = EnsembleContinuations([self.transformer], source)
            if self.trees:
                words = torch.tensor([*map(len, sentences)], device=self.device)
                continuations = ConstrainedContinuations(
                    continuations, self.trees, words, longest, MAX_OPEN
                )
            found = beam_search(continuations, longest, SYMBOLS, self.options)
        return [
            [self.target.types[token] for token in hypotheses[0].tokens[:-1].tolist()]
            for hypotheses in found
        ]


def tree_symbols(types: Sequence[str], end: int) -> TreeSymbols:
    """Return the role of each token of a target vocabulary in a tree; raises ValueError if the
    vocabulary can write no tree."""
    try:
        return classify_tokens([*map(split_symbol, types)], end)
    except ValueError as error:
        raise ValueError(
            f"constrained search: the target dictionary writes no trees, {error}"
        ) from None


def parser_folder(path: Path) -> Model:
    """Read the folder of a parser; raises as `read_folder` does, and ValueError for a model that
    translates."""
    model = read_folder(path)
    if model.config.task != "parsing":
        raise ValueError(f"{path}: must be a parser, is a model for {model.config.task}")
    return model


def parser_checkpoint(checkpoint: Path, data: Path) -> Model:
    """Read a checkpoint, and the dictionaries and word pieces of the data that it was trained on.

    Raises OSError or ValueError as `of_checkpoint` does.
    """
    from fairseq_aiayn.model_folder.export import model_of, of_checkpoint  # needs omegaconf

    text = TextProcessing(WORD_PIECES)
    return model_of(of_checkpoint(checkpoint, data, text, data / PIECES_FILES[WORD_PIECES]))
