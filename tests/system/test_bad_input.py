"""A mistake on a fairseq command line ends with one line that says what is wrong and where."""

import re
import sys
from pathlib import Path

import pytest
from fairseq_cli import generate, train
from fairseq_commands import PLUGIN, SMALL, TRANSLATE, installed

from fairseq_aiayn.repairs.errors import with_last_line

pytestmark = pytest.mark.needs_repairs

# fairseq-train whose first batch asks for more memory than there is
WITHOUT_MEMORY = """
import torch
from fairseq.tasks import FairseqTask
from fairseq_cli.train import cli_main

FairseqTask.train_step = lambda *arguments, **options: torch.empty(10**15)
cli_main()
"""


@pytest.fixture(scope="module")
def checkpoint(data_bin, run, tmp_path_factory):
    """A model after one update."""
    folder = tmp_path_factory.mktemp("one")
    run("fairseq-train", data_bin, *PLUGIN, *SMALL, "--max-update", "1", "--save-dir", folder)
    return folder / "checkpoint_last.pt"


@pytest.fixture
def line_of(data_bin, checkpoint, tmp_path, monkeypatch, capsys):
    """Return a function that runs a command in this process: the line with which it ends."""
    options = {
        train: [*PLUGIN, *SMALL, "--max-update", "2", "--save-dir", tmp_path / "save"],
        generate: [*TRANSLATE, "--path", checkpoint],
    }

    def run(command, *flags: str | Path) -> str:
        arguments = [data_bin, *options.get(command, TRANSLATE), *flags]
        monkeypatch.setattr(sys, "argv", ["fairseq", *map(str, arguments)])
        with pytest.raises(ValueError) as caught:
            command.cli_main()
        capsys.readouterr()
        hook = with_last_line("fairseq", sys.__excepthook__, {})
        hook(caught.type, caught.value, caught.tb)
        (line,) = capsys.readouterr().err.splitlines()
        return line.removeprefix("fairseq: error: ")

    return run


@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        (train, ["--warmup-updates", "0"], "warmup"),
        (train, ["--eval-bleu", "--eval-bleu-args", '{"beam": 0}'], "beam"),
        (generate, ["--lenpen", "-1"], "α"),
        (generate, ["--no-repeat-ngram-size", "2"], "use --task translation"),
    ],
)
def test_wrong_options_are_refused(command, flags, message, line_of, tmp_path):
    assert message in line_of(command, *flags)
    assert not list((tmp_path / "save").glob("*.pt"))


def test_a_truncated_checkpoint_stops_the_resuming_of_a_training(line_of, checkpoint, tmp_path):
    whole, last = checkpoint.read_bytes(), tmp_path / "save" / "checkpoint_last.pt"
    last.parent.mkdir()
    last.write_bytes(whole[: len(whole) // 2])
    assert "checkpoint_last.pt" in line_of(train)
    assert last.stat().st_size == len(whole) // 2


def test_the_command_itself_prints_that_line_and_fails(run, data_bin, tmp_path):
    bad = [*SMALL, "--encoder-embed-dim", "33", "--save-dir", tmp_path]
    done = run(*installed("fairseq-train"), data_bin, *PLUGIN, *bad, fails=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("fairseq-train: error: d_model must be even")


def test_a_training_without_memory_says_last_what_to_lower(run, data_bin, tmp_path):
    """Breaks if only a traceback says it, or if the file that is kept says nothing."""
    program, log = tmp_path / "fairseq-train.py", tmp_path / "log"
    program.write_text(WITHOUT_MEMORY)
    words = [data_bin, *PLUGIN, *SMALL, "--save-dir", tmp_path, "--log-file", log]
    done = run("python", program, *words, fails=True)
    assert "Traceback" in done.stderr
    for text in (done.stderr, log.read_text()):
        (said,) = re.findall(r"^fairseq-.*", text, re.MULTILINE)
        line = "fairseq-train: error: out of memory: try --max-tokens 128 --update-freq 2 instead"
        assert said.startswith(line)


@pytest.mark.parametrize("name", ["generate", "interactive", "validate"])
def test_a_model_of_the_other_direction_is_refused(name, run, data_bin, checkpoint):
    """Unless that is overridden. Breaks if all that says so is a BLEU of 0."""
    words = [f"fairseq-{name}", data_bin, *TRANSLATE, "--path", checkpoint]
    reverse = [*words, "-s", "de", "-t", "en"]
    done = run(*reverse, fails=True)
    line = f"fairseq-{name}: error: {checkpoint}: expected -s en -t de, got -s de -t en"
    assert done.stderr.splitlines()[-1] == line
    if name == "generate":
        run(*reverse, "--model-overrides", "{'source_lang': 'de', 'target_lang': 'en'}")
    if name == "validate":
        run(*words, "-s", "en", "-t", "de")
