"""Which tokens may come next, and the few best of them, taken from log P of the whole vocabulary.

Shape letters as in beam_search, and: r open hypotheses per sentence (1 before the first token, then
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
class AllowedTokens:
    """The tokens that a step may write: all but padding and, where `end_forbidden`, the end.

    forced [B] leaves a sentence one token alone: a prefix's, or the end of a longest output. Where
    it is padding, the sentence is free; None if all are.
    """

    symbols: Symbols
    end_forbidden: bool
    forced: Tensor | None

    def mask(self, log_p: Tensor, rows: slice, r: int) -> None:
        """Put −∞, in place, where log_p [rows, V] of these rows is not allowed.

        A forced token is allowed even if it is the end and `end_forbidden`: its log P is taken
        before anything is masked, and put back last.
        """
        forced = None
        if self.forced is not None:
            forced = self.forced.repeat_interleave(r)[rows].unsqueeze(1)  # [rows, 1]
            forced_log_p = log_p.gather(1, forced)
        log_p[:, self.symbols.padding] = -math.inf
        if self.end_forbidden:
            log_p[:, self.symbols.end] = -math.inf
        if forced is not None:
            is_forced = forced.ne(self.symbols.padding)
            forced_log_p.masked_fill_(~is_forced, -math.inf)  # padding itself stays forbidden
            log_p.masked_fill_(is_forced, -math.inf).scatter_(1, forced, forced_log_p)


def best_tokens(
    parts: Iterable[Tensor], allowed: AllowedTokens, m: int, r: int
) -> tuple[Tensor, Tensor]:
    """The m best tokens of every row that are allowed: log P [R, m], token [R, m].

    parts: log P(next token) of all rows in order, some rows [rows, V] at a time, which is
    overwritten.
    """
    values, tokens, start = [], [], 0
    for log_p in parts:
        rows = slice(start, start + log_p.size(0))
        allowed.mask(log_p, rows, r)
        value, token = top_tokens(log_p, m)
        values.append(value)
        tokens.append(token)
        start = rows.stop
    return torch.cat(values), torch.cat(tokens)


def top_tokens(log_p: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """log_p.topk(m), with −∞ and token 0 for what a vocabulary of fewer than m tokens lacks.

    Selecting among a whole vocabulary is slow, taking maxima is not. So the vocabulary is cut into
    blocks, and the m blocks with the largest maxima hold the m largest values. With blocks of 3
    and m = 2, of −1 −9 −8 | −4 −2 −3 | −7 −6 −5 | −9 only the first two blocks, whose maxima are
    −1 and −2, and the rest that fills no block are looked at.
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
