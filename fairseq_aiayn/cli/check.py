"""The command that says what this machine lacks, before hours are spent on it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from fairseq_aiayn.console import missing_package
from fairseq_aiayn.paper import VOCABULARY_EN_DE, find_row
from fairseq_aiayn.runs.record import BFLOAT16_UNITS, hardware, packages
from fairseq_aiayn.settings import option

OF_FAIRSEQ = [f"fairseq-{name}" for name in ("preprocess", "train", "validate", "generate")]
PYTHON = re.compile(r"[^\s'\"!]*python[^\s'\"]*")  # in the first lines of an installed command
# What that Python has; -c puts the current directory first, which may have a folder of this name
ASK = """import sys; del sys.path[0]
from importlib import metadata, util
print(util.find_spec("fairseq") is not None, metadata.version("fairseq-aiayn"))"""
# Of a checkpoint, a parameter takes its weight and Adam's two moments, and 2 or 4 bytes with fp16
CHECKPOINT_BYTES = 16
MOST = 10**9  # of any number
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
TEXT_OF_ARCHIVES = 9  # the space of all stages, in archives: WMT14's take 8 to 9 times their own
OTHER_CHECKPOINTS = 3  # the best, the last, and one that is being written


def declare_check(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--row", metavar="ROW", help="configuration to train, see aiayn rows")
    add("--gpus", type=int, metavar="N", help="GPUs to train on; 0: CPU (default: what is there)")
    add("--precision", choices=PRECISIONS, default="fp32", help="of the training")
    add("--directory", type=Path, default=Path(), metavar="DIR", help="where files will be written")
    add("--text-gib", type=float, default=0, metavar="GIB", help="what the text takes there")
    add("--vocab", type=int, default=VOCABULARY_EN_DE, metavar="V", help="size of the vocabulary")
    add("--runs", type=int, default=1, metavar="N", help="how many trainings keep checkpoints")
    add("--manifest", type=Path, metavar="FILE", help="corpus.toml of the text to prepare")
    for side in ("source", "target"):
        add(f"--{side}-lang", metavar="xx", help=f"{side} language of the text")
    add("--programs", nargs="*", default=[], metavar="PROGRAM", help="other programs to look for")


def run_check(arguments: argparse.Namespace) -> None:
    """say whether this machine has what a training needs

    Looks for fairseq, its commands and this package in their Python, GPUs and their memory, room on
    the disk, and the right to write there. Prints what there is and all that is missing; then its
    status is 2. Recipes call it in their stage 0, before they download anything.

    examples:
      aiayn check
      aiayn check --row big --gpus 8 --precision fp16 --directory exp
      recipes/wmt14_en_de/run.sh --gpus 8 --stop_stage 0
    """
    for name, least in (("gpus", 0), ("runs", 1), ("vocab", 1), ("text_gib", 0)):
        number = getattr(arguments, name)
        if number is not None and not least <= number <= MOST:
            expected = f"expected a number from {least} to {MOST:,}"
            raise ValueError(f"{option(name)}: {expected}, got {number}")
    has = hardware()
    versions = [f"{name} {number}" for name, number in packages().items()]
    print(", ".join(versions))
    print(f"{has['processor']}, {has['cores']} cores, {has['memory_gib']} GiB of memory")
    faults = [*_programs(arguments), *_fairseq(), *_check_gpus(arguments), *_room(arguments)]
    is_fast = any(unit in has["processor"] for unit in BFLOAT16_UNITS.values())
    if arguments.gpus == 0 and arguments.precision == "bf16" and not is_fast:
        print("note: this processor multiplies slowly in bfloat16, --precision fp32 is faster")
    if not find_spec("matplotlib"):
        how = missing_package(ModuleNotFoundError(name="matplotlib"))
        print(f"note: reports will have no curves; {how}")
    if len(faults) > 1:
        print(*(f"missing: {fault}" for fault in faults), sep="\n")
        raise ValueError(f"{len(faults)} things are missing, the lines above say how to mend them")
    if faults:
        raise ValueError(faults[0])


def _programs(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield a fault for each program that is missing, and for what is no language."""
    for name in arguments.programs:
        if not shutil.which(name):
            yield f"{name} is not on PATH: your system's package manager has it"
    if arguments.target_lang:
        from fairseq_aiayn.scores import language_of

        try:
            language_of(arguments.target_lang)
        except ValueError as error:
            yield str(error)


def _fairseq() -> Iterator[str]:
    """Yield what is wrong with fairseq's commands, or with the Python that runs them."""
    paths = {name: shutil.which(name) for name in OF_FAIRSEQ}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        how = missing_package(ModuleNotFoundError(name="fairseq"))
        yield f"{missing[0]} is not on PATH, {how}; or activate the environment that has it"
        return
    program = paths["fairseq-train"] or ""
    print(f"fairseq's commands: {os.path.dirname(program)}")
    head = Path(program).read_bytes()[:400].decode(errors="replace")
    found = PYTHON.search("\n".join(head.split("\n")[:2]))
    python = shutil.which(found[0]) if found else None
    if python is None:  # a wrapper, whose Python only it knows
        return
    here = version("fairseq-aiayn")
    asked = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    has_fairseq, _, there = asked.stdout.strip().partition(" ")
    if there != here:
        yield (
            f"{program} runs {python}, which has fairseq-aiayn {there or 'not at all'}, here it is"
            f" {here}: install both into one environment"
        )
    elif has_fairseq != "True":
        yield missing_package(ModuleNotFoundError(name="fairseq")) or ""


def _check_gpus(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield a fault for GPUs that are missing, too small, or without the precision."""
    if arguments.gpus == 0:
        if arguments.precision in ("fp16", "tf32"):
            yield f"--precision {arguments.precision} needs a GPU: a CPU has fp32 and bf16"
        return
    import torch

    count = torch.cuda.device_count()
    if count < (arguments.gpus or 0):
        yield f"expected {arguments.gpus} GPUs, torch {torch.__version__} sees {count}"
    elif count == 0:
        print(f"no GPU that torch {torch.__version__} sees")
    needed = 0.0
    if arguments.row:
        from fairseq_aiayn.cost import row_costs

        needed = row_costs(find_row(arguments.row), arguments.vocab)["training_bytes"] / 2**30
    for index in range(count):
        memory = torch.cuda.get_device_properties(index).total_memory / 2**30
        print(f"GPU {index}: {torch.cuda.get_device_name(index)}, {memory:.0f} GiB")
        if memory < needed:
            yield f"GPU {index} has {memory:.1f} GiB, a training takes {needed:.1f} and more"
    # GPUs have both since the same generation
    of_ampere = arguments.precision in ("bf16", "tf32")
    if count and of_ampere and not torch.cuda.is_bf16_supported(False):
        yield f"--precision {arguments.precision}: this GPU does not have it, use fp16"


def _room(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield a fault for a directory that cannot be written to, or has too little room."""
    directory = arguments.directory.absolute()
    there = next(path for path in (directory, *directory.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        yield f"{there} cannot be written to, choose another directory"
    needed = arguments.text_gib
    if arguments.manifest:
        from fairseq_aiayn.corpus.manifest import read_manifest

        languages = arguments.source_lang, arguments.target_lang
        sizes = [file.size or 0 for _, file in read_manifest(arguments.manifest).used(languages)]
        needed += TEXT_OF_ARCHIVES * sum(sizes) / 2**30
    if arguments.row:
        from fairseq_aiayn.cost import parameters

        row = find_row(arguments.row)
        checkpoints = CHECKPOINT_BYTES * (row.averaged + OTHER_CHECKPOINTS)
        needed += arguments.runs * checkpoints * parameters(row, arguments.vocab) / 2**30
    needed -= _size(directory) / 2**30 if needed else 0  # of what is made already
    free = shutil.disk_usage(there).free / 2**30
    print(f"disk: {free:.1f} GiB free in {there}" + f", needed: {needed:.1f}" * (needed > 0))
    if free < needed:
        yield f"{there} has {free:.1f} GiB free, needed are about {needed:.1f}"


def _size(directory: Path) -> int:
    """Return the bytes of all files below a directory; some may vanish meanwhile."""
    size = 0
    for path in directory.rglob("*"):
        with suppress(OSError):
            size += path.lstat().st_blocks * 512
    return size
