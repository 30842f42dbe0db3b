"""Commands of fairseq and aiayn on the simulated GPU, and what they did there.

`python on_gpu.py FILE COMMAND [ARGUMENT ...]` is such a process. It writes into FILE what it
counted: in all, and before and after each update, batch of a validation and step of a search. On a
real GPU, PyTorch's profiler counts, and has the time of each kernel.
"""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from copy import deepcopy
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch.utils.cpp_extension import get_default_build_root, include_paths

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
IS_REAL = torch.version.cuda is not None and torch.cuda.is_available()
COMPILED = Path(get_default_build_root())  # the user's; tests have a cache of their own
TRIED = "import simulated_gpu, torch; simulated_gpu.install();"
TRIED += "torch.ones(1, device='cuda', requires_grad=True).exp().backward()"


def library() -> str:
    """Return the compiled fake_cuda.cpp, in the folder of a user's extensions of PyTorch; raises
    RuntimeError if it does not go with this PyTorch."""
    if torch.version.cuda:
        raise RuntimeError("the simulated GPU needs a PyTorch for CPUs")
    source, libraries = HERE / "fake_cuda.cpp", f"{Path(torch.__file__).parent}/lib"
    kind = hashlib.sha256(source.read_bytes() + f"{torch.__version__} {libraries}".encode())
    target = COMPILED / f"fake_cuda-{kind.hexdigest()[:16]}.so"
    part = target.with_suffix(".part")
    words = [os.environ.get("CXX", "g++"), "-O1", "-shared", "-fPIC", "-std=c++20", str(source)]
    words += [*(f"-I{path}" for path in include_paths()), "-o", str(part), f"-L{libraries}"]
    words += [f"-Wl,-rpath,{libraries}", "-ltorch_cpu", "-lc10"]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one of several processes compiles
            if not target.exists():
                run(words)
                run([sys.executable, "-c", TRIED], PYTHONPATH=str(HERE), LD_PRELOAD=str(part))
                part.rename(target)
    except (OSError, AssertionError) as error:
        reasons = [line for line in str(error).splitlines() if "rror: " in line]
        raise RuntimeError(f"no simulated GPU: {[*reasons, str(error)][0]:.200}") from error
    return str(target)


def run(words: list[str], stdin: str = "", **variables: str) -> str:
    """Return what a program prints; raises AssertionError with its errors if it fails."""
    how: dict[str, Any] = {"capture_output": True, "text": True, "env": os.environ | variables}
    done = subprocess.run(words, input=stdin, check=False, **how)
    assert done.returncode == 0, f"{words}:\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def run_on_gpu(folder: Path, *words: str | Path, stdin: str = "", left_out: str = "") -> dict:
    """Run a command without these repairs: what was counted, and what it printed."""
    file = folder / "counts.json"
    command = [*map(str, (python(), HERE / "on_gpu.py", file, *words))]
    variables = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "AIAYN_REPAIRS": left_out}
    printed = run(command, stdin, **variables)
    return json.loads(file.read_text()) | {"printed": printed}


def python() -> Path:
    """Return a Python whose processes have a GPU."""
    import fork_server

    return Path(sys.executable) if IS_REAL else fork_server.programs(library()) / "python"


def profile(calls: list, owner: Any, name: str) -> None:
    """Note what the profiler sees of each call of a function."""
    function = getattr(owner, name)

    @wraps(function)
    def profiled(*arguments: object, **named: object) -> object:
        with torch.profiler.profile() as profiler:
            result = function(*arguments, **named)
        seen: dict[str, Counter] = {kind: Counter() for kind in ("kernels", "waits", "time")}
        for event in profiler.events():
            if event.device_type == torch.autograd.DeviceType.CUDA:
                seen["kernels"][event.name] += not event.name.startswith("Mem")
                seen["time"][event.name] += event.self_device_time_total
            seen["waits"][event.name] += event.name.endswith("Synchronize")
        calls.append([{kind: {} for kind in seen}, seen])
        return result

    setattr(owner, name, profiled)


def record(calls: list, owner: Any, name: str) -> None:
    """Note what was counted before and after each call of a function."""
    function = getattr(owner, name)

    @wraps(function)
    def counted(*arguments: object, **named: object) -> object:
        calls.append([deepcopy(counts)])
        result = function(*arguments, **named)
        calls[-1].append(deepcopy(counts))
        return result

    setattr(owner, name, counted)


def attempt(text: str) -> list[int] | str:
    there = torch.arange(12.0).view(3, 4)
    given = {"there": there, "here": there.cuda(), "rows": torch.tensor([0, 2], device="cuda")}
    before = deepcopy(counts)
    try:
        eval(text, {"torch": torch}, given)
    except (RuntimeError, TypeError) as error:
        return str(error)
    return [(counts[kind] - before[kind]).total() for kind in counts]


if __name__ == "__main__":
    from fairseq.models.transformer import TransformerDecoderBase
    from fairseq.trainer import Trainer

    from fairseq_aiayn.nn.transformer import Decoder

    found: dict[str, Any] = {"update": [], "validation": [], "step": []}
    if not IS_REAL:
        from simulated_gpu import counts

        found["all"] = counts
        record(found["step"], TransformerDecoderBase, "forward")
        record(found["step"], Decoder, "step")
    note = profile if IS_REAL else record
    note(found["update"], Trainer, "train_step")
    note(found["validation"], Trainer, "valid_step")
    _, file, *sys.argv = sys.argv
    try:
        if sys.argv[0] == "lines":
            found["lines"] = {each: attempt(each) for each in sys.argv[1:]}
        elif sys.argv[0] == "aiayn":
            sys.exit(import_module("fairseq_aiayn.cli.main").main())
        else:
            sys.exit(import_module(sys.argv[0].replace("fairseq-", "fairseq_cli.")).cli_main())
    finally:
        if IS_REAL:  # whether it was used
            found["all"] = {"kernels": torch.cuda.max_memory_allocated(), "float64": 0}
        Path(file).write_text(json.dumps(found))
