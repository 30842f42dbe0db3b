"""What fairseq does without the repairs; a repair whose test fails here can go."""

import math
from argparse import Namespace
from datetime import timedelta
from inspect import signature
from pickle import UnpicklingError
from queue import Queue
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock

import pytest
import torch
from fairseq import options
from fairseq.data import iterators
from originals import original
from torch.distributed import distributed_c10d

from fairseq_aiayn.repairs.memory import LOST_IN_A_ROW
from fairseq_aiayn.repairs.options import checking_options
from fairseq_aiayn.repairs.patches import PATCHES
from fairseq_aiayn.repairs.prefetching import end_all


def originals(repair: str) -> list:
    return [original(patch) for patch in PATCHES[repair]]


def test_loading(tmp_path):
    load, _, _, _, eval_str_list, *_ = originals("loading")
    torch.save({"args": Namespace(arch="transformer")}, tmp_path / "checkpoint.pt")
    with pytest.raises(UnpicklingError):
        load(str(tmp_path / "checkpoint.pt"))
    assert eval_str_list("[__import__('math').pi]") == [math.pi]


def test_copies(tmp_path):
    """It writes into the file that is there, so that a kill leaves half of it."""
    new, last = tmp_path / "checkpoint1.pt", tmp_path / "checkpoint_last.pt"
    new.write_text("new")
    last.write_text("old")
    with last.open() as file:
        originals("copies")[0](str(new), str(last), overwrite=True)
        assert file.read() == "new"


def test_float32_weights():
    optimizer = Mock(fp32_params=[torch.ones(1)], scaler=None)
    optimizer.fp32_optimizer.state_dict.return_value = {}
    state_dict, _ = originals("float32_weights")
    assert state_dict(optimizer) == {}


def test_empty_batches():
    """The sum of ten target tokens is not divided at all."""
    (train_step,) = originals("empty_batches")
    for last, factor in (({"id": 2}, 0.1), ({}, 1)):
        trainer = MagicMock(data_parallel_world_size=1, cuda=False, tpu=False)
        trainer._prepare_sample.side_effect = lambda sample: (sample, not sample)
        trainer.task.train_step.return_value = torch.ones(()), torch.tensor(5), {}
        trainer.clip_grad_norm.return_value = torch.ones(())
        trainer._sync_stats.return_value = False
        trainer.cfg.optimization.use_bmuf = trainer.cfg.common.amp = False
        train_step(trainer, [{"id": 1}, last])
        (multiplied,) = trainer.optimizer.multiply_grads.call_args.args
        assert float(multiplied) == pytest.approx(factor)


def test_options():
    """A score that nothing computes is asked for; fairseq notices after the first epoch."""
    (parse_args_and_arch,) = originals("options")
    words = ["data", "--arch", "transformer", "--best-checkpoint-metric", "bleu"]
    assert parse_args_and_arch(options.get_training_parser(), words).eval_bleu is False
    with pytest.raises(ValueError, match="--eval-bleu"):
        checking_options(parse_args_and_arch, options.get_training_parser(), words)


def test_place():
    """With a second process, batches that none had are left out; no patience is stored."""
    epochs, groups = originals("place")
    sentences = torch.utils.data.TensorDataset(torch.arange(10))
    chosen = {"collate_fn": lambda rows: [int(row[0]) for row in rows]}
    chosen["batch_sampler"] = [[number] for number in range(10)]
    before = epochs(sentences, **chosen)
    batches = before.next_epoch_itr(shuffle=False)
    seen = [next(batches)[0] for _ in range(4)]
    for rank in range(2):
        after = epochs(sentences, num_shards=2, shard_id=rank, **chosen)
        after.load_state_dict(before.state_dict())
        seen += [batch[0] for batch in after.next_epoch_itr(shuffle=False) if batch]
    assert sorted(seen) != [*range(10)]
    left = iterators.CountingIterator(iter(range(5, 10)), start=5, total=10)
    assert len([*groups(left, 4)]) < 2
    assert "patience" not in before.state_dict()


def test_lost_processes():
    join, new_group = originals("lost_processes")
    assert {signature(one).parameters["timeout"].default for one in (join, new_group)} == {None}
    assert distributed_c10d.default_pg_timeout == timedelta(minutes=30)


def test_prefetching():
    """Nothing ends a thread that reads ahead, but the end of Python."""
    (consumer,) = originals("prefetching")
    queue = Queue(1)
    thread = consumer(queue, iter(range(9)), 9, None)
    thread.daemon = True
    thread.start()
    end_all()
    assert thread.is_alive()
    while thread.is_alive():
        queue.get()


def test_memory():
    (log_oom,) = originals("memory")
    for _ in range(2 * LOST_IN_A_ROW):
        log_oom(SimpleNamespace(), torch.OutOfMemoryError("CUDA out of memory"))
