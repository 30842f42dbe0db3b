"""Where a resumed training goes on: in the epoch, and in its patience."""

from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from fairseq.data.iterators import CountingIterator
from fairseq_cli.train import should_stop_early as fairseqs_should_stop_early
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.repairs.place import Epochs, Groups

PATIENCE = 3


@pytest.fixture(autouse=True)
def nothing_is_counted():
    yield
    vars(fairseqs_should_stop_early).clear()


def iterators(processes: int, batches: int, **options: object) -> list[Epochs]:
    """The iterators of all processes over batches of one sentence."""
    sentences = torch.utils.data.TensorDataset(torch.arange(batches))
    sampler = [[number] for number in range(batches)]
    given = {"dataset": sentences, "collate_fn": lambda rows: [int(row[0]) for row in rows]}
    return [
        Epochs(**given, batch_sampler=sampler, num_shards=processes, shard_id=rank, **options)
        for rank in range(processes)
    ]


def take(shards: list[Epochs], updates: int | None = None) -> list[int]:
    seen = []
    for shard in shards:
        batches = shard.next_epoch_itr()
        count = len(batches) - batches.n if updates is None else updates
        seen += [sentence for _ in range(count) for sentence in next(batches)]
    return seen


@given(st.lists(st.integers(1, 5), min_size=2, max_size=3), st.integers(0, 4), st.integers(25, 40))
def test_each_batch_of_an_epoch_is_seen_once_whatever_the_processes(processes, updates, batches):
    state, seen = None, []
    for count in processes:
        shards = iterators(count, batches)
        if state:
            for shard in shards:
                shard.load_state_dict(state)
        left = (batches - len(seen)) // count
        seen += take(shards, min(updates, max(0, left - 1)))
        state = shards[0].state_dict()
    for shard in shards:
        seen += [sentence for batch in shard._cur_epoch_itr for sentence in batch]
    assert sorted(seen) == list(range(batches))


@given(st.integers(0, 9), st.integers(10, 20), st.integers(1, 5))
def test_each_batch_left_is_in_an_update_whatever_the_update_frequency(seen, batches, frequency):
    left = CountingIterator(iter(range(seen, batches)), start=seen, total=batches)
    updates = list(Groups(left, frequency))
    assert [*chain(*updates)] == [*range(seen, batches)]
    assert {*map(len, updates[:-1])} <= {frequency}


@pytest.mark.parametrize(
    ("other", "place"),
    [
        ({"batches": 9}, {}),
        ({"batches": 10, "seed": 2}, {}),
        ({"batches": 10}, {"iterations_in_epoch": 10}),
        ({"batches": 10}, {"processes": 3}),
    ],
)
def test_with_other_batches_the_epoch_begins_again_and_says_so(other, place, caplog):
    (stored,) = iterators(1, 10)
    take([stored], 4)
    (shard,) = iterators(1, **other)
    shard.load_state_dict(stored.state_dict() | place)
    assert "epoch 1 begins again" in caplog.text
    assert len(take([shard])) == other["batches"]


def test_a_state_of_fairseqs_own_is_restored_as_by_fairseq():
    """That of a checkpoint of an earlier version, or of the next epoch."""
    (shard,) = iterators(1, 6)
    shard.load_state_dict({"version": 2, "epoch": 1, "iterations_in_epoch": 4, "shuffle": True})
    assert len(take([shard])) == 2
    state = shard.state_dict()
    assert (state["epoch"], state["iterations_in_epoch"]) == (2, 0)
    (other,) = iterators(3, 7)[:1]
    other.load_state_dict(state)
    assert other.next_epoch_idx == 2 and len(other.next_epoch_itr()) == 3


def stops(losses: list[float]) -> list[bool]:
    options = SimpleNamespace(patience=PATIENCE, maximize_best_checkpoint_metric=False)
    configuration = SimpleNamespace(checkpoint=options)
    return [fairseqs_should_stop_early(configuration, loss) for loss in losses]


@pytest.mark.parametrize("before", [0, 6])
def test_patience_is_counted_on(before):
    """Also if the checkpoint has no count, and that of another training is still there."""
    losses = [5.0, 4.0, 4.5, 4.1, 3.9, 4.0, 4.0, 4.0]
    undisturbed = stops(losses)
    assert undisturbed == 7 * [False] + [True]
    vars(fairseqs_should_stop_early).clear()
    (shard,) = iterators(1, 6)
    shard.next_epoch_itr()
    first, state = stops(losses[:before]), shard.state_dict()
    vars(fairseqs_should_stop_early).clear()
    shard.load_state_dict(state)
    assert first + stops(losses[before:]) == undisturbed
