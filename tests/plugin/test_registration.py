"""The plugin is registered with fairseq in whatever order the two are imported."""

import os
import subprocess
import sys
from pathlib import Path

import fork_server
import pytest

PACKAGE = Path(__file__).parents[2] / "fairseq_aiayn"
REGISTERED = f"""
from argparse import Namespace
from fairseq import utils
utils.import_user_module(Namespace(user_dir={str(PACKAGE)!r}))
from fairseq.models import ARCH_MODEL_REGISTRY
print("aiayn_base" in ARCH_MODEL_REGISTRY)
"""
ALONE = """
import sys, fairseq_aiayn
assert not {"torch", "fairseq"} & set(sys.modules), "a model folder needs neither"
"""


@pytest.mark.parametrize("before", [ALONE, ""], ids=["the package first", "fairseq first"])
def test_the_order_of_imports_does_not_matter(before: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(before + REGISTERED)
    # The worker has imported fairseq already, which is where most of the time goes.
    python = sys.executable if before else fork_server.programs() / fork_server.WORKER
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [python, tmp_path / "program.py"]
    assert subprocess.check_output(command, text=True, env=environment) == "True\n"
