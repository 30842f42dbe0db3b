"""Errors of memory, numbers and options end in one line, and no other errors do."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from ast import literal_eval

import numpy
import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import build_model
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.trainer import Trainer
from test_error_messages import explained

from fairseq_aiayn.plugin.guards import error_messages
from fairseq_aiayn.plugin.guards.checked import checked
from fairseq_aiayn.plugin.guards.number_options import BOUNDS, require_number, require_processes

PETABYTE = 10**15


@pytest.mark.parametrize(
    ("allocate", "more"),
    [
        (lambda: torch.empty(PETABYTE, dtype=torch.uint8), " for 953,674,316 MiB more"),
        (lambda: numpy.empty(PETABYTE, dtype=numpy.uint8), " for 909. TiB more"),
        (lambda: bytearray(PETABYTE), ""),
    ],
    ids=["torch", "numpy", "python"],
)
def test_memory_that_is_not_there(allocate, more, monkeypatch):
    line = explained(allocate)
    assert line == f"not enough memory{more}"
    monkeypatch.setattr(sys, "argv", ["/bin/fairseq-train"])
    assert explained(allocate).endswith(
        "; lower --max-tokens, and raise --update-freq as much to keep the batch"
    )


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:75] DefaultCPUAllocator: not enough memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
        RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. "),
        RuntimeError("std::bad_alloc"),
        OSError(12, "Cannot allocate memory"),
    ],
    ids=["GPU", "Windows", "cuBLAS", "worker", "C++", "fork"],
)
def test_the_words_for_it(error):
    assert error_messages.explain(error).startswith("not enough memory")


def test_other_errors_of_torch_are_not_of_memory():
    assert error_messages.explain(RuntimeError("Expected all tensors on one device")) is None
    assert explained(torch.zeros(2).view, 3) is None


class Nowhere:
    """A trainer whose gradients are NaN."""

    def get_num_updates(self) -> int:
        return 6


def failing(error: Exception) -> object:
    """A train_step of fairseq's trainer that raises this error."""
    code = "def train_step(self):\n    raise error"
    space = {"__name__": "fairseq.trainer", "error": error}
    exec(code, space)  # noqa: S102
    return space["train_step"]


@pytest.mark.parametrize(
    "text", ["gradients are Nan/Inf", "Minimum loss scale reached (0.0001). Your loss is probably"]
)
def test_a_loss_that_is_not_a_number_is_named_with_its_update(text):
    line = explained(failing(FloatingPointError(text)), Nowhere())
    assert line.startswith("the loss or its gradient is NaN or infinite in update 7: the learning")
    assert explained(failing(ZeroDivisionError(text)), Nowhere()) is None


def test_an_error_of_the_search_for_the_layer_is_the_same():
    """fairseq's NanDetector ends in StopIteration for its own Transformer."""
    error = StopIteration()
    error.__context__ = FloatingPointError("gradients are Nan/Inf")
    line = explained(failing(error), Nowhere())
    assert line.startswith("the loss or its gradient is NaN or infinite in update 7")


def test_what_cannot_be_made_of_options_is_named():
    line = explained(build_model, Namespace(arch="none"), None)
    assert line.startswith("none: cannot be used as it is given (AssertionError: Could not infer")
    line = explained(literal_eval, "{")
    assert line.startswith("an option: cannot be used as it is given (SyntaxError: ")


def test_an_option_that_argparse_cannot_read_is_named():
    parser = ArgumentParser()
    parser.add_argument("--update-freq", type=literal_eval)
    line = explained(parser.parse_args, ["--update-freq", " "])
    assert line == "--update-freq: cannot be read, got ' '"


def test_numbers_no_machine_has():
    line = explained(torch.ones(1).__add__, 10**30)
    assert line.startswith("a number is too large: ")


def test_a_long_line_keeps_its_beginning_and_its_end():
    line = error_messages.explain(ValueError("--option" + "x" * 1000 + "end"))
    assert line.startswith("--option") and line.endswith("end") and len(line) < 400


def test_words_of_other_programs_that_say_enough():
    for error in (
        AssertionError("Torch not compiled with CUDA enabled"),
        AssertionError("Optimizer does not match; please reset the optimizer (--reset-optimizer)"),
        ValueError("Seed must be between 0 and 2**32 - 1"),
        ValueError("--lang-pairs is required. List all the language pairs"),
        ImportError("Please install the megatron submodule"),
        FileExistsError(17, "File exists"),
    ):
        assert error_messages.explain(error)
    for error in (AssertionError("no words"), ImportError("no name"), ValueError("x -- y")):
        assert error_messages.explain(error) is None


def test_a_dropout_rate_that_is_text_is_a_fault_of_the_checkpoint():
    with pytest.raises(TypeError) as caught:
        FairseqDropout("much")(torch.ones(1))
    line = error_messages.explain(caught.value)
    assert line.startswith("a dropout rate of the checkpoint: cannot be used as it is given")


# --- numbers of fairseq's own options ---


def training(*flags: str) -> object:
    """The configuration that fairseq builds for a training."""
    parser = options.get_training_parser()
    given = ["data", "--arch", "transformer", "--task", "translation", "--optimizer", "adam"]
    given += ["--max-tokens", "100", "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "9"]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, [*given, *flags]))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--update-freq", "0"], "--update-freq must be a number from 1 to inf, got [0]"),
        (["--update-freq", "[]"], "--update-freq must be a number from 1 to inf, got []"),
        (["--update-freq", "4,0"], "--update-freq must be a number from 1 to inf, got [4, 0]"),
        (["--lr", "-0.1"], "--lr must be a number from 0 to 1.79769e+308, got [-0.1]"),
        (["--lr", "1e999"], "--lr must be a number from 0 to 1.79769e+308, got [inf]"),
        (["--clip-norm", "nan"], "--clip-norm must be a number from -inf to inf, got nan"),
        (["--max-tokens", "0"], "--max-tokens must be a number from 1 to inf, got 0"),
        (["--max-update", "-1"], "--max-update must be a number from 0 to inf, got -1"),
        (["--max-epoch", "-1"], "--max-epoch must be a number from 0 to inf, got -1"),
        (["--warmup-updates", "-1"], "--warmup-updates must be a number from 0 to inf, got -1"),
        (["--dropout", "nan"], "--dropout must be a number from 0 to 1, got nan"),
        (["--attention-dropout", "2"], "--attention-dropout must be a number from 0 to 1, got 2"),
        (["--activation-dropout", "2"], "--activation-dropout must be a number from 0 to 1, got 2"),
        (["--adam-eps", "nan"], "--adam-eps must be a number from 0 to 1.79769e+308, got nan"),
        (["--weight-decay", "-1"], "--weight-decay must be a number from 0 to 1.79769e+308, got"),
        (["--adam-betas", "(2, 3)"], "--adam-betas must be in [0, 1), got '(2, 3)'"),
        (["--adam-betas", "x"], "--adam-betas must be two numbers, as 0.9,0.98; got 'x'"),
        (["--finetune-from-model", "/dev/null"], "/dev/null: expected a plain file, got a dir"),
    ],
)
def test_numbers_are_refused_before_a_training(flags, message):
    assert explained(Trainer, training(*flags), None, None, None).startswith(message)


def test_label_smoothing_of_fairseqs_own_criterion():
    cfg = training("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "nan")
    line = explained(Trainer, cfg, None, None, None)
    assert line == "--label-smoothing must be a number from 0 to 1, got nan"


def test_usual_numbers_pass():
    cfg = training("--update-freq", "2,4", "--clip-norm", "0", "--lr", "5e-4")
    for (section, name), bounds in BOUNDS.items():
        require_number(name, getattr(cfg[section], name, None), *bounds)


def test_a_training_that_would_start_no_process_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    begun = []
    start = checked(lambda cfg, main: begun.append(main), require_processes)
    start(training("--distributed-world-size", "1"), training)
    assert begun == [training]
    for flags in (["--distributed-world-size", "0"], ["--distributed-init-method", "tcp://x:1"]):
        with pytest.raises(ValueError, match="no process can start, there are 0 GPUs"):
            start(training(*flags), training)
    assert begun == [training]
