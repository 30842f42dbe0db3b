"""Translate, score and look into plain text with a model folder, without fairseq.

Shape letters as in fairseq_aiayn.nn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import SearchOptions, beam_search
from fairseq_aiayn.decoding.ensemble import EnsembleContinuations
from fairseq_aiayn.decoding.hypotheses import Hypothesis
from fairseq_aiayn.inspection.attention_weights import all_attention_weights
from fairseq_aiayn.model_folder.folder import Model, read_folder
from fairseq_aiayn.model_folder.search import (
    SYMBOLS,
    batches,
    find_device,
    find_product_type,
    in_pieces,
    longest_outputs,
    longest_sentence,
    padded,
    parts,
    search_options,
)
from fairseq_aiayn.model_folder.vocabulary import END, PADDING
from fairseq_aiayn.nn.precision import products_in

BATCH_TOKENS = 4_096  # source tokens per batch, with padding
AT_ONCE = 2_000  # sentences that a stream sorts by length


@dataclass(frozen=True)
class Translation:
    """One output of the search for a sentence."""

    text: str
    score: float  # log P divided by the length penalty (section 6.1), in nats
    log_p: float  # log P of the pieces and of the end token, in nats
    pieces: tuple[str, ...]


class Translator:
    """A trained model with its vocabularies and text processing: text in, text out."""

    def __init__(
        self,
        model: Model,
        device: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        precision: str = "float32",
    ):
        """`precision` is that of the search's matrix products, float32 or bfloat16.

        Raises ValueError for another one, and for a device that PyTorch does not have.
        """
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
        self.config, self.source, self.target = model.config, model.source, model.target
        self.device, self.product_type = find_device(device), find_product_type(precision)
        self.transformer = model.transformer.to(self.device).eval()
        self.batch_tokens = batch_tokens
        text, file = model.config.text, model.pieces_file
        self.cut_source = text.cutter(model.config.source_lang, file)
        self.cut_target = text.cutter(model.config.target_lang, file)
        self.join = text.joiner(model.config.target_lang)

    def translate(
        self, sentences: Sequence[str], beam: int | None = None, alpha: float | None = None
    ) -> list[str]:
        """Return the best translation of each sentence; that of an empty sentence is empty.

        Beam and α are by default those of the model's task (section 6.1). Raises ValueError for a
        value out of range, and for a sentence of more than 1,024 tokens.
        """
        return [found[0].text for found in self.search(sentences, beam, alpha)]

    def search(
        self,
        sentences: Sequence[str],
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
    ) -> list[list[Translation]]:
        """Return up to `nbest` outputs of each sentence, best first; an empty sentence has one
        empty output, whose score is 0. Raises ValueError as `translate` does."""
        return self._search(
            self.tokens(sentences),
            search_options(self.config, len(self.target), beam, alpha, nbest),
        )

    def stream(
        self,
        sentences: Iterable[str],
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
        at_once: int = AT_ONCE,
    ) -> Iterator[list[Translation]]:
        """Yield what `search` returns, in the order of the sentences; `at_once` of them are sorted
        by length and searched together. Raises ValueError as `translate` does."""
        options = search_options(self.config, len(self.target), beam, alpha, nbest)
        for first, part in parts(sentences, at_once):
            yield from self._search(self.tokens(part, first), options)

    @torch.no_grad()
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Return log P(target | source) of each pair in nats, the end token included.

        Raises ValueError if the numbers of sentences differ, or for an empty one.
        """
        if len(sources) != len(targets):
            raise ValueError(
                f"there must be as many targets as sources, got {len(targets)} and {len(sources)}"
            )
        read, written = self.tokens(sources), self._numbers(targets, 1)
        for number, pair in enumerate(zip(read, written, strict=True), start=1):
            if not all(pair):
                raise ValueError(f"pair {number}: neither sentence may be empty")
        found = [0.0] * len(read)
        lengths = [max(map(len, pair)) for pair in zip(read, written, strict=True)]
        for places in batches(lengths, self.batch_tokens):
            source = padded([read[place] for place in places], self.device)
            target = padded([written[place] for place in places], self.device, is_source=False)
            for place, log_p in zip(places, self._log_p(source, target), strict=True):
                found[place] = log_p
        return found

    def attention(self, source: str, target: str | None = None) -> dict[str, Tensor]:
        """Return what every head attends to, for a pair of sentences or, without a target, the best
        translation: "encoder" [N, h, S, S], "decoder" [N, h, T, T] and "cross" [N, h, T, S].

        Raises ValueError for an empty sentence.
        """
        target = self.translate([source])[0] if target is None else target
        (read,), (written,) = self.tokens([source]), self._numbers([target], 1)
        if not read or not written:
            raise ValueError("attention is between words: neither sentence may be empty")
        shifted = [END, *written[:-1]]
        tokens = [torch.tensor(side, device=self.device) for side in (read, shifted)]
        return all_attention_weights(self.transformer, *tokens)

    @torch.no_grad()
    def encode(self, sentences: Sequence[str]) -> list[Tensor]:
        """Return the encoder's output for each sentence, [S, d_model]; the last row is the end
        token's, and an empty sentence has no row."""
        sources = self.tokens(sentences)
        found = [torch.empty(0, self.config.sizes.d_model, device=self.device)] * len(sources)
        for places in batches([*map(len, sources)], self.batch_tokens):
            batch = padded([sources[place] for place in places], self.device)
            memory, _ = self.transformer.encode(batch)
            for place, rows in zip(places, memory, strict=True):
                found[place] = rows[-len(sources[place]) :]
        return found

    def tokens(self, sentences: Sequence[str], first: int = 1) -> list[list[int]]:
        """Return the numbers of each sentence's pieces and of the end token; none of an empty
        sentence.

        Raises ValueError for a sentence of more than 1,024 tokens, or than learned positions have,
        with its number, counted from `first`.
        """
        return self._numbers(sentences, 0, first)

    def _numbers(self, sentences: Sequence[str], side: int, first: int = 1) -> list[list[int]]:
        """Do what `tokens` does, for sources (side 0) or targets (side 1)."""
        cut, vocabulary = ((self.cut_source, self.source), (self.cut_target, self.target))[side]
        found = in_pieces(sentences, cut, longest_sentence(self.config, side), first)
        return [vocabulary.numbers(pieces) if pieces else [] for pieces in found]

    @torch.no_grad()
    def _search(
        self, sources: Sequence[Sequence[int]], options: SearchOptions
    ) -> list[list[Translation]]:
        found = [[Translation("", 0.0, 0.0, ())]] * len(sources)
        for places in batches([*map(len, sources)], self.batch_tokens):
            batch = padded([sources[place] for place in places], self.device)
            longest = longest_outputs(self.config, batch)
            with products_in(self.product_type, self.device):
                continuations = EnsembleContinuations([self.transformer], batch)
                outputs = beam_search(continuations, longest, SYMBOLS, options)
            for place, hypotheses in zip(places, outputs, strict=True):
                found[place] = [self._translation(one) for one in hypotheses]
        return found

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        pieces = self.target.pieces(hypothesis.tokens.tolist())
        log_p = float(hypothesis.token_log_p.sum())
        return Translation(self.join(pieces), hypothesis.score, log_p, tuple(pieces))

    def _log_p(self, source: Tensor, target: Tensor) -> list[float]:
        """source [B, S] and target [B, T], padded on the right → log P of each target."""
        shifted = target.roll(1, dims=1)
        shifted[:, 0] = END
        decoder = self.transformer.decoder
        features = decoder(shifted, *self.transformer.encode(source))
        return [  # a sentence at a time: the logits of all would take V times the memory of tokens
            -F.cross_entropy(
                decoder.projection.project(x), y, ignore_index=PADDING, reduction="sum"
            ).item()
            for x, y in zip(features, target, strict=True)
        ]


def load(path: str | Path, device: str | None = None, precision: str = "float32") -> Translator:
    """Load a model folder that `aiayn export` wrote; raises as `read_folder` and `Translator`
    do."""
    return Translator(read_folder(Path(path)), device, precision=precision)
