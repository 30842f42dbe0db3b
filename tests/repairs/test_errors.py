"""How fairseq's commands end and log: errors in one line, with advice that works when typed."""

import logging
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from building import parse
from fairseq.logging import progress_bar
from fairseq.trainer import Trainer

from fairseq_aiayn.paper import find_row
from fairseq_aiayn.repairs.advice import advice
from fairseq_aiayn.repairs.errors import short_form, with_last_line
from fairseq_aiayn.repairs.memory import LOST_IN_A_ROW
from fairseq_aiayn.repairs.program import TRAIN, command_name, training_program


def raised(action, *arguments: object) -> BaseException:
    with pytest.raises(Exception) as caught:
        action(*arguments)
    return caught.value


def test_only_our_value_errors_are_shortened(monkeypatch, capsys):
    passed_on: list[BaseException] = []
    hook = with_last_line("fairseq-train", lambda *error: passed_on.append(error[1]), {})
    ours, others = raised(find_row, "none"), [raised(int, "x"), raised({}.__getitem__, "x")]
    for error in (ours, *others):
        hook(type(error), error, error.__traceback__)
    assert passed_on == others
    assert capsys.readouterr().err == f"fairseq-train: error: {ours}\n"
    monkeypatch.setenv("AIAYN_DEBUG", "1")
    hook(type(ours), ours, ours.__traceback__)
    assert passed_on[-1] is ours


def raising(name: str, error: BaseException, module: str = "fairseq_cli") -> BaseException:
    code = f"def {name}(error):\n    raise error"
    namespace: dict = {"__name__": module}
    exec(code, namespace)  # noqa: S102
    return raised(namespace[name], error)


@pytest.mark.parametrize(
    ("name", "error", "module", "is_short"),
    [
        ("load", FileNotFoundError(2, "No such file or directory", "bin/dict.fr.txt"), "os", True),
        ("load", OSError("Model file not found: x.pt"), "fairseq.checkpoint_utils", True),
        ("main", AssertionError("--path required for generation!"), "fairseq_cli.generate", True),
        ("process", NotImplementedError("Unknown post_process option: x"), "fairseq.data", True),
        ("main", AssertionError(), "fairseq_cli.generate", False),
        ("init", AssertionError("Torch not compiled with CUDA enabled"), "torch.cuda", False),
        ("load", OSError(28, "No space left on device"), "fairseq.checkpoint_utils", False),
        ("train", FileNotFoundError(2, "No such file", "train.bin"), "fairseq_cli.train", False),
        ("load", KeyError("x"), "fairseq.checkpoint_utils", False),
    ],
)
def test_a_wrong_option_or_file_is_one_line_until_the_work_begins(name, error, module, is_short):
    found = raising(name, error, module)
    assert short_form(found, found.__traceback__) == (str(error) if is_short else None)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("--arch aiayn_bas", "argument --arch/-a: expected aiayn_base, .*, got 'aiayn_bas'"),
        ("--arch qqqq", r"argument --arch/-a: expected \w+, .*, got 'qqqq'"),
        ("--arch aiayn_base --no-such", "unrecognized arguments: --no-such"),
    ],
)
def test_wrong_words_are_one_line_with_the_nearest_right_ones(flags, line, capsys):
    with pytest.raises(SystemExit) as end:
        parse(*flags.split())
    assert end.value.code == 2
    assert re.fullmatch(rf"\S+: error: {line}\n", capsys.readouterr().err)


def test_the_commands_of_fairseq_are_known():
    assert command_name("/usr/bin/fairseq-train") == "fairseq-train"
    assert command_name("/site-packages/fairseq_cli/eval_lm.py") == "fairseq-eval-lm"
    assert command_name("/usr/bin/pytest") is None and command_name("") is None


def test_a_program_started_by_its_module_is_a_training_too(monkeypatch):
    program = ModuleType("__main__")
    program.validate_and_save = None
    monkeypatch.setitem(sys.modules, "__main__", program)
    assert training_program() is program


def test_a_training_without_a_model_says_so():
    """As when a program in its command line that prints the options has refused its own."""
    with pytest.raises(ValueError, match="expected --arch, such as aiayn_base"):
        parse("--task", "aiayn_translation")


MAXIMIZE = "--maximize-best-checkpoint-metric"


@pytest.mark.parametrize(
    ("flags", "missing", "given"),
    [
        (f"--best-checkpoint-metric bleu {MAXIMIZE}", "--eval-bleu", "--eval-bleu"),
        ("--best-checkpoint-metric bleu --eval-bleu", MAXIMIZE, MAXIMIZE),
        ("--memory-efficient-fp16 --optimizer aiayn_adam", "--optimizer adam", "--optimizer adam"),
        ("--tokenizer moses", "--source-lang", "--source-lang en --target-lang de"),
    ],
)
def test_an_option_that_needs_another_names_it(flags, missing, given):
    words = ["--arch", "aiayn_tiny", *flags.split()]
    with pytest.raises(ValueError, match=f"{words[2]}.*: expected {missing}"):
        parse(*words)
    parse(*words, *given.split())


def test_bf16_does_not_ask_for_a_tpu():
    """Breaks if it ends with an error on a GPU, because fairseq takes it for a TPU's option."""
    assert not parse("--arch", "transformer", "--bf16").tpu


def test_each_line_of_a_training_is_in_its_log_once(monkeypatch, tmp_path):
    handlers: list[logging.Handler] = []
    monkeypatch.setattr(progress_bar.logger, "handlers", handlers)
    monkeypatch.setattr(progress_bar.logger, "level", logging.INFO)
    first, other = tmp_path / "first.log", tmp_path / "other.log"
    for epoch, path in enumerate([first, first, other, first], start=1):
        options = {"log_file": str(path), "epoch": epoch, "prefix": "train"}
        bar = progress_bar.progress_bar([1], log_format="json", **options)
        bar.print({"epoch": epoch}, tag="train")
    assert [path.read_text().count('"epoch": 4') for path in (first, other)] == [1, 1]
    assert first.read_text().count("\n") == 4
    assert len(handlers) == 2
    for handler in handlers:
        handler.close()


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
def test_without_memory_an_update_keeps_its_tokens(error, command, step, flags, line):
    error = raising(f"{step}_step", error.with_traceback(None))
    said = advice(f"fairseq-{command}", error, given(*flags.split()))
    expected = f"try {line} instead of --max-tokens" if line else "expected more, or a smaller"
    assert expected in said and said.startswith("out of memory: ")


def test_a_full_disk_is_named_whatever_fails_after_it():
    error = RuntimeError("PytorchStreamWriter failed writing file")
    error.__context__ = OSError(28, "No space left on device")
    assert advice("fairseq-train", error, given()).startswith("no space left on the disk")


def test_a_command_whose_options_are_not_known_has_advice_that_needs_none(capsys):
    hook = with_last_line("fairseq-preprocess", lambda *_: None, {})
    for error in (OSError(28, "No space left on device"), MemoryError(), NAN):
        hook(type(error), error, error.__traceback__)
    lines = capsys.readouterr().err.splitlines()
    starts = ["no space left on the disk", "out of memory: expected more"]
    assert len(lines) == len(starts)
    assert all(start in line for start, line in zip(starts, lines, strict=True))


def test_of_a_process_that_fairseq_started_the_error_counts():
    assert "--max-tokens 2048 --update-freq 2" in advice("fairseq-train", SPAWNED, given())


def test_generate_without_a_size_has_fairseqs_own():
    error = raising("inference_step", CUDA)
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
def test_without_finite_gradients_given_options_are_lowered(error, arch, flags, changes):
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
    assert advice("fairseq-train", raising("train_step", error), given()) is None


def test_batches_that_fairseq_leaves_out_are_said_once_and_not_without_end(caplog):
    caplog.set_level(logging.WARNING, TRAIN)
    sizes = SimpleNamespace(dataset={"max_tokens": 64}, optimization={"update_freq": [1]})
    done = iter([7] * (LOST_IN_A_ROW - 1) + [8] * LOST_IN_A_ROW)
    trainer = SimpleNamespace(cfg=sizes, get_num_updates=lambda: next(done))
    with pytest.raises(torch.OutOfMemoryError):
        for _ in range(2 * LOST_IN_A_ROW):
            error = raising("train_step", raising("train_step", CUDA.with_traceback(None)))
            Trainer._log_oom(trainer, error)
    assert next(done, None) is None
    assert [re.findall(r"--\S+ \d+", line) for line in caplog.messages if "try" in line] == [
        ["--max-tokens 32", "--update-freq 2", "--max-tokens 64", "--update-freq 1"]
    ]
