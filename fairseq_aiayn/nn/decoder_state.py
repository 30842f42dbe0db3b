"""What the decoder remembers between two steps: one explicit object, passed in and reordered.

The target positions that the beams of a sentence have seen are the nodes of one tree, each kept
once. A beam attends to its ancestors, so that when a beam goes on from another only the mask
changes: no key or value is copied. Nodes that no beam descends from are thrown out now and then.

Shape letters as in fairseq_aiayn.nn, and: k beams per sentence, n nodes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

STEPS_OF_ROOM = 8  # for nodes, before unseen ones are dropped, which copies the others


@dataclass
class LayerState:
    """Keys and values of one decoder layer, already projected.

    memory_K [B, h, S, d_k] and memory_V [B, h, S, d_v] are those of the source; self_K [B, h,
    capacity, d_k] and self_V [B, h, capacity, d_v], None before the first step, those of the nodes.
    """

    memory_K: Tensor
    memory_V: Tensor
    self_K: Tensor | None = None
    self_V: Tensor | None = None

    def extend(self, K: Tensor, V: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Put K [B, h, k, d_k], V [B, h, k, d_v] of the newest nodes last; return those of all n
        nodes."""
        if self.self_K is None:
            self.self_K, self.self_V = with_room(K), with_room(V)
        newest = slice(n - K.size(2), n)
        self.self_K[:, :, newest], self.self_V[:, :, newest] = K, V
        return self.self_K[:, :, :n], self.self_V[:, :, :n]

    def keep_nodes(self, sentences: Tensor, nodes: Tensor) -> None:
        """Keep these nodes [B', n] of sentences [B']."""
        self.self_K = pick_nodes(self.self_K, sentences, nodes)
        self.self_V = pick_nodes(self.self_V, sentences, nodes)

    def keep_sources(self, sentences: Tensor) -> None:
        """Keep the memory of these sentences [B'], in this order."""
        self.memory_K = self.memory_K.index_select(0, sentences)
        self.memory_V = self.memory_V.index_select(0, sentences)


@dataclass
class DecoderState:
    """The state of all layers, and what they share.

    source_mask [B, 1, 1, S], True = real; ancestors [B, 1, k, n], True where the beam has seen the
    node, None before the first step; length: number of target positions seen so far.
    """

    layers: list[LayerState]
    source_mask: Tensor | None
    ancestors: Tensor | None = None
    length: int = 0

    def grow(self, k: int) -> Tensor:
        """Add a position, a node for each of k beams of a sentence; return the new `ancestors`."""
        if self.ancestors is not None and self.ancestors.size(3) + k > self.capacity:
            everyone = torch.arange(self.ancestors.size(0), device=self.ancestors.device)
            self._drop_unseen_nodes(everyone)
        own = torch.eye(k, dtype=torch.bool, device=self.layers[0].memory_K.device)
        own = own.expand(self.layers[0].memory_K.size(0), 1, k, k)
        self.ancestors = own if self.length == 0 else torch.cat([self.ancestors, own], dim=3)
        self.length += 1
        return self.ancestors

    @property
    def capacity(self) -> int:
        """Number of nodes that there is room for."""
        return self.layers[0].self_K.size(2)

    def follow(self, parents: Tensor) -> None:
        """Let beam j of sentence b continue what its beam parents[b, j] has seen; [B, k], where k
        may be another number than before."""
        n = self.ancestors.size(3)
        places = parents[:, None, :, None].expand(-1, -1, -1, n)
        self.ancestors = self.ancestors.gather(2, places)

    def reorder_beams(self, beams: Tensor) -> None:
        """Let row i continue what row beams[i] has seen; beams [B'·k], k of one sentence together.

        The target side alone; unlike `follow` it may drop, repeat and reorder sentences.
        """
        if self.ancestors is None:
            return
        k = self.ancestors.size(2)
        sentences = beams.view(-1, k)[:, 0].div(k, rounding_mode="floor")
        rows = self.ancestors.flatten(0, 2).index_select(0, beams)
        self.ancestors = rows.view(sentences.numel(), 1, k, -1)
        self._drop_unseen_nodes(sentences)

    def keep_sources(self, sentences: Tensor) -> None:
        """Keep these sentences [B'] of the source side, in this order."""
        for layer in self.layers:
            layer.keep_sources(sentences)
        if self.source_mask is not None:
            self.source_mask = self.source_mask.index_select(0, sentences)

    def _drop_unseen_nodes(self, sentences: Tensor) -> None:
        """Keep only nodes that some beam has seen, and of the keys and values those of `sentences`
        [B'], whose `ancestors` are in place already.

        With two beams whose ancestors are 1 0 1 0 0 and 1 0 0 0 1, the nodes 0, 2 and 4 are kept,
        in this order, and the ancestors become 1 1 0 and 1 0 1. A sentence with fewer such nodes
        than another keeps some that no beam has seen, which stay masked.
        """
        seen = self.ancestors.any(dim=2).squeeze(1)  # [B', n]
        n = int(seen.sum(dim=1).max())
        nodes = seen.byte().sort(dim=1, descending=True, stable=True).indices[:, :n]
        k = self.ancestors.size(2)
        self.ancestors = self.ancestors.gather(3, nodes[:, None, None, :].expand(-1, -1, k, -1))
        nodes = pad(nodes, (0, STEPS_OF_ROOM * k))  # room, with some node until it is written
        for layer in self.layers:
            layer.keep_nodes(sentences, nodes)


def with_room(newest: Tensor) -> Tensor:
    """Room for nodes like the first k, [B, h, k, d] → [B, h, capacity, d], not yet written."""
    B, h, k, d = newest.shape
    return newest.new_empty(B, h, STEPS_OF_ROOM * k, d)


def pick_nodes(values: Tensor, sentences: Tensor, nodes: Tensor) -> Tensor:
    """values [B, h, capacity, d] at nodes [B', n] of sentences [B'] → [B', h, n, d]."""
    h, capacity = values.shape[1:3]
    heads = torch.arange(h, device=values.device)
    first = (sentences[:, None] * h + heads) * capacity  # [B', h]
    places = first[:, :, None] + nodes[:, None, :]
    picked = values.flatten(0, 2).index_select(0, places.flatten())
    return picked.view(*places.shape, -1)
