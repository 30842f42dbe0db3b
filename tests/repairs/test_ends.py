"""How a training ends, and goes on: with the checkpoints that are due, copied whole; by a signal,
with its torchrun; where it was in its epoch and in its patience."""

import os
import signal
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from fairseq.checkpoint_utils import torch_persistent_save
from fairseq.data.iterators import CountingIterator
from fairseq.file_io import PathManager
from fairseq_cli.train import should_stop_early
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.repairs import lost_processes, signals
from fairseq_aiayn.repairs.copies import copied_whole, into_new_file
from fairseq_aiayn.repairs.epoch_ends import at_intervals
from fairseq_aiayn.repairs.finished import unless_done
from fairseq_aiayn.repairs.float32_weights import weights_of
from fairseq_aiayn.repairs.place import Epochs, Groups

PATIENCE = 3


@pytest.mark.parametrize(
    ("updates", "waited", "patience", "done"),
    [(999, 2, 3, False), (1000, 0, 3, True), (10, 3, 3, True), (10, 3, -1, False)],
)
def test_a_training_that_is_done_stays_so(updates, waited, patience, done, monkeypatch):
    monkeypatch.setattr(should_stop_early, "num_runs", waited, raising=False)
    cfg = Mock(optimization=Mock(max_update=1000), checkpoint=Mock(patience=patience))
    trainer = SimpleNamespace(get_num_updates=lambda: updates)
    expected = ([None], True) if done else ([1.0], False)
    assert unless_done(lambda *_: ([1.0], False), cfg, trainer, None, None) == expected


def test_an_update_that_overflows_is_no_second_validation():
    """Breaks if --patience counts the validation of weights that have not changed."""
    calls = []
    wrapped = at_intervals(lambda *arguments: calls.append(arguments[-1]) or ([1], True))
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


def test_float32_weights_are_found_in_either_form():
    """--fp16 has them flat, by the number of the GPU, which is another in every process."""
    weights = [torch.ones(2), torch.zeros(3)]
    assert weights_of(SimpleNamespace(fp32_params=weights)) == weights
    assert weights_of(SimpleNamespace(fp32_params={3: weights[0]})) == weights[:1]


def test_a_process_of_torchrun_dies_with_it_and_does_not_wait_for_lost_ones(monkeypatch):
    asked = Mock()
    monkeypatch.setattr(lost_processes.ctypes, "CDLL", lambda name: SimpleNamespace(prctl=asked))
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    join = lost_processes.ending_with_torchrun(dict)
    assert join(rank=1) == {"rank": 1, "timeout": lost_processes.TIMEOUT}
    asked.assert_not_called()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
    lost_processes.ending_with_torchrun(dict)
    asked.assert_called_once_with(lost_processes.PR_SET_PDEATHSIG, signal.SIGKILL)


@pytest.mark.parametrize("is_done", [False, True])
def test_after_a_signal_all_processes_wait_for_the_checkpoint(is_done, monkeypatch):
    order = []
    monkeypatch.setattr(signals, "listen", lambda *_: [signal.SIGTERM])
    monkeypatch.setattr(signals, "end_if_stuck", lambda _: None)
    monkeypatch.setattr(signals, "true_of_any_process", lambda _, one: order.append(one) or True)
    saving = signals.checkpoint_utils
    monkeypatch.setattr(saving, "save_checkpoint", lambda *given: order.append("saved"))
    after = signals.ending_by_signal(lambda *given: ([1.0], is_done))
    call = [Mock(), Mock(), None, Mock(), ["valid"], False]
    if is_done:
        assert after(*call) == ([1.0], True)
    else:
        with pytest.raises(SystemExit) as ended:
            after(*call)
        assert ended.value.code == 128 + signal.SIGTERM
    assert order == [True, "saved", *([] if is_done else [False])]


def test_half_a_copy_replaces_no_checkpoint(tmp_path, monkeypatch):
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
            copied_whole(killed, str(source), str(last), overwrite=True)
        assert not copied_whole(failing, str(source), str(last), overwrite=True)
        assert last.read_bytes() == b"of update 10"
        assert copied_whole(PathManager.copy, str(source), str(last), overwrite=True)
        assert last.read_bytes() == b"of update 20" and not last.samefile(source)
    assert copied_whole(killed, str(source), str(last), overwrite=True)
    assert last.samefile(source) and source.read_bytes() == b"of update 20"


def test_a_checkpoint_that_is_written_over_changes_no_copy_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(PathManager, "opena", open)  # as with iopath's, the file is written into
    first, last = tmp_path / "checkpoint_1_20.pt", tmp_path / "checkpoint_last.pt"
    for asynchronous in (False, True):
        into_new_file(torch_persistent_save, [20], str(first))
        copied_whole(PathManager.copy, str(first), str(last), overwrite=True)
        into_new_file(torch_persistent_save, [30], str(last), async_write=asynchronous)
        assert torch.load(first) == [20] and torch.load(last) == [30]


@pytest.fixture(autouse=True)
def nothing_is_counted():
    yield
    vars(should_stop_early).clear()


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
    return [should_stop_early(configuration, loss) for loss in losses]


@pytest.mark.parametrize("before", [0, 6])
def test_patience_is_counted_on(before):
    """Also if the checkpoint has no count, and that of another training is still there."""
    losses = [5.0, 4.0, 4.5, 4.1, 3.9, 4.0, 4.0, 4.0]
    undisturbed = stops(losses)
    assert undisturbed == 7 * [False] + [True]
    vars(should_stop_early).clear()
    (shard,) = iterators(1, 6)
    shard.next_epoch_itr()
    first, state = stops(losses[:before]), shard.state_dict()
    vars(should_stop_early).clear()
    shard.load_state_dict(state)
    assert first + stops(losses[before:]) == undisturbed
