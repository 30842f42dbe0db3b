"""Section 5.1: sentence pairs batched together by approximate length."""

from __future__ import annotations

import numpy as np
from fairseq.data import BaseWrapperDataset


class PairsByLength(BaseWrapperDataset):
    """Training pairs in the order of `by_length`; pairs alike stay in fairseq's random order.

    fairseq sorts by source length, then target length: half of its target positions beside a
    sentence of usual length can be padding where a batch goes on from one source length to the
    next.
    """

    def ordered_indices(self) -> np.ndarray:
        """Every pair's number, in the order in which batches are cut."""
        pairs = self.dataset.ordered_indices()
        return pairs[by_length(self.dataset.src_sizes[pairs], self.dataset.tgt_sizes[pairs])]


def by_length(source_lengths: np.ndarray, target_lengths: np.ndarray) -> np.ndarray:
    """Order pairs so that neighbours are of nearly one length on both sides.

    First comes the longer side, which is what --max-tokens counts; pairs whose longer sides are
    alike follow by how much longer the source is, up for even lengths and down for odd ones, so
    that the last of one length resemble the first of the next. Stable.
    """
    longer = np.maximum(source_lengths, target_lengths)
    surplus = source_lengths - target_lengths
    return np.lexsort((np.where(longer % 2 == 0, surplus, -surplus), longer))
