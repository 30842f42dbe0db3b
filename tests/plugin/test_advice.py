"""plugin/advice.py: what a command says to change is what it was given, and works when typed."""

import logging
import re
from types import SimpleNamespace

import pytest
import torch
from building import parse
from fairseq.trainer import Trainer

from fairseq_aiayn.plugin.advice import LOST_IN_A_ROW, TRAIN, advice

CUDA = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
CPU = RuntimeError("[enforce fail] err == 0. DefaultCPUAllocator: can't allocate memory: you tried")
SCALE = FloatingPointError("Minimum loss scale reached (0.0001). Your loss is probably exploding.")
NAN = FloatingPointError("gradients are Nan/Inf")
WHILE_HANDLING = StopIteration()  # of fairseq's own detector
WHILE_HANDLING.__context__ = NAN
SPAWNED = torch.multiprocessing.ProcessRaisedException(
    '\n\n-- Process 1 terminated with the following error:\n  File "t.py", line 9, in train_step\n'
    f"torch.OutOfMemoryError: {CUDA}",
    error_index=1,
    error_pid=9,
)


def raised_in(step: str, error: BaseException) -> BaseException:
    """The error, raised by a function of this name."""

    def fail() -> None:
        raise error

    fail.__code__ = fail.__code__.replace(co_name=step)
    with pytest.raises(type(error)):
        fail()
    return error


def given(*flags: str, arch: str = "aiayn_base") -> dict:
    return vars(parse("--arch", arch, "--max-tokens", "4096", *flags))


@pytest.mark.parametrize("error", [CUDA, CPU, MemoryError()])
@pytest.mark.parametrize(
    ("command", "step", "flags", "line"),
    [
        ("train", "train", "--update-freq 2", "--max-tokens 2048 --update-freq 4"),
        ("train", "train", "--update-freq 3,1 --batch-size 9",
         "--max-tokens 2048 --batch-size 5 --update-freq 6,2"),
        ("train", "valid", "--max-tokens-valid 999", "--max-tokens-valid 500"),
        ("train", "build_model", "", None),
        ("validate", "valid", "--batch-size 3", "--max-tokens 2048 --batch-size 2"),
        ("generate", "inference", "", "--max-tokens 2048"),
    ],
)  # fmt: skip
def test_without_memory_batches_are_halved_and_an_update_keeps_its_tokens(
    error, command, step, flags, line
):
    """Breaks if the batch of an update changes, or the option is that of another step."""
    error = raised_in(f"{step}_step", error.with_traceback(None))
    said = advice(f"fairseq-{command}", error, given(*flags.split()))
    expected = f"try {line} instead of --max-tokens" if line else "expected more, or a smaller"
    assert expected in said and said.startswith("out of memory: ")


def test_a_full_disk_is_named_whatever_fails_after_it():
    error = RuntimeError("PytorchStreamWriter failed writing file")
    error.__context__ = OSError(28, "No space left on device")
    assert advice("fairseq-train", error, given()).startswith("no space left on the disk")


def test_of_a_process_that_fairseq_started_the_error_counts():
    assert "--max-tokens 2048 --update-freq 2" in advice("fairseq-train", SPAWNED, given())


def test_generate_without_a_size_has_fairseqs_own():
    error = raised_in("inference_step", CUDA)
    sizes = {"max_tokens": None, "batch_size": None, "beam": 4}
    assert "--max-tokens 6000 instead" in advice("fairseq-generate", error, sizes)
    assert "--beam 2 instead of --beam 4" in advice("fairseq-interactive", error, sizes)


@pytest.mark.parametrize("error", [SCALE, NAN, WHILE_HANDLING])
@pytest.mark.parametrize(
    ("arch", "flags", "changes"),
    [
        ("aiayn_base", "--lr-scheduler aiayn_inverse_sqrt",
         "--lr-factor 0.5 --warmup-updates 8000"),
        ("aiayn_base", "--lr-scheduler aiayn_inverse_sqrt --fp16",
         "--lr-factor 0.5 --warmup-updates 8000 --autocast bfloat16"),
        ("transformer", "--lr-scheduler inverse_sqrt --warmup-updates 4000 --lr 0.0007 --fp16",
         "--lr 0.00035 --warmup-updates 8000 --bf16"),
        ("transformer", "--lr 0.1", "--lr 0.05"),
    ],
)  # fmt: skip
def test_without_finite_gradients_the_options_that_were_given_are_lowered(
    error, arch, flags, changes
):
    """Breaks if an option is named that the schedule does not read, or a precision that the model
    does not have."""
    options = given(*flags.split(), arch=arch)
    said = advice("fairseq-train", error, options)
    assert f": try {changes} instead of --l" in said
    given(*flags.replace("--fp16", "").split(), *changes.split(), arch=arch)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file or directory", "out of memory.log"),
        ValueError("out of memory"),
        FloatingPointError("Fatal error: gradients are inconsistent between workers."),
    ],
)
def test_other_errors_have_no_advice(error):
    assert advice("fairseq-train", raised_in("train_step", error), given()) is None


def test_batches_that_fairseq_leaves_out_are_said_once_and_not_without_end(caplog):
    """Breaks if a training in which no batch fits into the memory runs on for ever."""
    caplog.set_level(logging.WARNING, TRAIN)
    sizes = SimpleNamespace(dataset={"max_tokens": 64}, optimization={"update_freq": [1]})
    done = iter([7] * (LOST_IN_A_ROW - 1) + [8] * LOST_IN_A_ROW)
    trainer = SimpleNamespace(cfg=sizes, get_num_updates=lambda: next(done))
    with pytest.raises(torch.OutOfMemoryError):
        for _ in range(2 * LOST_IN_A_ROW):
            error = raised_in("train_step", raised_in("train_step", CUDA.with_traceback(None)))
            Trainer._log_oom(trainer, error)
    assert next(done, None) is None
    assert [re.findall(r"--\S+ \d+", line) for line in caplog.messages if "try" in line] == [
        ["--max-tokens 32", "--update-freq 2", "--max-tokens 64", "--update-freq 1"]
    ]
