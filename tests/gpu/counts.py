"""Count the kernels and waits of an update, a batch of a validation and a step of a search, ours
beside stock fairseq's: six layers on each side, one batch per update.

Without a GPU, that of the tests is taken, which has no time, and counts in small sizes. On a real
one, PyTorch's profiler counts in those of base (no steps of a search), with the time of an update's
kernels and the share of its products. --bench also measures speed, by benchmarks/bench.py.

python tests/gpu/counts.py
python tests/gpu/counts.py --bench --data BIN --output gpu.json
"""

import json
import random
import re
import sys
from datetime import date
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from tempfile import TemporaryDirectory, mkdtemp

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from on_gpu import IS_REAL, python, run, run_on_gpu
from sides import Side
from tqdm import tqdm

from fairseq_aiayn.console import script
from fairseq_aiayn.files import write_whole
from fairseq_aiayn.runs.record import commit, hardware, packages

PLUGIN = ["--user-dir", str(ROOT / "fairseq_aiayn")]
COUNTS = ROOT / "benchmarks" / "results" / "gpu_counts.json"
SIZES = ["--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "64"]
SIZES += ["--encoder-attention-heads", "2"]
ITS_SIZES = {  # counts do not depend on them
    "ours": [*SIZES, "--d-k", "16", "--d-v", "16"],
    "stock": [*SIZES, *(word.replace("encoder", "decoder") for word in SIZES)],
}
PRECISIONS = ("float32", "float16", "bfloat16")
PRODUCT = re.compile("gemm|cutlass|nvjet|splitK", re.IGNORECASE)  # in the names of such kernels
QUICK = ["--row", "tiny", "--max-tokens", "64", "--seconds", "0"]  # where there is no time


def corpus(folder: Path) -> Path:
    numbers = random.Random(1)
    for split, sentences in (("train", 60), ("valid", 20), ("test", 6)):
        texts = [[*numbers.sample(range(20), numbers.randint(2, 7))] for _ in range(sentences)]
        for language in ("en", "de"):
            lines = (" ".join(f"{language}{n}" for n in text) + "\n" for text in texts)
            (folder / f"{split}.{language}").write_text("".join(lines))
    texts = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    words = ["-s", "en", "-t", "de", *texts, "--joined-dictionary", "--destdir", folder / "bin"]
    run_on_gpu(folder, "fairseq-preprocess", *words)
    return folder / "bin"


def counts_of(side: Side, data: Path, folder: Path) -> dict[str, dict[str, float]]:
    """Return the medians of a side's kernels and waits, by what they are of; of an update on a real
    GPU, also milliseconds and the share of products."""
    options = side.training_options("base", 8192, 4, 4)
    options.remove("--disable-validation")
    sizes = [] if IS_REAL else ITS_SIZES[side.system]
    words = [data, *options, *sizes, "--num-workers", "0", "--save-dir", folder]
    left_out = "launches" if side.system == "stock" else ""  # of the plugin, for --bf16
    found = run_on_gpu(folder, "fairseq-train", *words, left_out=left_out)
    spans = {of: found[of] for of in ("update", "validation")}
    if side.name != "stock bfloat16" and not IS_REAL:  # in which stock fairseq does not search
        words = [data, *side.translating_options(), "--path", folder / "checkpoint_last.pt"]
        steps = run_on_gpu(folder, "fairseq-generate", *words, "--num-workers", "0")["step"]
        spans["step"] = [(one[0], other[0]) for one, other in pairwise(steps)]
    counted = {
        of: {kind: median_of(spans[of], kind) for kind in ("kernels", "waits")} for of in spans
    }
    if IS_REAL:
        time = spans["update"][-1][1]["time"]  # the first updates choose their kernels
        of_products = sum(spent for name, spent in time.items() if PRODUCT.search(name))
        counted["update"] |= {"ms": sum(time.values()) / 1e3, "ms of products": of_products / 1e3}
    return counted


def measured(data: Path, folder: Path) -> dict:
    """Return what benchmarks/bench.py measures on the GPU."""
    result, bench = folder / "bench.json", ROOT / "benchmarks" / "bench.py"
    options = ["--device", "cuda", "--data", data, "--work", folder / "bench", "--json", result]
    options += [] if IS_REAL else [*QUICK, "--parts", "training", "translating"]
    run([*map(str, (python(), bench, *options))], PYTHONPATH=str(ROOT))
    return json.loads(result.read_text())


def median_of(spans: list, kind: str) -> int:
    return median_low(sum(end[kind].values()) - sum(begin[kind].values()) for begin, end in spans)


if __name__ == "__main__":
    with script(__doc__) as parser, TemporaryDirectory() as folder:
        parser.add_argument("--output", type=Path, default=COUNTS, metavar="FILE")
        parser.add_argument(
            "--data", type=Path, metavar="BIN", help="default: a small invented text"
        )
        parser.add_argument("--bench", action="store_true", help="measure speed, too")
        given, work, counted = parser.parse_args(), Path(folder), {}
        data = given.data or corpus(work)
        for name in tqdm([f"{system} {kind}" for kind in PRECISIONS for system in ITS_SIZES]):
            counted[name] = counts_of(Side(*name.split(), "cuda"), data, Path(mkdtemp(dir=work)))
        made = {"command": f"python tests/gpu/counts.py{' --bench' * given.bench}"}
        made |= {"machine": hardware() if IS_REAL else "does not matter: simulated"}
        made |= {"commit": commit(), "written": str(date.today()), "packages": packages()}
        made |= {"counts": counted} | ({"bench": measured(data, work)} if given.bench else {})
        write_whole(given.output, json.dumps(made, indent=1) + "\n")
