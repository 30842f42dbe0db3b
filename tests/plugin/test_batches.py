"""Sentence pairs batched by length: every pair occurs once, and there is little padding."""

import multiprocessing
import threading

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.data.iterators import BackgroundConsumer
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE

from fairseq_aiayn.plugin.translation import (
    AiaynTranslationConfig,
    AiaynTranslationTask,
    PairsByLength,
    by_length,
)

LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40)


def pairs_like_translations(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of sentences and their translations: 14 ± 5 tokens, and 0.8 to 1.5 times as many."""
    random = np.random.RandomState(0)
    source = np.clip(random.normal(14, 5, n), 3, 40).astype(np.int64)
    return source, np.maximum(2, source * random.uniform(0.8, 1.5, n)).astype(np.int64)


def dataset(source: np.ndarray, target: np.ndarray) -> LanguagePairDataset:
    """Sentence pairs of these lengths."""
    dictionary = Dictionary()
    sides = ([torch.full((n,), 3) for n in side.tolist()] for side in (source, target))
    texts = [(tokens, lengths) for tokens, lengths in zip(sides, (source, target), strict=True)]
    (ours, s), (theirs, t) = texts
    return LanguagePairDataset(ours, s, dictionary, theirs, t, dictionary)


def padding(pairs: LanguagePairDataset | PairsByLength, max_tokens: int = 512) -> float:
    """The share of padding in the positions of all batches, on both sides."""
    lengths = getattr(pairs, "dataset", pairs)
    real = filled = 0
    for batch in pairs.batch_by_size(pairs.ordered_indices(), max_tokens=max_tokens):
        for sizes in (lengths.src_sizes[batch], lengths.tgt_sizes[batch]):
            real, filled = real + sizes.sum(), filled + sizes.max() * len(sizes)
    return 1 - real / filled


@given(LENGTHS)
def test_neighbours_are_alike_and_nothing_is_lost(lengths: list[tuple[int, int]]) -> None:
    """Breaks if a pair is left out, the first key is not the longer side, the other side does not
    alternately ascend and descend, or pairs alike lose their order, which is random in an epoch."""
    source, target = np.array(lengths).T
    order = by_length(source, target)
    assert sorted(order.tolist()) == list(range(len(lengths)))
    longer, surplus = np.maximum(source, target)[order], (source - target)[order]
    assert (np.diff(longer) >= 0).all()
    for length in set(longer.tolist()):
        steps = np.diff(surplus[longer == length])
        assert (steps >= 0).all() if length % 2 == 0 else (steps <= 0).all()
        assert (np.diff(order[longer == length])[steps == 0] > 0).all()


def test_padding_is_under_three_per_cent_and_below_fairseqs() -> None:
    """The purpose of the order."""
    pairs = dataset(*pairs_like_translations(6_000))
    ours, stock = padding(PairsByLength(pairs)), padding(pairs)
    assert ours < 0.03 < stock


def test_workers_end_with_their_epoch() -> None:
    """Breaks if they wait for another epoch of their iterator, which has only one: then a training
    has more of them after each epoch."""
    task = AiaynTranslationTask(AiaynTranslationConfig(), Dictionary(), Dictionary())
    pairs = dataset(*pairs_like_translations(9))
    epoch = task.get_batch_iterator(pairs, max_tokens=64, num_workers=1, data_buffer_size=2)
    assert sum(batch["nsentences"] for batch in epoch.next_epoch_itr()) == 9
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            thread.join(PATIENCE)
    assert not multiprocessing.active_children()
