"""Nodes that train together find each other again after one was lost, in whatever order they come
back."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import PATIENCE
from recipe_runs import TRAINING_SAMPLE, environment, in_front, with_fork_server, write_tool

# Runs until it is told how to end; a peer that is lost goes unnoticed, as it can with NCCL.
TORCHRUN = """
while [[ $1 != --node-rank ]]; do shift; done
node=$2 exp=$EXP
n=1
while [[ -e $exp/started-$node-$n ]]; do ((n += 1)); done
mkdir -p "$exp/run/checkpoints"
read -r attempt _ <"$exp/run/.attempt"
echo "$attempt" >"$exp/part-$node"
mv "$exp/part-$node" "$exp/started-$node-$n"
end() {
    touch "$exp/ended-$node-$n"
    while [[ -e $exp/hold-$node ]]; do sleep 0.1; done
    exit 143
}
trap end TERM
until [[ -e $exp/end-$node-$n ]]; do sleep 0.1; done
exit "$(<"$exp/end-$node-$n")"
"""


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


class Nodes:
    """Two nodes with one file system, each a recipe with its torchrun."""

    def __init__(self, directory: Path) -> None:
        self.exp = directory / "exp"
        self.script = write_tool(directory / "sample" / "run.sh", TRAINING_SAMPLE) / "run.sh"
        write_tool(directory / "tools" / "sleep", "exec /bin/sleep 0.1")  # for the recipe's seconds
        self.tools = write_tool(directory / "tools" / "torchrun", TORCHRUN)
        self.running: dict[int, subprocess.Popen] = {}
        self.heard: dict[int, int] = {}  # how much a node had said before it was last started

    def start(self, node: int, *options: str) -> None:
        command = [self.script, "--exp", self.exp, "--needs_mb", "1", "--gpus", "2"]
        command += ["--nodes", "2", "--master", "127.0.0.1:29400", "--node_rank", str(node)]
        command += options
        errors = (self.exp.parent / f"stderr-{node}").open("a")
        self.heard[node] = errors.tell()
        self.running[node] = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment(**in_front(self.tools, with_fork_server()), EXP=str(self.exp)),
        )

    def lose(self, node: int) -> None:
        """What a power cut does to the recipe; its torchrun stays, as a process that hangs."""
        self.running[node].send_signal(signal.SIGKILL)
        self.running.pop(node).wait()

    def started(self, node: int, time: int) -> str:
        """Wait until a node starts torchrun for the so-many-th time; return the attempt."""
        file = self.exp / f"started-{node}-{time}"
        until(file.exists, f"node {node} starts {time} times")
        return file.read_text().strip()

    def end(self, node: int, time: int, status: int) -> None:
        (self.exp / f"end-{node}-{time}").write_text(str(status))

    def meet(self, first: int, second: int) -> str:
        """Wait until the nodes are in one attempt, which they start for these times."""
        attempts = {self.started(0, first), self.started(1, second)}
        assert len(attempts) == 1, "they train together"
        return attempts.pop()

    def write_checkpoint(self) -> None:
        """Write a whole checkpoint of five updates, as the training would."""
        path = self.exp / "run" / "checkpoints" / "checkpoint_1_5.pt"
        path.write_bytes(b"PK\5\6" + bytes(18))

    def finish(self, first: int, second: int) -> None:
        self.end(1, second, 0)
        self.end(0, first, 0)
        for node in (1, 0):
            assert self.running[node].wait(PATIENCE) == 0, self.said(node)
        assert not (self.exp / f"started-0-{first + 1}").exists()
        assert not (self.exp / f"started-1-{second + 1}").exists()

    def waits(self, node: int) -> None:
        """Check that a node waits for node 0."""
        process, heard = self.running[node], self.heard[node]
        until(
            lambda: "waits for node 0" in self.said(node)[heard:] or process.poll() is not None,
            f"node {node} waits or ends",
        )
        time.sleep(0.5)
        assert process.poll() is None, self.said(node)

    def said(self, node: int) -> str:
        return (self.exp.parent / f"stderr-{node}").read_text()


@pytest.fixture
def nodes(tmp_path):
    both = Nodes(tmp_path)
    yield both
    for process in both.running.values():
        process.send_signal(signal.SIGTERM)
        process.wait()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_nodes_start_in_any_order(nodes, order):
    for node in order:
        nodes.start(node)
        time.sleep(0.5)
    nodes.meet(1, 1)
    nodes.finish(1, 1)


def test_a_node_that_comes_back_first_does_not_join_what_is_over(nodes):
    """Node 0 has not noticed: the attempt that it is in is ended, and both begin another."""
    nodes.start(0)
    nodes.start(1)
    old = nodes.meet(1, 1)
    nodes.lose(1)
    nodes.start(1)
    assert nodes.meet(2, 2) != old
    assert (nodes.exp / "ended-0-1").exists()
    nodes.finish(2, 2)
    assert "training ended with status 75: it is started again" in nodes.said(0)


def test_node_0_comes_back_and_the_other_leaves_what_it_was_in(nodes):
    nodes.start(0)
    nodes.start(1)
    old = nodes.meet(1, 1)
    nodes.lose(0)
    nodes.start(0)
    assert nodes.meet(2, 2) != old
    nodes.finish(2, 2)


def test_a_node_that_comes_back_late_joins_the_attempt_that_waits_for_it(nodes):
    nodes.start(0)
    nodes.start(1)
    nodes.meet(1, 1)
    nodes.lose(1)
    nodes.write_checkpoint()
    nodes.end(0, 1, 1)
    nodes.started(0, 2)
    time.sleep(0.5)
    nodes.start(1)
    nodes.meet(2, 2)
    nodes.finish(2, 2)


def test_a_node_that_is_lost_again_before_it_joined_comes_back_all_the_same(nodes):
    nodes.start(0)
    nodes.start(1)
    nodes.meet(1, 1)
    hold = nodes.exp / "hold-0"  # node 0 begins no other attempt
    hold.touch()
    nodes.lose(1)
    nodes.start(1)
    until((nodes.exp / "run" / ".wanted-1").exists, "node 1 asks for an attempt")
    until((nodes.exp / "ended-0-1").exists, "node 0 ends the one that it is in")
    nodes.lose(1)
    nodes.start(1)
    hold.unlink()
    nodes.meet(2, 2)
    nodes.lose(1)
    nodes.start(1)
    nodes.meet(3, 3)
    nodes.finish(3, 3)


def test_both_come_back_at_once(nodes):
    nodes.start(0)
    nodes.start(1)
    old = nodes.meet(1, 1)
    nodes.lose(0)
    nodes.lose(1)
    nodes.start(1)
    nodes.start(0)
    assert nodes.meet(2, 2) != old
    nodes.finish(2, 2)


def test_a_node_that_ended_well_trains_again_where_node_0_did_not(nodes):
    nodes.start(0)
    nodes.start(1)
    nodes.meet(1, 1)
    nodes.end(1, 1, 0)
    nodes.write_checkpoint()
    nodes.end(0, 1, 1)
    nodes.meet(2, 2)
    nodes.finish(2, 2)


@pytest.mark.parametrize("end", ["failed", "over"])
def test_how_an_earlier_run_ended_says_nothing_of_this_one(nodes, end):
    (nodes.exp / "run").mkdir(parents=True)
    (nodes.exp / "run" / ".attempt").write_text(f"{end}\n")
    nodes.start(1)
    nodes.waits(1)
    nodes.start(0)
    nodes.meet(1, 1)
    nodes.finish(1, 1)


def test_a_training_that_is_over_ends_a_node_that_comes_late_unless_it_is_forced(nodes):
    nodes.start(0)
    nodes.start(1)
    nodes.meet(1, 1)
    nodes.write_checkpoint()
    nodes.finish(1, 1)
    (nodes.exp / "node-1" / ".done" / "5-train").unlink()  # as if it had been lost before
    nodes.start(1)
    assert nodes.running[1].wait(PATIENCE) == 0, nodes.said(1)

    nodes.start(1, "--force")
    nodes.waits(1)
    nodes.start(0, "--force")
    nodes.meet(2, 2)
    nodes.finish(2, 2)


def test_a_training_that_node_0_gives_up_ends_on_the_other_too(nodes):
    nodes.start(0)
    nodes.start(1)
    nodes.meet(1, 1)
    nodes.end(1, 1, 1)
    nodes.end(0, 1, 3)
    assert nodes.running[0].wait(PATIENCE) == 3
    assert nodes.running[1].wait(PATIENCE) == 1
    assert "node 0 has given up the training" in nodes.said(1)
