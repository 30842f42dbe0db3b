"""A user's mistake on a fairseq command line ends with one line that says what is wrong and
where."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_states import Intruder
from fairseq_cli import generate, interactive, train, validate
from fairseq_commands import PLUGIN, SMALL, TRANSLATE, Run, installed

from fairseq_aiayn.plugin.commands import one_line_for_ours


@pytest.fixture(scope="module")
def checkpoint(data_bin: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model after one update."""
    folder = tmp_path_factory.mktemp("one")
    run("fairseq-train", data_bin, *PLUGIN, *SMALL, "--max-update", "1", "--save-dir", folder)
    return folder / "checkpoint_last.pt"


def line_of(
    main: Callable[[], None],
    arguments: list[str | Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """The line with which a command with these arguments ends."""
    monkeypatch.setattr(sys, "argv", ["fairseq", *map(str, arguments)])
    with pytest.raises(ValueError) as caught:
        main()
    capsys.readouterr()
    one_line_for_ours("fairseq", sys.__excepthook__)(
        caught.type, caught.value, caught.value.__traceback__
    )
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("fairseq: error: ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--encoder-embed-dim", "33"], "d_model must be even"),
        (["--warmup-updates", "0"], "warmup"),
        (["--encoder-layers", "2", "--decoder-layers", "3"], "encoder and decoder have one N"),
        (["--eval-bleu", "--eval-bleu-args", '{"beam": 0}'], "beam"),
        (["--lr-factor", "inf"], "inf"),
    ],
)
def test_training_refuses(flags, message, data_bin, tmp_path, monkeypatch, capsys):
    arguments = [data_bin, *PLUGIN, *SMALL, "--max-update", "1", "--save-dir", tmp_path / "save"]
    assert message in line_of(train.cli_main, [*arguments, *flags], monkeypatch, capsys)
    assert not list((tmp_path / "save").glob("*.pt"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--beam", "1000000"], "48"),
        (["--lenpen", "-1"], "α"),
        (["--no-repeat-ngram-size", "2"], "is not part of the paper's search: use --task trans"),
    ],
)
def test_generation_refuses(flags, message, data_bin, checkpoint, monkeypatch, capsys):
    arguments = [data_bin, *TRANSLATE, "--path", checkpoint]
    assert message in line_of(generate.cli_main, [*arguments, *flags], monkeypatch, capsys)


def test_a_truncated_checkpoint_stops_the_resuming_of_a_training(
    data_bin, checkpoint, tmp_path, monkeypatch, capsys
):
    whole = checkpoint.read_bytes()
    (tmp_path / "checkpoint_last.pt").write_bytes(whole[: len(whole) // 2])
    arguments = [data_bin, *PLUGIN, *SMALL, "--max-update", "2", "--save-dir", tmp_path]
    assert "checkpoint_last.pt" in line_of(train.cli_main, arguments, monkeypatch, capsys)
    assert (tmp_path / "checkpoint_last.pt").stat().st_size == len(whole) // 2


@pytest.mark.parametrize(
    ("main", "flags"),
    [
        (train.cli_main, ["--restore-file"]),
        (train.cli_main, ["--finetune-from-model"]),
        (validate.cli_main, ["--max-tokens", "512", "--path"]),
        (interactive.cli_main, ["--path"]),
        (generate.cli_main, ["--path"]),
    ],
)
def test_a_checkpoint_with_anything_but_data_is_refused_unread(
    main, flags, data_bin, checkpoint, tmp_path, monkeypatch, capsys
):
    state = torch.load(checkpoint)
    state["extra_state"]["intruder"] = Intruder(tmp_path / "mark")
    torch.save(state, tmp_path / "evil.pt")
    model = SMALL if main is train.cli_main else ["--task", "aiayn_translation", "--cpu"]
    saving = ["--save-dir", tmp_path / "save"] if main is train.cli_main else []
    arguments = [data_bin, *PLUGIN, *model, *saving, *flags, tmp_path / "evil.pt"]
    line = line_of(main, arguments, monkeypatch, capsys)
    assert "evil.pt: refused, it asks for posix.system" in line
    assert not (tmp_path / "mark").exists()


def test_the_command_itself_prints_that_line_and_fails(run: Run, data_bin, tmp_path):
    bad = [*SMALL, "--encoder-embed-dim", "33", "--save-dir", tmp_path]
    done = run(*installed("fairseq-train"), data_bin, *PLUGIN, *bad, fails=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("fairseq-train: error: d_model must be even")
