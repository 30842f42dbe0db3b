"""Training by several processes equals, and is continued like, one with a larger --update-freq."""

import re
import signal
import socket
from pathlib import Path

import pytest
import torch
from fairseq_commands import (
    PLUGIN,
    SIGNALLED,
    SMALL,
    TRANSLATE,
    Run,
    command,
    development_losses,
    losses,
    parameters,
)

from fairseq_aiayn.checkpoints import read_checkpoint
from fairseq_aiayn.repairs.agreement import what_differs

pytestmark = pytest.mark.needs_repairs

UPDATES = 12
# Dropout is off, because its draws differ between two processes and two accumulated batches
OPTIONS = [*SMALL, "--dropout", "0.0", "--max-update", str(UPDATES), "--save-interval-updates", "4"]
OPTIONS += ["--no-epoch-checkpoints", "--save-interval", "1000", "--log-format", "json"]
OPTIONS += ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 5}']
# 15 batches an epoch: of the last update's four on two processes, one is empty
OPTIONS += ["--max-tokens", "280", "--update-freq", "2"]
# fairseq-train on a GPU that it thinks it has, and Ctrl-C in its terminal
SPAWNING = """
import os, signal, torch
from fairseq.trainer import Trainer
from fairseq_cli.train import cli_main

torch.cuda.device_count = lambda: 1
train_step = Trainer.train_step

def signalled(trainer, *arguments, **options):
    if trainer.is_data_parallel_master and trainer.get_num_updates() == 2:
        os.killpg(0, signal.SIGINT)
    return train_step(trainer, *arguments, **options)

Trainer.train_step = signalled
if __name__ == "__main__":
    cli_main()
"""


def processes(count: int, program: list[str], *arguments: str | Path) -> list[str | Path]:
    return [
        *("torchrun", "--standalone", "--nproc-per-node", str(count), "--no-python", *program),
        *(*arguments, "--distributed-world-size", str(count), "--distributed-rank", "-1"),
        *("--distributed-backend", "gloo", "--distributed-init-method", "env://"),
        *("--distributed-no-spawn", "--ddp-backend", "legacy_ddp"),
    ]


@pytest.fixture(scope="module")
def two(run: Run, data_bin: Path, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("two")
    arguments = [data_bin, *PLUGIN, *OPTIONS, "--save-dir", directory]
    done = run(*processes(2, command("fairseq-train"), *arguments))
    (directory / "output").write_text(done.stdout + done.stderr)
    return directory


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    (tmp_path / "train.py").write_text(SIGNALLED)
    return command("python", tmp_path / "train.py")


def test_two_processes_equal_one_with_twice_the_update_frequency(run: Run, data_bin, two, tmp_path):
    arguments = [data_bin, *PLUGIN, *OPTIONS, "--update-freq", "4", "--save-dir", tmp_path]
    done = run("fairseq-train", *arguments)
    ends = [parameters(directory, UPDATES) for directory in (two, tmp_path)]
    torch.testing.assert_close(*ends, atol=1e-5, rtol=1e-4)
    logs = (two / "output").read_text(), done.stdout + done.stderr
    assert losses(logs[0]) == losses(logs[1])
    assert len(losses(logs[0])) == UPDATES
    assert development_losses(logs[0]) == development_losses(logs[1])
    assert len(development_losses(logs[0])) == UPDATES // 4


def test_what_two_processes_wrote_can_be_used(run: Run, data_bin, two, tmp_path):
    """Breaks if a number that fairseq reduces, and so stores as a tensor, is refused."""
    model, last = tmp_path / "average.pt", two / "checkpoint_last.pt"
    run("aiayn", "average", "--last", "3", "--dir", two, "--output", model)
    assert "--max-update" in run("aiayn", "diagnose", last).stdout
    run("fairseq-validate", data_bin, *TRANSLATE, "--path", last)
    translations = run("fairseq-generate", data_bin, *TRANSLATE, "--path", model).stdout
    assert translations.count("\nH-") == 20


def test_processes_of_other_options_or_text_are_refused(run, data_bin, tmp_path, monkeypatch):
    for name in ("train.en", "train.de", "valid.en", "valid.de"):
        lines = (data_bin.parent / name).read_text().splitlines()
        (tmp_path / name).write_text("".join(f"{line}\n" for line in reversed(lines)))
    words = ["-s", "en", "-t", "de", "--srcdict", data_bin / "dict.en.txt", "--joined-dictionary"]
    words += [f"--{split}pref={tmp_path / split}" for split in ("train", "valid")]
    run("fairseq-preprocess", *words, "--destdir", tmp_path / "1")
    (tmp_path / "0").symlink_to(data_bin)
    program = ["bash", "-c", 'exec "$@" --lr-factor "$((RANK + 1))" "$DATA/$RANK"', "bash"]
    monkeypatch.setenv("DATA", str(tmp_path))
    arguments = [*PLUGIN, *OPTIONS, "--save-dir", tmp_path]
    done = run(*processes(2, [*program, *command("fairseq-train")], *arguments), fails=True)
    host = socket.gethostname()
    said = f"process 0 on {host} and 1 on {host}: --lr-factor 1.0 and 2.0"
    assert re.search(rf"{said}, their lengths \w+ and \w+; all must be", done.stderr)
    assert not [*tmp_path.glob("*.pt")]
    assert what_differs({}, {"--clip": "1"}) == "--clip None and 1"


def test_a_signal_to_the_parent_ends_what_fairseq_starts(run: Run, data_bin, tmp_path):
    (tmp_path / "train.py").write_text(SPAWNING)
    several = ["--distributed-backend", "gloo", "--distributed-world-size", "1"]
    several += ["--distributed-init-method", f"file://{tmp_path}/meeting"]  # no port can be taken
    arguments = [data_bin, *PLUGIN, *SMALL, *several, "--ddp-backend", "legacy_ddp"]
    most = ["--max-update", "5000", "--disable-validation", "--save-dir", tmp_path / "ck"]
    ended = run("python", tmp_path / "train.py", *arguments, *most, fails=True)
    assert ended.returncode == 128 + signal.SIGTERM
    history = read_checkpoint(tmp_path / "ck" / "checkpoint_last.pt")["optimizer_history"]
    assert 2 < history[-1]["num_updates"] < 5000


def test_a_signal_to_one_ends_both_and_they_go_on(run, data_bin, tmp_path, script, monkeypatch):
    """To the bit. Breaks if what --fp16 keeps, as its float32 weights, is not restored."""
    arguments = [data_bin, *PLUGIN, *OPTIONS, "--disable-validation", "--fp16"]
    arguments += ["--fp16-init-scale", "4", "--save-dir"]
    run(*processes(2, script, *arguments, tmp_path / "undisturbed"))
    monkeypatch.setenv("SIGNAL", "SIGTERM 1 6")
    words = [*arguments, tmp_path / "ended", "--num-workers", "1"]
    ended = run(*processes(2, script, *words), fails=True)
    assert "update 1 is done; TERM now ends with a checkpoint" in ended.stdout + ended.stderr
    parameters(tmp_path / "ended", 7)  # the running update ends
    monkeypatch.delenv("SIGNAL")
    run(*processes(2, script, *arguments, tmp_path / "ended"))
    ends = [parameters(tmp_path / name, UPDATES) for name in ("undisturbed", "ended")]
    torch.testing.assert_close(*ends, atol=0, rtol=0)
