"""A user's mistake on a fairseq command line ends with one line that says what is wrong and
where."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq_cli import generate, interactive, train, validate
from fairseq_commands import PLUGIN, SMALL, Run, installed
from full_disk import full_disk
from intruder import Intruder

from fairseq_aiayn.plugin.guards.error_messages import explain


@pytest.fixture(scope="module")
def checkpoint(data_bin: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model after one update."""
    folder = tmp_path_factory.mktemp("one")
    run("fairseq-train", data_bin, *PLUGIN, *SMALL, "--max-update", "1", "--save-dir", folder)
    return folder / "checkpoint_last.pt"


def line_of(
    main: Callable[[], None], arguments: list[str | Path], monkeypatch: pytest.MonkeyPatch
) -> str:
    """The line with which a command with these arguments ends."""
    monkeypatch.setattr(sys, "argv", ["fairseq", *map(str, arguments)])
    with pytest.raises(Exception) as caught:
        main()
    line = explain(caught.value)
    assert line is not None, f"a traceback: {caught.value!r}"
    return line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--encoder-embed-dim", "33"], "d_model must be even"),
        (["--warmup-updates", "0"], "warmup must be at least 1 in Equation 3, got 0"),
        (["--label-smoothing", "1.5"], "label smoothing ε must be in [0, 1), got 1.5"),
        (["--encoder-layers", "1001"], "N must be at most 1000, got 1001"),
        (["--dropout", "-0.1"], "P_drop must be in [0, 1), got -0.1"),
        (["--encoder-layers", "2", "--decoder-layers", "3"], "encoder and decoder have one N"),
        (["--eval-bleu", "--eval-bleu-args", '{"beam": 0}'], "beam size must be at least 1"),
        (["--eval-bleu", "--eval-bleu-args", "x"], "an option of --eval-bleu: cannot be used as"),
        (["--label-smoothing", "nan"], "label smoothing ε must be in [0, 1), got nan"),
        (["--dropout", "nan"], "P_drop must be in [0, 1), got nan"),
        (["--adam-eps", "0"], "--adam-eps must be a number above 0, got 0.0"),
        (["--lr-factor", "inf"], "the learning-rate factor must be a positive number, got inf"),
        (["--update-freq", "0"], "--update-freq must be a number from 1 to inf, got [0]"),
        (["--required-batch-size-multiple", "0"], "-multiple must be a number from 1 to inf, got"),
        (["--max-tokens", "9" * 25], "a number is too large: "),
        (["--num-workers", "1001"], "--num-workers must be a number from 0 to 1000, got 1001"),
        (["--seed", "-1"], "Seed must be between 0 and"),
        (["--learned-positions", "--max-target-positions", "0"], "must be at least 1, got 1024"),
        (["--distributed-world-size", "0"], "--distributed-world-size 0: no process can start"),
        (["--lr-factor", "1e30", "--max-update", "3"], "NaN or infinite in update 2: the learning"),
        (
            ["--finetune-from-model", "nowhere.pt"],
            "--finetune-from-model nowhere.pt does not exist",
        ),
    ],
)
def test_training_refuses(flags, message, data_bin, tmp_path, monkeypatch):
    arguments = [data_bin, *PLUGIN, *SMALL, "--max-update", "1", "--save-dir", tmp_path / "save"]
    assert message in line_of(train.cli_main, [*arguments, *flags], monkeypatch)
    # fairseq saves a checkpoint of the point where the numbers became NaN
    assert {path.name for path in (tmp_path / "save").glob("*.pt")} <= {"crash.pt"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--beam", "0"], "the beam size must be at least 1, got 0"),
        (["--beam", "1000000"], "the beam size must be at most 48, the types of the target dict"),
        (["--max-len-a", "nan"], "max_len_a must be a number from 0 to 100, got nan"),
        (["--max-len-a", "101"], "max_len_a must be a number from 0 to 100, got 101.0"),
        (["--max-len-b", "2147483648"], "max_len_b must be at most 100,000, got 2,147,483,648"),
        (["--model-overrides", "x"], "an option: cannot be used as it is given (ValueError: malf"),
        (["--post-process", "x"], "Unknown post_process option: x"),
        (["--replace-unk"], "--replace-unk requires a raw text dataset"),
        (["--bpe", "subword_nmt"], "subword_nmt: cannot be used as it is given (Missing"),
        (["--skip-invalid-size-inputs-valid-test", "--max-source-positions", "1"], "no sentence"),
        (["--lenpen", "-1"], "the length penalty α must be a number from 0 to 8, got -1.0"),
        (["--lenpen", "9"], "the length penalty α must be a number from 0 to 8, got 9.0"),
        (["--no-repeat-ngram-size", "2"], "is not part of the paper's search: use --task trans"),
        (["--path", "nowhere.pt"], "Model file not found: nowhere.pt"),
        (["--max-source-positions", "3"], "is invalid"),
        (["--max-tokens", "3"], "should not exceed max_tokens=3"),
        (["--no-early-stop"], "is not part of the paper's search: use --task translation"),
    ],
)
def test_generation_refuses(flags, message, data_bin, checkpoint, monkeypatch):
    arguments = [data_bin, *PLUGIN, "--task", "aiayn_translation", "--cpu", "--path", checkpoint]
    assert message in line_of(generate.cli_main, [*arguments, *flags], monkeypatch)


STOCK = [
    *("--task", "translation", "--arch", "transformer", "--cpu", "--share-all-embeddings"),
    *("--optimizer", "adam", "--max-tokens", "256", "--num-workers", "0", "--lr", "0.001"),
    *(
        f"--{side}-{name}"
        for side in ("encoder", "decoder")
        for name in ("layers=1", "embed-dim=8")
    ),
]


def copied(data_bin: Path, directory: Path) -> Path:
    """A copy of the binarized data, which a test may damage."""
    return Path(shutil.copytree(data_bin, directory / "bin"))


@pytest.mark.parametrize("model", [SMALL, STOCK], ids=["own", "stock"])
def test_a_damaged_dictionary_is_named(model, data_bin, tmp_path, monkeypatch):
    data = copied(data_bin, tmp_path)
    (data / "dict.en.txt").write_bytes((data / "dict.en.txt").read_bytes()[:-30])
    message = "dict.en.txt:43: must be a word and how often it occurs, is 'made'"
    arguments = [data, *PLUGIN, *model, "--max-update", "1", "--save-dir", tmp_path / "save"]
    assert message in line_of(train.cli_main, arguments, monkeypatch)


@pytest.mark.parametrize(("model", "split"), [(SMALL, "train"), (SMALL, "valid"), (STOCK, "valid")])
def test_data_without_a_target_is_no_training(model, split, data_bin, tmp_path, monkeypatch):
    data = copied(data_bin, tmp_path)
    for ending in ("idx", "bin"):
        (data / f"{split}.en-de.de.{ending}").unlink()
    arguments = [data, *PLUGIN, *model, "--max-update", "1", "--save-dir", tmp_path / "save"]
    line = line_of(train.cli_main, arguments, monkeypatch)
    assert "must have a target side, has only a source side" in line


def test_text_without_a_target_is_translated_whatever_its_split(
    data_bin, checkpoint, tmp_path, run
):
    """Breaks if monolingual text must not be called "train", as fairseq-preprocess calls it."""
    data = copied(data_bin, tmp_path)
    for ending in ("idx", "bin"):
        (data / f"train.en-de.de.{ending}").unlink()
    arguments = [data, *PLUGIN, "--task", "aiayn_translation", "--cpu", "--path", checkpoint]
    done = run("fairseq-generate", *arguments, "--gen-subset", "train", "--beam", "1")
    assert "\nH-0\t" in done.stdout


@pytest.mark.parametrize("main", [validate.cli_main, interactive.cli_main, generate.cli_main])
def test_a_command_without_a_checkpoint_says_so(main, data_bin, monkeypatch):
    arguments = [data_bin, *PLUGIN, "--task", "aiayn_translation", "--cpu", "--max-tokens", "256"]
    assert line_of(main, arguments, monkeypatch).startswith("--path ")


def test_text_to_translate_is_utf_8(data_bin, checkpoint, tmp_path, monkeypatch):
    (tmp_path / "text").write_bytes(b"w1 w\xe4\n")
    arguments = [data_bin, *PLUGIN, "--task", "aiayn_translation", "--cpu", "--path", checkpoint]
    line = line_of(interactive.cli_main, [*arguments, "--input", tmp_path / "text"], monkeypatch)
    assert line == f"{tmp_path}/text: must be UTF-8, is not"


def test_weights_that_are_no_numbers_end_a_training(data_bin, checkpoint, tmp_path, monkeypatch):
    state = torch.load(checkpoint)
    for weight in state["model"].values():
        weight.fill_(torch.nan)
    torch.save(state, tmp_path / "nan.pt")
    arguments = [data_bin, *PLUGIN, *SMALL, "--max-update", "2", "--save-dir", tmp_path / "save"]
    arguments += ["--restore-file", tmp_path / "nan.pt"]
    assert "the checkpoint that the training began with has such weights" in line_of(
        train.cli_main, arguments, monkeypatch
    )


def test_a_checkpoint_whose_configuration_is_broken_is_named(
    data_bin, checkpoint, tmp_path, monkeypatch
):
    state = torch.load(checkpoint)
    state["cfg"]["model"].autocast = "float8"
    torch.save(state, tmp_path / "odd.pt")
    arguments = [data_bin, *PLUGIN, "--task", "aiayn_translation", "--cpu"]
    line = line_of(generate.cli_main, [*arguments, "--path", tmp_path / "odd.pt"], monkeypatch)
    expected = "aiayn_tiny: cannot be used as it is given (KeyError: 'float8')"
    assert line == f"{tmp_path}/odd.pt: {expected}"


def test_a_dictionary_of_another_size_is_named(data_bin, checkpoint, tmp_path, monkeypatch):
    for language in ("en", "de"):
        words = (data_bin / f"dict.{language}.txt").read_text()
        (tmp_path / f"dict.{language}.txt").write_text(words + "more 1\n")
    arguments = [tmp_path, *PLUGIN, "--task", "aiayn_translation", "--cpu", "--path", checkpoint]
    line = line_of(generate.cli_main, [*arguments, "-s", "en", "-t", "de"], monkeypatch)
    assert "does not fit" in line and "another vocabulary than the dictionary's" in line


def test_a_truncated_checkpoint_stops_the_resuming_of_a_training(
    data_bin, checkpoint, tmp_path, monkeypatch
):
    whole = checkpoint.read_bytes()
    (tmp_path / "checkpoint_last.pt").write_bytes(whole[: len(whole) // 2])
    arguments = [data_bin, *PLUGIN, *SMALL, "--max-update", "2", "--save-dir", tmp_path]
    assert "checkpoint_last.pt" in line_of(train.cli_main, arguments, monkeypatch)
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
    main, flags, data_bin, checkpoint, tmp_path, monkeypatch
):
    state = torch.load(checkpoint)
    state["extra_state"]["intruder"] = Intruder(tmp_path / "mark")
    torch.save(state, tmp_path / "evil.pt")
    model = SMALL if main is train.cli_main else ["--task", "aiayn_translation", "--cpu"]
    saving = ["--save-dir", tmp_path / "save"] if main is train.cli_main else []
    arguments = [data_bin, *PLUGIN, *model, *saving, *flags, tmp_path / "evil.pt"]
    line = line_of(main, arguments, monkeypatch)
    assert "evil.pt: refused, it asks for posix.system" in line
    assert not (tmp_path / "mark").exists()


def test_a_sentence_of_10000_words_is_named_when_translating(
    data_bin, checkpoint, tmp_path, monkeypatch
):
    (tmp_path / "long").write_text("w1 w2\n" + "w1 " * 10_000 + "\n")
    arguments = [data_bin, *PLUGIN, "--task", "aiayn_translation", "--cpu", "--path", checkpoint]
    reading = ["--input", tmp_path / "long", "--buffer-size", "2"]
    line = line_of(interactive.cli_main, [*arguments, *reading], monkeypatch)
    assert "Size of sample #1 is invalid" in line and "10001" in line and "1024" in line


def test_the_command_itself_prints_that_line_and_fails(run: Run, data_bin, tmp_path):
    bad = [*SMALL, "--encoder-embed-dim", "33", "--save-dir", tmp_path]
    done = run(*installed("fairseq-train"), data_bin, *PLUGIN, *bad, fails=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "fairseq-train: error: d_model must be even, sine and cosine come in pairs; got 33"
    )
    assert "Traceback" not in done.stderr


def test_a_full_disk_keeps_the_checkpoints_before_it(data_bin, checkpoint, tmp_path, monkeypatch):
    """fairseq tries three times."""
    before = checkpoint.read_bytes()
    (tmp_path / "checkpoint_last.pt").write_bytes(before)
    arguments = [data_bin, *PLUGIN, *SMALL, "--max-update", "2", "--save-dir", tmp_path]
    monkeypatch.setattr(checkpoint_utils.time, "sleep", lambda seconds: None)
    with full_disk(len(before) // 4):
        line = line_of(train.cli_main, arguments, monkeypatch)
    assert "File too large" in line
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == before
    assert torch.load(tmp_path / "checkpoint_last.pt")["model"]
