"""How fairseq's commands end and log: one line for errors of this package, each line once."""

import logging
import re
import sys
from types import ModuleType

import pytest
from building import parse
from fairseq.logging import progress_bar

from fairseq_aiayn.paper import find_row
from fairseq_aiayn.plugin.commands import command_name, one_line, training_program, with_last_line


def raised(action, *arguments: object) -> BaseException:
    with pytest.raises(Exception) as caught:
        action(*arguments)
    return caught.value


def test_only_our_value_errors_are_shortened(monkeypatch, capsys):
    """Breaks if a fault of fairseq, torch or Python loses its traceback, or if ours has one."""
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


def raising(name: str, error: Exception, module: str) -> BaseException:
    """The error, raised by a function of this name in a module."""
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
    """Breaks if an error in the middle of the work, or one without words, loses its traceback."""
    found = raising(name, error, module)
    assert one_line(found, found.__traceback__) == (str(error) if is_short else None)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("--arch aiayn_bas", "argument --arch/-a: expected aiayn_base, .*, got 'aiayn_bas'"),
        ("--arch qqqq", r"argument --arch/-a: expected \w+, .*, got 'qqqq'"),
        ("--log-format jsn", "argument --log-format: expected json, got 'jsn'"),
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
    """Breaks if `python -m fairseq_cli.train` or torchrun start a training that forgets."""
    program = ModuleType("__main__")
    program.validate_and_save = None
    monkeypatch.setitem(sys.modules, "__main__", program)
    assert training_program() is program


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
    """Breaks if it fails in the first validation, without a word of the other option, or never: the
    checkpoint with the least BLEU would be the best one."""
    words = ["--arch", "aiayn_tiny", *flags.split()]
    with pytest.raises(ValueError, match=f"{words[2]}.*: expected {missing}"):
        parse(*words)
    parse(*words, *given.split())


@pytest.mark.parametrize("flags", ["ctc", "sentence_ranking", "cross_entropy --task denoising"])
def test_a_training_whose_checkpoints_would_be_refused_does_not_begin(flags):
    words = ["--arch", "aiayn_tiny", "--criterion", *flags.split()]
    with pytest.raises(ValueError, match="is not known to be harmless in a checkpoint"):
        parse(*words)
    parse(*words, "--no-save")
    with pytest.raises(ValueError, match="model 'lightconv' is not known"):
        parse("--arch", "lightconv")
    parse("--arch", "transformer", "--criterion", "label_smoothed_cross_entropy_with_rdrop")


def test_bf16_does_not_ask_for_a_tpu():
    """Breaks if it ends with an error on a GPU, because fairseq takes it for a TPU's option."""
    assert not parse("--arch", "transformer", "--bf16").tpu


@pytest.fixture
def own_handlers(monkeypatch):
    """The handlers of fairseq's progress bar, closed after the test."""
    handlers: list[logging.Handler] = []
    monkeypatch.setattr(progress_bar.logger, "handlers", handlers)
    monkeypatch.setattr(progress_bar.logger, "level", logging.INFO)
    yield handlers
    for handler in handlers:
        handler.close()


def test_each_line_of_a_training_is_in_its_log_once(own_handlers, tmp_path):
    first, other = tmp_path / "first.log", tmp_path / "other.log"
    for epoch, path in enumerate([first, first, other, first], start=1):
        bar = progress_bar.progress_bar(
            [1], log_format="json", log_file=str(path), epoch=epoch, prefix="train"
        )
        bar.print({"epoch": epoch}, tag="train")
    assert [path.read_text().count('"epoch": 4') for path in (first, other)] == [1, 1]
    assert first.read_text().count("\n") == 4
    assert len(own_handlers) == 2
