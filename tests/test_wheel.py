"""The wheel is a guest: it asks for ranges, not for fairseq, and its description stands alone."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

from fairseq_aiayn.console import EXTRAS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy, in which an earlier version was built before."""
    copy = tmp_path_factory.mktemp("wheel")
    for name in ("fairseq_aiayn", "recipes"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    earlier = copy / "build" / "lib" / "fairseq_aiayn"
    (earlier / "recipes").mkdir(parents=True)
    for name in ("gone.py", "recipes/gone.sh"):
        (earlier / name).touch()
    build = [sys.executable, "setup.py", "-q", "bdist_wheel"]
    subprocess.run(build, cwd=copy, check=True, capture_output=True)
    (path,) = (copy / "dist").glob("*.whl")
    return zipfile.ZipFile(path)


def test_a_plain_install_replaces_neither_torch_nor_fairseq_and_the_description_stands_alone(wheel):
    """It has no link into the checkout; each extra that a message names exists."""
    (name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    metadata = message_from_string(wheel.read(name).decode())
    plain = [text for text in metadata.get_all("Requires-Dist") if "extra ==" not in text]
    assert not any("==" in text.partition(";")[0] for text in plain)
    names = {re.match(r"[\w-]+", text)[0] for text in plain}
    assert {"torch", "numpy"} <= names
    assert not {"fairseq", "fairseq-fixed", "torchaudio", "matplotlib", "ctranslate2"} & names
    assert set(EXTRAS.values()) <= set(metadata.get_all("Provides-Extra"))
    text = metadata.get_payload()
    assert "# fairseq_aiayn\n" in text and "fairseq-train" in text
    assert all(target.startswith("http") for target in re.findall(r"\]\(([^)]+)\)", text))


def test_it_has_files_that_are_not_python_and_nothing_of_an_earlier_build(wheel):
    endings = {Path(name).suffix for name in wheel.namelist()}
    assert {".typed", ".html", ".css", ".js", ".json"} <= endings
    assert not [name for name in wheel.namelist() if "gone" in name]
    assert "fairseq_aiayn/help_en_de/model.safetensors" in wheel.namelist()


def test_its_recipes_run_without_a_checkout(wheel, tmp_path):
    modes = {one.filename: one.external_attr >> 16 for one in wheel.infolist()}
    assert modes["fairseq_aiayn/recipes/multi30k/run.sh"] & 0o111
    wheel.extractall(tmp_path / "site")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "PATH": path}
    for command in (
        "python -m fairseq_aiayn recipes mine",
        "bash mine/multi30k/run.sh --dry_run > commands",
    ):
        subprocess.run(command, shell=True, check=True, cwd=tmp_path, env=environment)
    commands = (tmp_path / "commands").read_text()
    assert f"--user-dir {tmp_path}/site/fairseq_aiayn" in commands
    assert not any(f"{ROOT}/{part}" in commands for part in ("fairseq_aiayn", "recipes"))
