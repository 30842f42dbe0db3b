"""A process of its own: it may import the package before fairseq, and end while fairseq still reads
batches ahead."""

import subprocess
import sys

from fairseq_commands import ROOT, environment
from patience import PATIENCE

PROGRAM = """
import sys, fairseq_aiayn
assert not {"torch", "fairseq"} & set(sys.modules), "a model folder needs neither"

from argparse import Namespace
from fairseq import utils
utils.import_user_module(Namespace(user_dir=sys.argv[1]))
from fairseq.models import ARCH_MODEL_REGISTRY
assert "aiayn_base" in ARCH_MODEL_REGISTRY

import torch
from fairseq.data.iterators import BufferedIterator

class Batches:
    def __len__(self):
        return 10**6
    def __iter__(self):  # nearly always inside a kernel of torch, and far from the end
        for i in range(len(self)):
            yield torch.zeros(1000, 1000).sort()

batches = BufferedIterator(10, Batches())
next(batches)
print("the end")
"""


def test_the_package_registers_and_a_reader_does_not_take_the_process_down():
    """Tests of training import the package after fairseq, as --user-dir does."""
    command = [sys.executable, "-c", PROGRAM, str(ROOT / "fairseq_aiayn")]
    ended = subprocess.run(
        command, check=False, env=environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "the end\n"
    assert "terminate" not in ended.stderr
