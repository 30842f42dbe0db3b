"""What a fairseq-train with this plugin has in place of fairseq's own functions."""

import signal
import sys
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from fairseq import checkpoint_utils, models, options, tasks, trainer, utils
from fairseq.data import iterators
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.logging import progress_bar
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin
from fairseq.tasks.translation_multi_simple_epoch import TranslationMultiSimpleEpochTask
from torch.utils.data import DataLoader

from fairseq_aiayn.plugin import advice, checkpoints, commands, left_out, resuming

REPLACED = {
    advice: [(trainer.Trainer, "_log_oom")],
    commands: [
        (options, "parse_args_and_arch"),
        (progress_bar, "progress_bar"),
        (sys, "excepthook"),
        (checkpoint_utils, "load_model_ensemble_and_task"),
    ],
    checkpoints: [
        (distributed_utils, "broadcast_object"),
        (checkpoint_utils, "load_checkpoint_to_cpu"),
        (models, "build_model"),
        (TranslationMultiSimpleEpochTask, "setup_task"),
        *((utils, name) for name in ("eval_str_list", "eval_str_dict", "eval_bool")),
    ],
    left_out: [(tasks.FairseqTask, "get_batch_iterator")],
    resuming: [
        (PathManager, "copy"),
        (checkpoint_utils, "torch_persistent_save"),
        *((iterators, name) for name in ("EpochBatchIterator", "GroupedIterator")),
        *((_FP16OptimizerMixin, name) for name in ("state_dict", "load_state_dict")),
        (trainer.Trainer, "train_step"),
        (DataLoader, "__init__"),
        (torch.multiprocessing, "spawn"),
        *((torch.distributed, name) for name in ("init_process_group", "new_group")),
    ],
}


@pytest.fixture
def program(monkeypatch):
    """A fairseq-train, or fairseq-generate, that has begun; all it replaces is restored."""
    train = ModuleType("fairseq_cli.train")
    vars(train).update(dict.fromkeys(("train", "validate_and_save", "should_stop_early"), Mock()))
    monkeypatch.setitem(sys.modules, "fairseq_cli.train", train)
    monkeypatch.setattr(resuming, "training_program", lambda: train)
    monkeypatch.setattr(sys, "argv", ["fairseq-generate"])
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    for owner, name in [place for places in REPLACED.values() for place in places]:
        monkeypatch.setattr(owner, name, vars(owner)[name])
    return train


@pytest.mark.parametrize("module", REPLACED, ids=lambda module: module.__name__)
def test_everything_is_in_its_place(module, program):
    """Breaks if a repair is written and tested, but not installed."""
    before = [vars(owner)[name] for owner, name in REPLACED[module]]
    functions = dict(vars(program))
    module.install()
    after = [vars(owner)[name] for owner, name in REPLACED[module]]
    for (owner, name), old, new in zip(REPLACED[module], before, after, strict=True):
        assert new is not old, f"{owner.__name__}.{name}"
    if module is resuming:
        assert program.train is not functions["train"]
        assert isinstance(program.validate_and_save, resuming.AfterUpdate)
        waits = torch.distributed.init_process_group.keywords, torch.distributed.new_group.keywords
        assert waits == ({"timeout": resuming.TIMEOUT},) * 2


def test_a_process_of_torchrun_dies_with_it(program, monkeypatch):
    asked = Mock()
    monkeypatch.setattr(resuming.ctypes, "CDLL", lambda name: SimpleNamespace(prctl=asked))
    resuming.install()
    asked.assert_not_called()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
    resuming.install()
    asked.assert_called_once_with(resuming.PR_SET_PDEATHSIG, signal.SIGKILL)


@pytest.mark.parametrize("is_done", [False, True])
def test_after_a_signal_all_processes_wait_for_the_checkpoint(is_done, monkeypatch):
    """Breaks if one ends before the first has written it, or a training that is done has failed."""
    order = []
    monkeypatch.setattr(resuming, "listen", lambda: [signal.SIGTERM])
    monkeypatch.setattr(
        resuming, "true_of_any_process", lambda trainer, one: order.append(one) or True
    )
    monkeypatch.setattr(
        resuming.checkpoint_utils, "save_checkpoint", lambda *given: order.append("saved")
    )
    after = resuming.AfterUpdate(lambda *given: ([1.0], is_done))
    call = [Mock(), Mock(), None, Mock(), ["valid"], False]
    if is_done:
        assert after(*call) == ([1.0], True)
    else:
        with pytest.raises(SystemExit) as ended:
            after(*call)
        assert ended.value.code == 128 + signal.SIGTERM
    assert order == [True, "saved", *([] if is_done else [False])]
