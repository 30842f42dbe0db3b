"""runs/progress.py: a display never ends the command that it shows, and its log is whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

from fairseq_aiayn.runs import progress

START = "2026-01-31 12:00:00 | INFO | "
INNER = {"loss": "9.1", "ppl": "77.5", "wps": "2450", "num_updates": "400"}
UNREADABLE = [
    f"{START}train_inner | {json.dumps(INNER)} {{}}\n",
    f'{START}train_inner | {{"epoch": 1,\n',
    f'{START}valid | {{"valid_num_updates": null}}\n',
    f"{{'max_update': {'9' * 5000}}}\n",
    f"{START}valid | {'{' * 100_000}\n",
    "no line end",
]


def show(directory: Path, lines: list[str], **streams: int) -> subprocess.CompletedProcess:
    """Run the display on these lines, with a log beside them."""
    command = [sys.executable, "-m", progress.__name__, "--log", directory / "log"]
    return subprocess.run(command, input="".join(lines).encode(), check=False, **streams)


def test_what_cannot_be_read_is_kept_and_passed_over(tmp_path):
    last = f'{START}valid | {{"valid_ppl": "8.5", "valid_num_updates": "900"}}\n'
    lines = [*UNREADABLE[:-1], last, "10%|#   |\r", UNREADABLE[-1]]
    done = show(tmp_path, lines, stderr=subprocess.PIPE)
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    assert b"update    900: " in done.stderr and b"10%|#   |\r" in done.stderr
    assert (tmp_path / "log").read_text() == "".join(lines).replace("10%|#   |\r", "")


def test_a_broken_terminal_costs_no_line_of_the_log(tmp_path):
    """Breaks if the program that writes gets SIGPIPE, or the display's status ends a recipe."""
    lines = [f"{START}train_inner | {json.dumps(INNER)}\n", "10%|#   |\r", "words\n"] * 60
    read, write = os.pipe()
    os.close(read)
    done = show(tmp_path, lines, stderr=write)
    os.close(write)
    assert done.returncode == 0
    assert (tmp_path / "log").read_text() == "".join(line for line in lines if line[-1] == "\n")


def test_a_full_disk_does_not_end_the_command(tmp_path):
    (tmp_path / "log").symlink_to("/dev/full")
    done = show(tmp_path, ["words\n"] * 9999, stderr=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stderr.count(b"No space left on device") == 1
