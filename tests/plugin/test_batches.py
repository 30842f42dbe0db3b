"""Sentence pairs batched by length: every pair occurs once, or the log says why not."""

import logging
import multiprocessing
import threading

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.data.iterators import BackgroundConsumer
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import resolve_max_positions
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE

from fairseq_aiayn.plugin.translation import (
    AiaynTranslationConfig,
    AiaynTranslationTask,
    PairsByLength,
    by_length,
)

SOURCE = "--max-source-positions 30"
LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40)


def dataset(source: np.ndarray, target: np.ndarray) -> LanguagePairDataset:
    """Sentence pairs of these lengths."""
    dictionary = Dictionary()
    sides = ([torch.full((n,), 3) for n in side.tolist()] for side in (source, target))
    texts = [(tokens, lengths) for tokens, lengths in zip(sides, (source, target), strict=True)]
    (ours, s), (theirs, t) = texts
    return LanguagePairDataset(ours, s, dictionary, theirs, t, dictionary)


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


def test_pairs_of_equal_lengths_keep_fairseqs_order() -> None:
    """Which is random in an epoch. Breaks, too, if pairs keep fairseq's order by the source."""
    pairs = dataset(np.array([5, 9, 5, 4]), np.array([6, 2, 6, 7]))
    pairs.ordered_indices = lambda: np.array([2, 1, 0, 3])
    assert PairsByLength(pairs).ordered_indices().tolist() == [2, 0, 3, 1]


def test_workers_end_with_their_epoch() -> None:
    """Breaks if they wait for another epoch of their iterator, which has only one: then a training
    has more of them after each epoch."""
    task = AiaynTranslationTask(AiaynTranslationConfig(), Dictionary(), Dictionary())
    pairs = dataset(np.arange(3, 12), np.arange(3, 12))
    epoch = task.get_batch_iterator(pairs, max_tokens=64, num_workers=1, data_buffer_size=2)
    assert sum(batch["nsentences"] for batch in epoch.next_epoch_itr()) == 9
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            thread.join(PATIENCE)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("task", [TranslationTask, AiaynTranslationTask])
@pytest.mark.parametrize(
    ("limits", "reasons"),
    [
        ({"max_tokens": 20}, ["--max-tokens 20 (2, of up to 40 tokens)"]),
        (
            {"max_tokens": 30, "max_source_positions": 30, "max_target_positions": 9},
            [f"{name} (1, of up to 40 tokens)" for name in (SOURCE, "--max-tokens 30")]
            + ["--max-target-positions 9 (2, of up to 25 tokens)"],
        ),
        ({"model": 10}, ["the model's 10 positions (3, of up to 40 tokens)"]),
        ({"multiple": 3}, ["--required-batch-size-multiple 3 (1, of up to 40 tokens)"]),
        ({"max_tokens": 40, "max_target_positions": 25}, []),
    ],
)
def test_pairs_in_no_batch_are_in_the_log_once_with_the_options_that_caused_it(
    task: type[TranslationTask], limits: dict[str, int], reasons: list[str], caplog
) -> None:
    """Breaks if an option is named whose change would change nothing."""
    caplog.set_level(logging.INFO)
    pairs = dataset(np.array([8, 15, 22, 40]), np.array([9, 12, 25, 7]))
    positions = {name: n for name, n in limits.items() if name.endswith("positions")}
    config = AiaynTranslationConfig if task is AiaynTranslationTask else TranslationConfig
    loaded = task(config(train_subset="train", **positions), Dictionary(), Dictionary())
    loaded.datasets["train"] = pairs
    model, tokens = limits.get("model"), limits.get("max_tokens")
    for epoch in (1, 2):
        loaded.get_batch_iterator(
            pairs,
            max_tokens=tokens,
            max_sentences=4,
            max_positions=resolve_max_positions(loaded.max_positions(), model, tokens),
            ignore_invalid_inputs=True,
            required_batch_size_multiple=limits.get("multiple", 1),
            epoch=epoch,
        )
    lines = [line for line in caplog.messages if "left out" in line]
    assert len(lines) == bool(reasons)
    for line in lines:
        said, _, given = line.partition(" are left out by ")
        assert said.startswith("train: ") and said.endswith(" of 4 pairs")
        assert sorted(given.split("; ")) == sorted(reasons)


def test_a_set_without_pairs_that_are_left_is_refused() -> None:
    task = TranslationTask(TranslationConfig(max_source_positions=9), Dictionary(), Dictionary())
    pairs = task.datasets["test"] = dataset(np.array([8, 40]), np.array([9, 7]))
    with pytest.raises(ValueError, match="2 of 2 pairs are left out by"):
        task.get_batch_iterator(pairs, max_positions=(5, 5), ignore_invalid_inputs=True)
