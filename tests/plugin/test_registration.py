"""The plugin is registered with fairseq when the package was imported before fairseq."""

import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "fairseq_aiayn"
PROGRAM = f"""
import sys, fairseq_aiayn
assert not {{"torch", "fairseq"}} & set(sys.modules), "a model folder needs neither"
from argparse import Namespace
from fairseq import utils
utils.import_user_module(Namespace(user_dir={str(PACKAGE)!r}))
from fairseq.models import ARCH_MODEL_REGISTRY
print("aiayn_base" in ARCH_MODEL_REGISTRY)
"""


def test_the_package_may_be_imported_before_fairseq() -> None:
    """Tests of training import it as fairseq's commands do, which is after."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-c", PROGRAM]
    assert subprocess.check_output(command, text=True, env=environment) == "True\n"
