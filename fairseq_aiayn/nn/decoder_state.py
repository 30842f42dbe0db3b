"""What the decoder remembers between two steps: one explicit object, passed in and reordered."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class LayerState:
    """Keys and values of one decoder layer, already projected.

    memory_K [B, h, S, d_k] and memory_V [B, h, S, d_v] belong to a sentence and are shared by its k
    beams; self_K [B·k, h, t, d_k] and self_V [B·k, h, t, d_v] belong to a beam and grow each step.
    """

    memory_K: Tensor
    memory_V: Tensor
    self_K: Tensor | None = None
    self_V: Tensor | None = None

    def extend(self, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """Append K [B·k, h, 1, d_k], V [B·k, h, 1, d_v] of the newest position; return all."""
        self.self_K = K if self.self_K is None else torch.cat([self.self_K, K], dim=2)
        self.self_V = V if self.self_V is None else torch.cat([self.self_V, V], dim=2)
        return self.self_K, self.self_V

    def reorder_beams(self, beams: Tensor) -> None:
        """Let row i continue what row beams[i] has seen; beams [B'·k]."""
        if self.self_K is not None:
            self.self_K = self.self_K.index_select(0, beams)
            self.self_V = self.self_V.index_select(0, beams)

    def keep_sentences(self, sentences: Tensor) -> None:
        """Keep the memory of these sentences [B'], in this order."""
        self.memory_K = self.memory_K.index_select(0, sentences)
        self.memory_V = self.memory_V.index_select(0, sentences)


@dataclass
class DecoderState:
    """The state of all layers, and the source's mask [B, 1, 1, S] that they share (True = real)."""

    layers: list[LayerState]
    source_mask: Tensor | None

    @property
    def length(self) -> int:
        """Number of target positions seen so far."""
        self_K = self.layers[0].self_K
        return 0 if self_K is None else self_K.size(2)

    def reorder_beams(self, beams: Tensor) -> None:
        """Let row i of every layer continue what row beams[i] has seen; beams [B'·k]."""
        for layer in self.layers:
            layer.reorder_beams(beams)

    def keep_sentences(self, sentences: Tensor) -> None:
        """Keep these sentences [B'] of the source side, in this order."""
        for layer in self.layers:
            layer.keep_sentences(sentences)
        if self.source_mask is not None:
            self.source_mask = self.source_mask.index_select(0, sentences)
