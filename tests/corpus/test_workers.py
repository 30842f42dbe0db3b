"""Work in several processes ends in order, and with its parent."""

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

import fairseq_aiayn
from fairseq_aiayn.corpus.workers import TASKS_PER_WORKER, in_order


@pytest.fixture(autouse=True)
def _no_process_is_left():
    yield
    assert not multiprocessing.active_children()


def square(number: int) -> int:
    if number == 13:
        raise ValueError("13 is not allowed")
    return number * number


@pytest.mark.parametrize("workers", [1, 3])
def test_every_task_is_done_in_order_and_few_are_drawn_ahead_of_the_results(workers):
    drawn = []
    tasks = (drawn.append(number) or number for number in range(-40, -1))
    for done, result in enumerate(in_order(square, tasks, workers)):
        assert result == (done - 40) ** 2
        assert len(drawn) - done <= workers * TASKS_PER_WORKER
    assert done == 38 and list(in_order(square, [], workers)) == []


def test_the_first_error_ends_all_tasks():
    endless = itertools.count()
    with pytest.raises(ValueError, match="^13 is not allowed$"):
        list(in_order(square, endless, 1))
    assert next(endless) <= 13 + TASKS_PER_WORKER  # 0, 1, ..., 13 and those that were waiting


def test_workers_end_when_their_parent_is_killed():
    code = """
import os, time
from fairseq_aiayn.corpus.workers import in_order
def work(number):
    os.write(1, b"%d\\n" % os.getpid())  # in one piece, whatever the other one writes
    time.sleep(600)
list(in_order(work, range(2), 2))
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(fairseq_aiayn.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    try:
        parent.communicate(timeout=PATIENCE)  # until the last that could write has ended
    except subprocess.TimeoutExpired:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        pytest.fail("the workers live on")
