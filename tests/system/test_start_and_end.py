"""A process that imports the package changes nothing before --user-dir, and may end at any time."""

import pytest
from fairseq_commands import ROOT, installed

PROGRAM = """
import sys, fairseq_aiayn
assert not {"torch", "fairseq"} & set(sys.modules), "a model folder needs neither"

import importlib, os
import fairseq_cli.generate, fairseq_cli.train, torch
from argparse import Namespace
from pathlib import Path
from fairseq import checkpoint_utils, utils
from fairseq.models import ARCH_MODEL_REGISTRY

def functions():
    for name in [*filter(lambda name: name.split(".")[0] in WATCHED, sys.modules)]:
        owners = [one for one in vars(sys.modules[name]).values() if isinstance(one, type)]
        for owner in (sys.modules[name], *owners):
            for key, value in [*vars(owner).items()]:
                if callable(value) or isinstance(value, (classmethod, staticmethod)):
                    yield (name, getattr(owner, "__qualname__", ""), key), value

def others():
    safe = {*map(str, torch.serialization.get_safe_globals())}
    return dict(os.environ), [*sys.meta_path], sys.excepthook, safe, {*ARCH_MODEL_REGISTRY}

WATCHED = "fairseq", "fairseq_cli", "iopath", "torch"
before, rest = dict(functions()), others()
for path in Path(sys.argv[1]).rglob("*.py"):
    parts = path.relative_to(sys.argv[1]).with_suffix("").parts
    if parts[0] not in ("plugin", "repairs", "__main__"):
        importlib.import_module(".".join(("fairseq_aiayn", *parts)).removesuffix(".__init__"))
after = dict(functions())
assert not [place for place in before if before[place] is not after.get(place)]
assert others() == rest
utils.import_user_module(Namespace(user_dir=sys.argv[1]))
assert "aiayn_base" in ARCH_MODEL_REGISTRY
assert checkpoint_utils.load_checkpoint_to_cpu.__wrapped__

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


@pytest.mark.needs_repairs
def test_imports_change_nothing_and_a_reader_does_not_take_the_process_down(run):
    """Tests of training import the package first as --user-dir."""
    ended = run(*installed("python"), "-c", PROGRAM, ROOT / "fairseq_aiayn")
    assert ended.stdout == "the end\n" and "terminate" not in ended.stderr
