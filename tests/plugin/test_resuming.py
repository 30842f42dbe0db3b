"""How a training resumes: its place in the epoch, its patience, and whole copies of checkpoints."""

import os
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from fairseq.checkpoint_utils import torch_persistent_save
from fairseq.data.iterators import CountingIterator
from fairseq.file_io import PathManager
from fairseq_cli.train import should_stop_early as fairseqs_should_stop_early
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.plugin import resuming
from fairseq_aiayn.plugin.resuming import (
    AfterUpdate,
    Epochs,
    Groups,
    copied_whole,
    into_new_file,
    unless_done,
    weights_of,
)

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
    """The sentences of these updates, or of the rest of the epoch."""
    seen = []
    for shard in shards:
        batches = shard.next_epoch_itr()
        count = len(batches) - batches.n if updates is None else updates
        seen += [sentence for _ in range(count) for sentence in next(batches)]
    return seen


@given(st.lists(st.integers(1, 5), min_size=2, max_size=3), st.integers(0, 4), st.integers(25, 40))
def test_each_batch_of_an_epoch_is_seen_once_whatever_the_processes(processes, updates, batches):
    """Breaks if some are left out or seen twice after a resumption or two with more or fewer."""
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
    """Breaks if the last ones are left out where those seen are no multiple of the frequency."""
    left = CountingIterator(iter(range(seen, batches)), start=seen, total=batches)
    updates = list(Groups(left, frequency))
    assert [*chain(*updates)] == [*range(seen, batches)]
    assert {*map(len, updates[:-1])} <= {frequency}


def test_float32_weights_are_found_in_either_form():
    """--fp16 has them flat, by the number of the GPU, which is another in every process."""
    weights = [torch.ones(2), torch.zeros(3)]
    assert weights_of(SimpleNamespace(fp32_params=weights)) == weights
    assert weights_of(SimpleNamespace(fp32_params={3: weights[0]})) == weights[:1]


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
    """Also from a place that no epoch of these batches has."""
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


def configuration(patience: int = PATIENCE) -> SimpleNamespace:
    return SimpleNamespace(
        optimization=SimpleNamespace(max_update=1000),
        checkpoint=SimpleNamespace(patience=patience, maximize_best_checkpoint_metric=False),
    )


def stops(losses: list[float]) -> list[bool]:
    return [fairseqs_should_stop_early(configuration(), loss) for loss in losses]


@pytest.mark.parametrize("before", [0, 6])
def test_patience_is_counted_on(before):
    """Breaks if a resumed training stops at another validation than an undisturbed one, or if the
    first one's count is kept where the checkpoint has none."""
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


@pytest.mark.parametrize(
    ("updates", "waited", "patience", "done"),
    [(999, 2, 3, False), (1000, 0, 3, True), (10, 3, 3, True), (10, 3, -1, False)],
)
def test_a_training_that_is_done_stays_so(updates, waited, patience, done):
    fairseqs_should_stop_early.num_runs = waited
    train = unless_done(lambda *_: ([1.0], False), fairseqs_should_stop_early)
    trainer = SimpleNamespace(get_num_updates=lambda: updates, is_data_parallel_master=True)
    expected = ([None], True) if done else ([1.0], False)
    assert train(configuration(patience), trainer, None, None) == expected


def test_half_a_copy_replaces_no_checkpoint(tmp_path, monkeypatch):
    """Breaks if a kill or a full disk while checkpoint_last.pt is copied leaves it cut short."""
    source, last = tmp_path / "checkpoint_1_20.pt", tmp_path / "checkpoint_last.pt"
    source.write_bytes(b"of update 20")
    last.write_bytes(b"of update 10")

    def killed(source: str, target: str, overwrite: bool) -> None:
        Path(target).write_bytes(b"of upd")
        raise KeyboardInterrupt

    def failing(source: str, target: str, overwrite: bool) -> bool:  # as iopath's
        Path(target).write_bytes(b"of upd")
        return False

    with monkeypatch.context() as without_links:
        without_links.setattr(os, "link", Mock(side_effect=OSError))
        with pytest.raises(KeyboardInterrupt):
            copied_whole(killed)(str(source), str(last), overwrite=True)
        assert not copied_whole(failing)(str(source), str(last), overwrite=True)
        assert last.read_bytes() == b"of update 10"
        assert copied_whole(PathManager.copy)(str(source), str(last), overwrite=True)
        assert last.read_bytes() == b"of update 20" and not last.samefile(source)
    assert copied_whole(killed)(str(source), str(last), overwrite=True)
    assert last.samefile(source) and source.read_bytes() == b"of update 20"


def test_a_checkpoint_that_is_written_over_changes_no_copy_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(PathManager, "opena", open)  # as with iopath's, the file is written into
    first, last = tmp_path / "checkpoint_1_20.pt", tmp_path / "checkpoint_last.pt"
    save = into_new_file(torch_persistent_save)
    for asynchronous in (False, True):
        save([20], str(first))
        copied_whole(PathManager.copy)(str(first), str(last), overwrite=True)
        save([30], str(last), async_write=asynchronous)
        assert torch.load(first) == [20] and torch.load(last) == [30]


def test_an_update_that_overflows_is_no_second_validation(monkeypatch):
    """Breaks if --patience counts the validation of weights that have not changed."""
    monkeypatch.setattr(resuming, "listen", list)
    calls = []
    wrapped = AfterUpdate(lambda *arguments: calls.append(arguments[-1]) or ([1], True))
    cfg = Mock(checkpoint=Mock(save_interval_updates=2, no_epoch_checkpoints=True))
    trainer, epoch = Mock(data_parallel_world_size=1), Mock(epoch=1)

    def after(updates: int, end_of_epoch: bool = False) -> tuple:
        trainer.get_num_updates.return_value = updates
        return wrapped(cfg, trainer, None, epoch, ["valid"], end_of_epoch)

    assert after(2) == ([1], True) and after(2) == ([None], False) and calls == [False]
    assert after(2, end_of_epoch=True) == ([1], True)  # the epoch's end is no interval's, too
    assert calls == [False, True]
    assert after(4, end_of_epoch=True) == ([1], True) and calls == [False, True, False]
    cfg.checkpoint.no_epoch_checkpoints, cfg.checkpoint.save_interval = False, 2
    after(6, end_of_epoch=True)
    epoch.epoch = 2  # has a checkpoint of its own
    after(8, end_of_epoch=True)
    assert calls[3:] == [False, True]
