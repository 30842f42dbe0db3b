"""The record of a run, settings.json: commands, seed, commit, packages and machine.

As a program, print the record of a training, or add to it that of an evaluation. Commands are
recorded as they are given from the root of the checkout: paths below it lose it. A training that
goes on, with --resumes, keeps the record of its first start, and "resumed" in it gets what this
start was made on.

    python -m fairseq_aiayn.runs.record training --name aiayn-base-1 --system aiayn --row base \\
        --corpus wmt14_en_de --seed 1 --device cuda --gpus 8 --nodes 1 \\
        --command train 'fairseq-train ...' > training.json
    python -m fairseq_aiayn.runs.record evaluation --training training.json \\
        --subset test --average 5 --command generate 'fairseq-generate ...' > settings.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fairseq_aiayn.console import script
from fairseq_aiayn.files import dataclass_of, read_dataclass
from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.settings import decoding, generate_options

__all__ = ["BFLOAT16_UNITS", "hardware", "packages", "read_settings"]

ROOT = Path(__file__).resolve().parents[2]
TRAIN, SEARCH = "train", "generate"  # stages of a recipe, which commands have the names of
START = ("commit", "packages", "hardware", "device", "gpus", "nodes", "written")
PACKAGES = (
    *("fairseq-aiayn", "fairseq", "fairseq-fixed", "torch", "numpy"),
    *("sacrebleu", "sacremoses", "subword-nmt", "sentencepiece"),
)
BFLOAT16_UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16"}
NAMES = {"model name": "", "cpu family": "family ", "model": "model "}  # in /proc/cpuinfo: here
CUDA = re.compile(r"CUDA(?: UMD)? Version: *([\d.]+)")  # only in nvidia-smi's own table


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What settings.json says of a run; None or empty where the recipe did not say it. What is in
    START is of the first start of the training."""

    commit: str | None = None
    packages: dict[str, str] = field(default_factory=dict)  # name to version
    # processor, cores, memory_gib, gpus, driver, cuda
    hardware: dict[str, Any] = field(default_factory=dict)
    device: str | None = None  # cpu or cuda
    gpus: int | None = None  # of each node
    nodes: int | None = None
    written: str | None = None  # date and time
    system: str  # aiayn or stock
    name: str  # that tables show
    row: str | None = None  # of aiayn rows
    corpus: str | None = None
    text_sha256: str | None = None  # of its binaries, in their sha256
    subset: str | None = None  # that was translated and scored: valid or test
    averaged: int | None = None  # checkpoints
    seed: int | None = None
    commands: dict[str, str] = field(default_factory=dict)  # by the name of the stage
    resumed: tuple[dict[str, Any], ...] = ()  # START of those that went on from a checkpoint
    evaluated_by: str | None = None  # the commit whose code translated and scored

    def options(self, stage: str) -> dict[str, str]:
        """Return the options of a stage's command with their last values; "yes" stands for none."""
        options: dict[str, str] = {}
        name = None
        for word in shlex.split(self.commands.get(stage, "")):
            if word.startswith("--"):
                name, equals, value = word.partition("=")
                options[name] = value if equals else "yes"
                name = None if equals else name
            elif name:
                options[name], name = word, None
        return options

    @property
    def training(self) -> dict[str, str]:
        """The options of the training."""
        return self.options(TRAIN)

    @property
    def search(self) -> dict[str, str]:
        """The options of the search, if there was one, with those that the plugin takes if its
        command gives no others."""
        if SEARCH not in self.commands or self.system != "aiayn" or self.row not in ROWS:
            return self.options(SEARCH)
        papers = generate_options(decoding(ROWS[self.row]))
        return {name: str(value) for name, value in papers.items()} | self.options(SEARCH)


def read_settings(path: Path) -> Settings:
    """Read a settings.json; only "system" is required, and is the name if there is none. Raises
    OSError, or ValueError for a value that is missing or of the wrong type."""
    content = read_dataclass(dict, path)
    return dataclass_of({"name": content.get("system"), **content}, Settings, path)


# The machine and its programs


def output_of(*command: str) -> str | None:
    """Return what a command prints; None where it does not exist or fails."""
    if not shutil.which(command[0]):
        return None
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else None


def commit() -> str | None:
    """Return the commit of the checkout, with "+" where its files are others; None outside git, and
    in another project's checkout, where this package was installed."""
    git = ("git", "-C", str(Path(__file__).parent))
    if not output_of(*git, "ls-files", Path(__file__).name):
        return None
    head = output_of(*git, "rev-parse", "HEAD")
    return head and head + ("+" if output_of(*git, "status", "--porcelain", "-uno") else "")


def packages() -> dict[str, str]:
    """Return the versions of the packages that a result depends on."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def hardware() -> dict[str, Any]:
    """Return the processor, with what it has for products in bfloat16, the cores this process may
    use, the memory, the GPUs that CUDA may use and, where there are any, the versions of their
    driver and of the CUDA that it supports."""
    file = Path("/proc/cpuinfo")  # only Linux has it
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    # Processors of one name differ: Zen 4 is family 25, Zen 5 family 26
    facts = dict(re.findall(r"^([a-z ]+?)\s*: (.+)$", text.partition("\n\n")[0], re.MULTILINE))
    found = [f"{here}{facts[name]}" for name, here in NAMES.items() if name in facts]
    processor = ", ".join(found) or platform.machine()
    units = [unit for flag, unit in BFLOAT16_UNITS.items() if f" {flag}" in text]
    query = ["--query-gpu=name,driver_version", "--format=csv,noheader"]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        query.append(f"--id={visible}")
    gpus = [] if visible == "" else (output_of("nvidia-smi", *query) or "").splitlines()
    is_linux = hasattr(os, "sched_getaffinity")  # elsewhere, all cores may be used
    machine: dict[str, Any] = {
        "processor": f"{processor} with {' and '.join(units)}" if units else processor,
        "cores": len(os.sched_getaffinity(0)) if is_linux else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpus": [line.rpartition(", ")[0] for line in gpus],
    }
    if gpus:
        machine["driver"] = gpus[0].rpartition(", ")[2]
        if match := CUDA.search(output_of("nvidia-smi") or ""):
            machine["cuda"] = match[1]
    return machine


# The program


def training(arguments: argparse.Namespace) -> Settings:
    """Return how a training is made, here and now; if it goes on, after how it was begun. Raises
    OSError or ValueError for a record that cannot be read."""
    made = vars(arguments) | {
        "name": arguments.name or arguments.system,
        "commands": commands(arguments),
        "commit": commit(),
        "packages": packages(),
        "hardware": hardware(),
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    if arguments.resumes and arguments.resumes.exists():
        first = read_settings(arguments.resumes)
        return replace(first, resumed=(*first.resumed, {name: made[name] for name in START}))
    return dataclass_of(made, Settings, "training")


def commands(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the commands that were given by the names of their stages."""
    return {name: text.replace(f"{ROOT}/", "") for name, text in arguments.command}


def evaluation(arguments: argparse.Namespace) -> Settings:
    """Return a training's record with that of an evaluation of its model; raises OSError or
    ValueError for a record that cannot be read."""
    settings = read_settings(arguments.training)
    return replace(
        settings,
        commands=settings.commands | commands(arguments),
        subset=arguments.subset,
        averaged=arguments.average,
        evaluated_by=commit(),
    )


def add_programs(parser: argparse.ArgumentParser) -> None:
    """Declare training and evaluation with their options."""
    programs = parser.add_subparsers(dest="program", required=True)
    trained = programs.add_parser("training")
    trained.add_argument("--system", required=True, choices=("aiayn", "stock"))
    trained.add_argument("--device", required=True, choices=("cpu", "cuda"))
    trained.add_argument("--seed", type=int, required=True)
    for name in ("--gpus", "--nodes"):
        trained.add_argument(name, type=int)
    for name in ("--name", "--row", "--corpus", "--text-sha256"):
        trained.add_argument(name)
    trained.add_argument("--resumes", type=Path, help="the record of its first start, if any")
    evaluated = programs.add_parser("evaluation")
    evaluated.add_argument("--training", type=Path, required=True, help="its record")
    evaluated.add_argument("--subset", choices=("valid", "test"), help="translated and scored")
    evaluated.add_argument("--average", type=int, metavar="K", help="checkpoints averaged")
    for program in (trained, evaluated):
        program.add_argument(
            "--command", nargs=2, action="append", required=True, metavar=("STAGE", "COMMAND")
        )


def main() -> None:
    with script(__doc__) as parser:
        add_programs(parser)
        arguments = parser.parse_args()
        settings = (training if arguments.program == "training" else evaluation)(arguments)
        print(json.dumps(asdict(settings), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
