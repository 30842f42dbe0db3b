"""Which tokens may come next, and the few best of them, taken from log P of the whole vocabulary.

Shape letters as in beam_search, and: r open hypotheses a sentence (1 before the first token, then
k), R = B·r rows, m candidates of a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

BLOCK = 64  # tokens of which only the largest is looked at first


@dataclass(frozen=True)
class Symbols:
    """Tokens with a meaning for the search; `end`, as in fairseq, also stands before the first."""

    end: int
    padding: int


@dataclass(frozen=True)
class Restriction:
    """What a step may not write: padding, an early end, and all but `forced` [B], where that is
    not padding: a prefix's token, or the end of a longest output. No sentence's is None."""

    symbols: Symbols
    end_forbidden: bool
    forced: Tensor | None

    def apply(self, log_p: Tensor, rows: slice, r: int) -> None:
        """Put −∞, in place, where log_p [rows, V] of these rows is forbidden."""
        padding, end = self.symbols.padding, self.symbols.end
        log_p[:, padding] = -math.inf
        if self.forced is None:
            if self.end_forbidden:
                log_p[:, end] = -math.inf
            return
        forced = self.forced.repeat_interleave(r)[rows].unsqueeze(1)
        wanted = log_p.gather(1, forced)
        if self.end_forbidden:
            log_p[:, end] = -math.inf
        log_p.masked_fill_(forced.ne(padding), -math.inf).scatter_(1, forced, wanted)


def best_tokens(
    parts: Iterable[Tensor], restriction: Restriction, m: int, r: int
) -> tuple[Tensor, Tensor]:
    """The m best tokens of every row that the restriction leaves: log P [R, m], token [R, m].

    parts: log P(next token) of all rows in order, some rows [rows, V] at a time, which is
    overwritten.
    """
    values, tokens, start = [], [], 0
    for log_p in parts:
        rows = slice(start, start + log_p.size(0))
        restriction.apply(log_p, rows, r)
        value, token = largest(log_p, m)
        values.append(value)
        tokens.append(token)
        start = rows.stop
    return torch.cat(values), torch.cat(tokens)


def largest(log_p: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """log_p.topk(m), with −∞ and token 0 for what a vocabulary of fewer than m tokens lacks.

    The m largest are in those blocks of tokens that have the m largest maxima: finding these first
    saves a selection among the whole vocabulary.
    """
    V = log_p.size(1)
    if V < m:
        value, token = log_p.topk(V)
        return pad(value, (0, m - V), value=-math.inf), pad(token, (0, m - V))
    if V < 4 * m * BLOCK:
        return log_p.topk(m)
    blocks = V // BLOCK
    whole = log_p[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    chosen = whole.amax(dim=2).topk(m, sorted=False).indices
    offsets = torch.arange(BLOCK, device=log_p.device)
    places = (chosen.unsqueeze(2) * BLOCK + offsets).flatten(1)
    rest = torch.arange(blocks * BLOCK, V, device=log_p.device).expand(log_p.size(0), -1)
    places = torch.cat([places, rest], dim=1)
    value, place = log_p.gather(1, places).topk(m)
    return value, places.gather(1, place)
