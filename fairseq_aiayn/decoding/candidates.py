"""Select the best tokens that may come next from log P of the whole vocabulary.

Shape letters as in beam_search; also r open hypotheses per sentence (1 before the first token, k
afterwards), R = B·r rows and m candidates per row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

BLOCK = 64  # tokens per block; the first pass computes only the maximum of each block


@dataclass(frozen=True)
class Symbols:
    """The tokens with a meaning for the search; as in fairseq, `end` also precedes the first
    token."""

    end: int
    padding: int


@dataclass(frozen=True)
class AllowedTokens:
    """The tokens that a step may write: all but padding and, if `end_forbidden`, the end token.

    forced [B] is the only token that a sentence may write: a token of its prefix, or the end token
    at the maximum length. A sentence whose entry is padding is free; None means that all are.
    """

    symbols: Symbols
    end_forbidden: bool
    forced: Tensor | None

    def mask(self, log_p: Tensor, rows: slice, r: int) -> None:
        """Set log_p [rows, V] of these rows to −∞, in place, for tokens that are not allowed.

        A forced end token is allowed even if `end_forbidden`. So log P of the forced tokens is read
        before the masking and restored at the end.
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
    """Return the m best allowed tokens of every row: log P [R, m], token [R, m].

    parts: log P(next token) of all rows in order, in parts of some rows [rows, V], which are
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
    """Return log_p.topk(m): values and tokens, both [rows, m], of log_p [rows, V].

    If the vocabulary has fewer than m tokens, the missing places have −∞ and token 0.

    Selecting from a whole vocabulary is slow, but computing maxima is fast. So the vocabulary is
    cut into blocks, and the m blocks with the largest maxima hold the m largest values. For
    example, with blocks of 3 and m = 2, the row −1 −9 −8 | −4 −2 −3 | −7 −6 −5 | −9 is searched
    only in the first two blocks, whose maxima are −1 and −2, and in the rest, which fills no block.
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
