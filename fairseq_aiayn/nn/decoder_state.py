"""The decoder's state between two steps: one explicit object, which callers pass in and reorder.

The target positions that the beams of a sentence have seen are the nodes of a tree, and each node
is stored once. A beam attends to its ancestors. So when a beam continues another one, only the mask
changes, and no key or value is copied. Nodes without a descendant among the beams are removed from
time to time.

Shape letters as in fairseq_aiayn.nn; also k beams per sentence and n nodes per sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["DecoderState"]

STEPS_OF_ROOM = 8  # steps between two removals of unseen nodes; a removal copies all other nodes


@dataclass
class LayerState:
    """The projected keys and values of one decoder layer.

    memory_K [B, h, S, d_k] and memory_V [B, h, S, d_v] belong to the source; self_K [B, h,
    capacity, d_k] and self_V [B, h, capacity, d_v] belong to the nodes; capacity is 0 before the
    first step.
    """

    memory_K: Tensor
    memory_V: Tensor
    self_K: Tensor
    self_V: Tensor

    def extend(self, K: Tensor, V: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Store K [B, h, k, d_k] and V [B, h, k, d_v] of the newest nodes; return the keys
        [B, h, n, d_k] and values [B, h, n, d_v] of all n nodes, the newest last."""
        if self.self_K.size(2) == 0:
            self.self_K, self.self_V = with_room(K), with_room(V)
        newest = slice(n - K.size(2), n)
        self.self_K[:, :, newest], self.self_V[:, :, newest] = K, V
        return self.self_K[:, :, :n], self.self_V[:, :, :n]

    def keep_nodes(self, sentences: Tensor, nodes: Tensor) -> None:
        """Keep only these nodes [B', n] of these sentences [B']."""
        self.self_K = pick_nodes(self.self_K, sentences, nodes)
        self.self_V = pick_nodes(self.self_V, sentences, nodes)

    def keep_sources(self, sentences: Tensor) -> None:
        """Keep only the memory of these sentences [B'], in this order."""
        self.memory_K = self.memory_K.index_select(0, sentences)
        self.memory_V = self.memory_V.index_select(0, sentences)


@dataclass
class DecoderState:
    """The state of all layers, and what they share.

    barred_source [B, 1, 1, S], 0 at real tokens and −∞ at padding, None without padding; ancestors
    [B, 1, k, n], True if the beam attends to the node, without nodes before the first step; length:
    number of target positions seen so far.
    """

    layers: list[LayerState]
    barred_source: Tensor | None
    ancestors: Tensor
    length: int = 0

    def grow(self, k: int) -> Tensor:
        """Add a position, which is one node per beam of each sentence; return the new
        `ancestors`."""
        B, device = self.layers[0].memory_K.size(0), self.ancestors.device
        if self.length > 0 and self.ancestors.size(3) + k > self.capacity:
            self._drop_unseen_nodes(torch.arange(B, device=device))
        own = torch.eye(k, dtype=torch.bool, device=device).expand(B, 1, k, k)
        self.ancestors = own if self.length == 0 else torch.cat([self.ancestors, own], dim=3)
        self.length += 1
        return self.ancestors

    @property
    def capacity(self) -> int:
        """Number of nodes for which there is room."""
        return self.layers[0].self_K.size(2)

    def follow(self, parents: Tensor) -> None:
        """Make beam j of sentence b a continuation of beam parents[b, j] of the same sentence.

        parents [B, k], where k may differ from the previous number of beams.
        """
        n = self.ancestors.size(3)
        self.ancestors = self.ancestors.gather(2, parents[:, None, :, None].expand(-1, -1, -1, n))

    def reorder_beams(self, beams: Tensor) -> None:
        """Make row i a continuation of row beams[i]; beams [B'·k], the k beams of each sentence
        next to one another.

        Reorders only the target side. Unlike `follow`, it may drop, repeat and reorder sentences.
        """
        if self.length == 0:
            return
        k = self.ancestors.size(2)
        sentences = beams.view(-1, k)[:, 0].div(k, rounding_mode="floor")
        rows = self.ancestors.flatten(0, 2).index_select(0, beams)
        self.ancestors = rows.view(sentences.numel(), 1, k, -1)
        self._drop_unseen_nodes(sentences)

    def keep_sources(self, sentences: Tensor) -> None:
        """Keep only these sentences [B'] on the source side, in this order."""
        for layer in self.layers:
            layer.keep_sources(sentences)
        if self.barred_source is not None:
            self.barred_source = self.barred_source.index_select(0, sentences)

    def _drop_unseen_nodes(self, sentences: Tensor) -> None:
        """Keep only nodes that some beam has seen, and only the keys and values of `sentences`
        [B'], whose `ancestors` are already in place.

        With two beams whose ancestors are 1 0 1 0 0 and 1 0 0 0 1, the nodes 0, 2 and 4 are kept,
        in this order, and the ancestors become 1 1 0 and 1 0 1. A sentence with fewer such nodes
        than another one also keeps some unseen nodes, which stay masked.
        """
        seen = self.ancestors.any(dim=2).squeeze(1)  # [B', n]
        n = int(seen.sum(dim=1).max())
        nodes = seen.byte().sort(dim=1, descending=True, stable=True).indices[:, :n]
        k = self.ancestors.size(2)
        self.ancestors = self.ancestors.gather(3, nodes[:, None, None, :].expand(-1, -1, k, -1))
        nodes = pad(nodes, (0, STEPS_OF_ROOM * k))  # room, which holds copies of node 0 for now
        for layer in self.layers:
            layer.keep_nodes(sentences, nodes)


def with_room(newest: Tensor) -> Tensor:
    """Return an uninitialized tensor with room for more nodes like the first k: [B, h, k, d] →
    [B, h, capacity, d]."""
    B, h, k, d = newest.shape
    return newest.new_empty(B, h, STEPS_OF_ROOM * k, d)


def pick_nodes(values: Tensor, sentences: Tensor, nodes: Tensor) -> Tensor:
    """Select nodes [B', n] of sentences [B'] from values [B, h, capacity, d] → [B', h, n, d]."""
    h, capacity = values.shape[1:3]
    heads = torch.arange(h, device=values.device)
    first = (sentences[:, None] * h + heads) * capacity  # [B', h]
    rows = first[:, :, None] + nodes[:, None, :]
    return values.flatten(0, 2).index_select(0, rows.flatten()).view(*rows.shape, -1)
