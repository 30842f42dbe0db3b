"""What other software stores with fixed sizes: heads of one width, positions as a table."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import pad

from fairseq_aiayn.model_folder.config import Config
from fairseq_aiayn.model_folder.search import LONGEST
from fairseq_aiayn.nn.positions import LearnedPositions, sinusoids


def wider_heads(rows: Tensor, h: int, size: int) -> Tensor:
    """rows [h·d, d_model] → [h·size, d_model], with zeros after the d rows of each head."""
    heads = rows.unflatten(0, (h, -1))
    return pad(heads, (0, 0, 0, size - heads.size(1))).flatten(0, 1)


def longest_sequence(config: Config) -> int:
    """Return how many positions a table of sinusoids gets: those of the longest source that we
    translate, of what an output may be longer, and of the end token."""
    return LONGEST + config.search.extra_length + 1


def position_table(position: nn.Module, config: Config) -> Tensor:
    """Return the encoding of each position [L, d_model]; learned ones have their own length."""
    if isinstance(position, LearnedPositions):
        return position.weight
    return sinusoids(longest_sequence(config), config.sizes.d_model)
