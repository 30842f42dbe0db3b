"""How a recipe's training goes on after its processes were killed, on one node and on two."""

import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import fork_server
import pytest
import torch
from fairseq_commands import PLUGIN, SIGNALLED, SMALL, command, environment, parameters
from mirrors import UNREACHABLE
from patience import PATIENCE
from recipe_runs import TRAINING_SAMPLE, call, failure, in_front, with_fork_server, write_tool

from fairseq_aiayn.checkpoints import read_checkpoint

OPTIONS = [*SMALL, *PLUGIN, "--max-update", "12", "--save-interval-updates", "4"]
OPTIONS += ["--no-epoch-checkpoints", "--save-interval", "1000", "--log-interval", "1"]


@pytest.fixture
def trains(tmp_path, data_bin):
    script = write_tool(tmp_path / "sample" / "run.sh", TRAINING_SAMPLE) / "run.sh"
    (tmp_path / "killed.py").write_text(SIGNALLED)
    killed = f'{fork_server.programs() / "python"} {tmp_path / "killed.py"} "$@"'

    def run(*options: object, kills: str = "none", exp: str = "exp", name: str = "SIGKILL"):
        tool = write_tool(tmp_path / "tools" / "fairseq-train", f"exec {killed}\n")
        tools = in_front(tool, with_fork_server())
        (sent := tmp_path / f"sent {exp}").touch()
        tools |= {"SIGNAL": f"{name} {kills}", "SENT": str(sent)}
        (tmp_path / exp).mkdir(exist_ok=True)
        with suppress(FileExistsError):
            (tmp_path / exp / "bin").symlink_to(data_bin)
            (tmp_path / exp / ".done").mkdir()  # bin is a recipe's
        words = [script, "--exp", tmp_path / exp, "--device", "cpu"]
        return call([*words, "--train_options", " ".join(OPTIONS), *options], tmp_path, **tools)

    return run


def done(exp: Path) -> dict[str, torch.Tensor]:
    return parameters(exp / "aiayn-tiny-1" / "checkpoints", 12)


def test_two_nodes_go_on_when_one_loses_its_process(trains, tmp_path):
    with socket.socket() as ours, ThreadPoolExecutor() as both:
        # Bound without listening, its port goes to nobody but torchrun, which asks for it
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ours.bind(("127.0.0.1", 0))
        node = ("--nodes", "2", "--master", f"127.0.0.1:{ours.getsockname()[1]}", "--node_rank")
        nodes = [(*node, str(rank)) for rank in range(2)]
        trainings = [both.submit(trains, *options, kills="1 6") for options in nodes]
    for result in (training.result() for training in trainings):
        assert result.returncode == 0, result.stderr
        assert result.stderr.count("it is started again") == 1
    assert trains("--gpus", "2", exp="undisturbed").returncode == 0
    ends = done(tmp_path / "exp"), done(tmp_path / "undisturbed")
    torch.testing.assert_close(*ends, atol=0, rtol=0)


def test_a_node_that_comes_when_the_training_is_over_ends(trains, tmp_path):
    assert trains().returncode == 0
    master = UNREACHABLE.removeprefix("http://")
    late = trains("--nodes", "2", "--master", master, "--node_rank", "1")
    assert late.returncode == 0 and "started again" not in late.stderr


def test_tries_are_counted_anew_after_each_checkpoint(trains, tmp_path):
    result = trains("--restarts", "0", kills="0 5 9")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("training ended with status 137: it is started again") == 2
    done(tmp_path / "exp")


def test_term_to_a_process_ends_the_recipe_which_can_go_on(trains, tmp_path):
    """Even before the first update: the signal is kept until one can end."""
    result = trains("--gpus", "2", kills="1 0", name="SIGTERM")
    assert result.returncode == 143 and "ended by a signal" in result.stderr
    assert "started again" not in result.stderr
    state = read_checkpoint(tmp_path / "exp/aiayn-tiny-1/checkpoints/checkpoint_last.pt", False)
    assert state["optimizer_history"][-1]["num_updates"] == 1
    assert trains("--gpus", "2").returncode == 0
    done(tmp_path / "exp")


# A process of a training that hears a signal, and has its end from outside Python or not at all
HEARS = """
import os
import signal
import sys
import time
from datetime import timedelta
from unittest.mock import MagicMock
import torch
from fairseq_aiayn.repairs import signals

def wait(seconds):
    store = torch.distributed.TCPStore("127.0.0.1", 0, 1, True)
    print("waits", flush=True)
    time.sleep(float(sys.argv[1]))  # the handler may run before the wait begins
    try:
        store.wait(["what nobody sets"], timedelta(seconds=seconds))
    except torch.distributed.DistStoreError:
        print("comes back", flush=True)
    return [None], False

def nested(frame, event, argument):
    signal.raise_signal(signal.SIGUSR1)
    return nested

signals.STUCK = 0.1
signals.checkpoint_utils.save_checkpoint = print
after = signals.ending_by_signal(lambda *_: wait(1))
"""
LOST = "wait(3600)"
# The first process writes the checkpoint, and the others wait for it
WRITING = """
os.kill(os.getpid(), signal.SIGTERM)
after(MagicMock(), MagicMock(data_parallel_world_size=1), None, None, [], False)
"""
# A terminal sends Ctrl-C to all, and their parent TERM: at each line that handles the one
STORM = """
signals.STUCK = 10
sys.settrace(nested)
os.kill(os.getpid(), signal.SIGTERM)
sys.settrace(None)
print("comes back")
"""


@pytest.fixture
def hears(tmp_path: Path) -> Callable[..., dict]:
    """What starts the process with this script."""

    def starts(script: str, late: str = "0") -> dict:
        (tmp_path / "hears.py").write_text(HEARS + script)
        words = command("python", tmp_path / "hears.py", late)
        return {"args": words, "stdout": subprocess.PIPE, "env": environment()}

    return starts


@pytest.mark.parametrize("late", ["0", "0.2"])
def test_a_process_that_waits_for_one_that_is_gone_ends_by_term(hears, late):
    """Python runs no handler of a signal before such a wait ends."""
    with subprocess.Popen(**hears(LOST, late)) as process:
        assert process.stdout.readline() == b"waits\n"
        process.terminate()
        assert process.wait(PATIENCE) == 143


@pytest.mark.parametrize(("script", "status"), [(WRITING, 143), (STORM, 0)])
def test_a_process_that_hears_a_signal_and_is_not_lost_comes_back(hears, script, status):
    done = subprocess.run(**hears(script), timeout=PATIENCE, check=False)
    assert done.returncode == status and b"comes back" in done.stdout


def test_a_training_that_never_comes_to_the_next_checkpoint_is_given_up(trains):
    assert trains("--restarts", "1", kills="0 1 2 3").returncode == 137


def test_a_wrong_option_is_said_once_and_not_tried_again(trains):
    result = trains("--gpus", "2", "--train_options", " ".join([*OPTIONS, "--no-such-option"]))
    assert failure(result, "5-train").endswith("unrecognized arguments: --no-such-option")
    assert "started again" not in result.stderr


def test_a_recipe_says_the_cause_of_the_process_that_failed_first(trains):
    """And not torchrun's closing line, which is of the others."""
    result = trains("--gpus", "2", "--restarts", "0", kills="1 2", name="SIGKILL")
    assert "Signal 9 (SIGKILL)" in failure(result, "5-train")
