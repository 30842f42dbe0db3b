"""How a training ends: with the checkpoints that are due, by a signal, with its torchrun; once."""

import signal
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from fairseq_cli.train import should_stop_early

from fairseq_aiayn.repairs import lost_processes, signals
from fairseq_aiayn.repairs.epoch_ends import at_intervals
from fairseq_aiayn.repairs.finished import unless_done
from fairseq_aiayn.repairs.float32_weights import weights_of


@pytest.mark.parametrize(
    ("updates", "waited", "patience", "done"),
    [(999, 2, 3, False), (1000, 0, 3, True), (10, 3, 3, True), (10, 3, -1, False)],
)
def test_a_training_that_is_done_stays_so(updates, waited, patience, done, monkeypatch):
    monkeypatch.setattr(should_stop_early, "num_runs", waited, raising=False)
    cfg = Mock(optimization=Mock(max_update=1000), checkpoint=Mock(patience=patience))
    trainer = SimpleNamespace(get_num_updates=lambda: updates)
    expected = ([None], True) if done else ([1.0], False)
    assert unless_done(lambda *_: ([1.0], False))(cfg, trainer, None, None) == expected


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
