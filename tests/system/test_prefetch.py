"""A command that ends while fairseq still reads batches ahead ends without an error."""

from __future__ import annotations

import subprocess
import sys

from fairseq_commands import ROOT, environment
from patience import PATIENCE

# A reader that is nearly always inside a kernel of torch, and far from its end
READING = """
import sys, threading, torch
from fairseq import utils
from fairseq.data.iterators import BufferedIterator
from argparse import Namespace

utils.import_user_module(Namespace(user_dir=sys.argv[1]))

class Batches:
    def __len__(self):
        return 10**6
    def __iter__(self):
        for i in range(len(self)):
            yield torch.zeros(1000, 1000).sort()

batches = BufferedIterator(10, Batches())
next(batches)
print("the end")
"""


def test_a_reader_does_not_take_the_process_down():
    command = [sys.executable, "-c", READING, str(ROOT / "fairseq_aiayn")]
    ended = subprocess.run(
        command, check=False, env=environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "the end\n"
    assert "terminate" not in ended.stderr
