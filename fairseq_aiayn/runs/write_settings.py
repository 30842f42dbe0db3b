"""Print what a result must be traced back to: commands, seed, commit, packages and machine.

The commands are noted as they are given from the root of the checkout: paths below it lose it.
A training that goes on, with --resumes, keeps the record of its first start, and "resumed" in it
gets what this start was made on.

    python -m fairseq_aiayn.runs.write_settings training --name aiayn-base-1 --system aiayn \\
        --row base \\
        --corpus wmt14_en_de --seed 1 --device cuda --gpus 8 --nodes 1 \\
        --command train 'fairseq-train ...' > training.json
    python -m fairseq_aiayn.runs.write_settings evaluation --training training.json \\
        --subset test --average 5 \\
        --command generate 'fairseq-generate ...' > settings.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import get_type_hints

from fairseq_aiayn.runs.settings import Start, settings_from_json
from fairseq_aiayn.text import read_json, script

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("fairseq-aiayn", "fairseq", "fairseq-fixed", "torch", "numpy"),
    *("sacrebleu", "sacremoses", "subword-nmt", "sentencepiece"),
)
BFLOAT16_UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16"}
CUDA = re.compile(r"CUDA(?: UMD)? Version: *([\d.]+)")  # only in nvidia-smi's own table


def output_of(*command: str) -> str | None:
    """Return what a command prints; None where it does not exist or fails."""
    if not shutil.which(command[0]):
        return None
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else None


def commit() -> str | None:
    """Return the commit of the checkout, with "+" where files differ from it; None outside git."""
    git = ("git", "-C", str(Path(__file__).parent))
    head = output_of(*git, "rev-parse", "HEAD")
    return head and head + ("+" if output_of(*git, "status", "--porcelain") else "")


def packages() -> dict[str, str]:
    """Return the versions of the packages that a result depends on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, object]:
    """Return the processor, the cores this process may use, the memory, the GPUs that CUDA may use
    and, where there are any, the versions of their driver and of the CUDA that it supports."""
    query = ["--query-gpu=name,driver_version", "--format=csv,noheader"]
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        query.append(f"--id={visible}")
    gpus = (output_of("nvidia-smi", *query) or "").splitlines()
    found = {
        "processor": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpus": [line.rpartition(", ")[0] for line in gpus],
    }
    if gpus:
        found["driver"] = gpus[0].rpartition(", ")[2]
        if match := CUDA.search(output_of("nvidia-smi") or ""):
            found["cuda"] = match[1]
    return found


def processor_name() -> str:
    """Return the first processor's model as Linux names it, or else the architecture, and what it
    has for products in bfloat16."""
    try:
        first, _, _ = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")
    except OSError:
        first = ""
    pairs = (line.partition(":") for line in first.splitlines())
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    flags = fields.get("flags", "").split()
    units = [unit for flag, unit in BFLOAT16_UNITS.items() if flag in flags]
    name = fields.get("model name", platform.machine())
    return f"{name} with {' and '.join(units)}" if units else name


def add_training(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", help="that tables show (default: the system)")
    parser.add_argument("--system", required=True, choices=("aiayn", "stock"))
    parser.add_argument("--row", help="of aiayn rows")
    parser.add_argument("--corpus", help="what the recipe calls it")
    parser.add_argument("--text-sha256", metavar="HASH", help="of the binaries")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--gpus", type=int, metavar="N", help="of each node")
    parser.add_argument("--nodes", type=int, metavar="N")
    parser.add_argument(
        "--resumes", type=Path, metavar="FILE", help="what was noted of its first start, if it is"
    )


def training(arguments: argparse.Namespace) -> dict[str, object]:
    """Return how a training is made, here and now; if it goes on, after how it was begun.

    Raises OSError or ValueError for a record that cannot be read.
    """
    now = start(arguments)
    if arguments.resumes is None or not arguments.resumes.exists():
        return now
    first = read_json(arguments.resumes)
    resumed = settings_from_json(first, arguments.resumes).resumed
    own = {key: now[key] for key in get_type_hints(Start) if key in now}
    own["command"] = now["commands"].get("train")
    return first | {"resumed": [*map(asdict, resumed), own]}


def start(arguments: argparse.Namespace) -> dict[str, object]:
    """Return how a training is begun, here and now."""
    return {
        "name": arguments.name or arguments.system,
        "system": arguments.system,
        "row": arguments.row,
        "corpus": arguments.corpus,
        "text_sha256": arguments.text_sha256,
        "seed": arguments.seed,
        "device": arguments.device,
        "gpus": arguments.gpus,
        "nodes": arguments.nodes,
        "commands": commands(arguments),
        "commit": commit(),
        "packages": packages(),
        "hardware": hardware(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "resumed": [],
    }


def commands(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the commands that were given by the names of their stages."""
    return {name: text.replace(f"{ROOT}/", "") for name, text in arguments.command}


def add_evaluation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--training", type=Path, required=True, help="what was noted of it")
    parser.add_argument("--subset", choices=("valid", "test"), help="that is translated and scored")
    parser.add_argument("--average", type=int, metavar="K", help="checkpoints averaged")


def evaluation(arguments: argparse.Namespace) -> dict[str, object]:
    """Return a training's settings with those of an evaluation of its model.

    Raises OSError or ValueError for a record that cannot be read.
    """
    settings = read_json(arguments.training)
    settings_from_json(settings, arguments.training)
    settings["commands"] |= commands(arguments)
    return settings | {
        "subset": arguments.subset,
        "averaged": arguments.average,
        "evaluated_by": commit(),
    }


def main() -> None:
    with script(__doc__) as parser:
        kinds = parser.add_subparsers(dest="kind", required=True)
        for name, add_arguments, settings_of in (
            ("training", add_training, training),
            ("evaluation", add_evaluation, evaluation),
        ):
            kind = kinds.add_parser(name)
            add_arguments(kind)
            kind.add_argument(
                "--command", nargs=2, action="append", required=True, metavar=("NAME", "COMMAND")
            )
            kind.set_defaults(settings_of=settings_of)
        arguments = parser.parse_args()
        settings = arguments.settings_of(arguments)
        print(json.dumps(settings, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
