"""Decoding with one model or with several, whose probabilities are averaged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.training.projected_loss import rows_of_logits

# Logits per part: as many as fit into the cache of a CPU, or enough rows to keep a GPU busy.
LOGITS = {"cpu": 2**21, "cuda": 2**27}


class EnsembleContinuations:
    """Models and their decoding states; P is the mean of their probabilities, as in fairseq."""

    def __init__(self, models: Sequence[Transformer], source: Tensor):
        """source [B, S], padded on either side; all models read the same tokens."""
        self.decoders = [model.decoder for model in models]
        self.states = [model.decoder.start(*model.encode(source)) for model in models]

    def log_probabilities(self, tokens: Tensor) -> Iterator[Tensor]:
        """tokens [R, 1] → log P(next token) of all rows in order, in parts [rows, V]; float32,
        whatever the type of the models."""
        features = [
            decoder.step(tokens, state)[:, 0]
            for decoder, state in zip(self.decoders, self.states, strict=True)
        ]
        rows = rows_of_logits(LOGITS, self.decoders[0].projection.weight)
        for part in zip(*(x.split(rows) for x in features), strict=True):
            yield self._mean(part)

    def _mean(self, features: Sequence[Tensor]) -> Tensor:
        """Return log P [rows, V] from the features [rows, d_model] of every model."""
        log_p = [
            decoder.projection.project(x).log_softmax(dim=-1, dtype=torch.float32)
            for decoder, x in zip(self.decoders, features, strict=True)
        ]
        if len(log_p) == 1:
            return log_p[0]
        return torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p))

    def follow(self, parents: Tensor) -> None:
        """In every model, make beam j of sentence b a continuation of its beam parents[b, j];
        parents [B, k]."""
        for state in self.states:
            state.follow(parents)

    def keep_sentences(self, sentences: Tensor) -> None:
        """Keep only these sentences [B']."""
        for state in self.states:
            state.keep_sources(sentences)
            k = state.ancestors.size(2)
            beams = torch.arange(k, device=sentences.device)
            state.reorder_beams((sentences[:, None] * k + beams).flatten())
