"""Print what a result must be traced back to: commands, seed, commit, packages and machine.

python run_settings.py --system aiayn --seed 1 --command train 'fairseq-train ...' > settings.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    *("fairseq-aiayn", "fairseq", "fairseq-fixed", "torch", "numpy"),
    *("sacrebleu", "sacremoses", "subword-nmt", "sentencepiece"),
)


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
    """Return the processor, the cores this process may use, the memory and the GPUs."""
    gpus = output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return {
        "processor": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpus": gpus.splitlines() if gpus else [],
    }


def processor_name() -> str:
    """Return the processor's model as Linux names it, otherwise the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--system", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument(
        "--command", nargs=2, action="append", required=True, metavar=("NAME", "COMMAND")
    )
    arguments = parser.parse_args()
    settings = {
        "system": arguments.system,
        "commands": dict(arguments.command),
        "seed": arguments.seed,
        "device": arguments.device,
        "commit": commit(),
        "packages": packages(),
        "hardware": hardware(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    print(json.dumps(settings, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
