"""Section 5.1: sentence pairs are batched together by approximate length."""

from __future__ import annotations

import numpy as np
from fairseq.data import BaseWrapperDataset


class PairsByLength(BaseWrapperDataset):
    """Training pairs in the order of `by_length`; pairs with equal lengths keep fairseq's random
    order.

    fairseq sorts by source length, then by target length. With that order, up to half of the target
    positions can be padding in a batch of usual sentences that spans two source lengths.
    """

    def ordered_indices(self) -> np.ndarray:
        """Return the numbers of all pairs, in the order in which batches are formed."""
        pairs = self.dataset.ordered_indices()
        return pairs[by_length(self.dataset.src_sizes[pairs], self.dataset.tgt_sizes[pairs])]


def by_length(source_lengths: np.ndarray, target_lengths: np.ndarray) -> np.ndarray:
    """Return an order of the pairs in which neighbours have similar lengths on both sides.

    The first key is the length of the longer side, which --max-tokens counts. The second key is the
    source length minus the target length. It ascends for even lengths of the longer side and
    descends for odd ones, so that the last pairs of one length resemble the first of the next. The
    sort is stable.
    """
    longer = np.maximum(source_lengths, target_lengths)
    surplus = source_lengths - target_lengths
    return np.lexsort((np.where(longer % 2 == 0, surplus, -surplus), longer))
