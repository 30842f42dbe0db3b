"""The longest output of a search, by the length of its source (section 6.1)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fairseq_aiayn.decoding.candidates import Symbols

# Limits of a and b. Without them, a model that never ends its output could take far too many steps.
LONGEST_OUTPUT = (100, 100_000)


@dataclass(frozen=True)
class MaximumLength:
    """The limit ⌊a·n + b⌋ of the output length for a source of n tokens; neither length counts the
    end-of-sentence token. Raises ValueError for a or b out of range."""

    a: float
    b: int

    def __post_init__(self) -> None:
        largest_a, largest_b = LONGEST_OUTPUT
        if not 0 <= self.a <= largest_a:
            raise ValueError(f"max_len_a must be a number from 0 to {largest_a}, got {self.a}")
        if self.b > largest_b:
            raise ValueError(f"max_len_b must be at most {largest_b:,}, got {self.b:,}")

    def of(self, source: Tensor, symbols: Symbols) -> Tensor:
        """Return the limit of each sentence [B], which depends on its own length only; source
        [B, S] has these `symbols` as end and padding."""
        real = source.ne(symbols.padding) & source.ne(symbols.end)
        # Not on the device: in float32, 1.05 · 60 is less than 63.
        return source.new_tensor([int(self.a * n + self.b) for n in real.sum(dim=1).tolist()])
