"""Count the kernels and waits of an update, a batch of a validation and a step of a search, ours
beside stock fairseq's, on the simulated GPU: six layers on each side, one batch per update.

python tests/gpu/counts.py
"""

import json
import random
import sys
from datetime import date
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from on_gpu import run_on_gpu
from sides import Side

from fairseq_aiayn.console import script
from fairseq_aiayn.files import write_whole
from fairseq_aiayn.runs.record import commit, packages

PLUGIN = ["--user-dir", str(ROOT / "fairseq_aiayn")]
COUNTS = ROOT / "benchmarks" / "results" / "gpu_counts.json"
SIZES = ["--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "64"]
SIZES += ["--encoder-attention-heads", "2"]
ITS_SIZES = {  # counts do not depend on them
    "ours": [*SIZES, "--d-k", "16", "--d-v", "16"],
    "stock": [*SIZES, *(word.replace("encoder", "decoder") for word in SIZES)],
}
PRECISIONS = ("float32", "float16", "bfloat16")


def corpus(folder: Path) -> Path:
    """Return a small binarized corpus of an invented language pair."""
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


def counts_of(side: Side, data: Path, folder: Path) -> dict[str, dict[str, int]]:
    """Return the medians of a side's kernels and waits, by what they are of."""
    options = side.training_options("base", 8192, 4, 4)
    options.remove("--disable-validation")
    words = [data, *options, *ITS_SIZES[side.system], "--num-workers", "0", "--save-dir", folder]
    left_out = "launches" if side.system == "stock" else ""  # of the plugin, for --bf16
    found = run_on_gpu(folder, "fairseq-train", *words, left_out=left_out)
    spans = {of: found[of] for of in ("update", "validation")}
    if side.name != "stock bfloat16":  # in which stock fairseq does not search
        words = [data, *side.translating_options(), "--path", folder / "checkpoint_last.pt"]
        steps = run_on_gpu(folder, "fairseq-generate", *words, "--num-workers", "0")["step"]
        spans["step"] = [(one[0], other[0]) for one, other in pairwise(steps)]
    return {of: {kind: median_of(spans[of], kind) for kind in ("kernels", "waits")} for of in spans}


def median_of(spans: list, kind: str) -> int:
    """Return the median of what was counted between two times."""
    return median_low(sum(end[kind].values()) - sum(begin[kind].values()) for begin, end in spans)


if __name__ == "__main__":
    with script(__doc__) as parser:
        parser.add_argument("--output", type=Path, default=COUNTS)
        output, counted = parser.parse_args().output, {}
        for name in (f"{system} {kind}" for kind in PRECISIONS for system in ITS_SIZES):
            with TemporaryDirectory() as folder:
                side = Side(*name.split(), "cuda")
                counted[name] = counts_of(side, corpus(Path(folder)), Path(folder))
        made = {"command": "python tests/gpu/counts.py", "processor": "does not matter: simulated"}
        made |= {"commit": commit(), "written": str(date.today()), "packages": packages()}
        write_whole(output, json.dumps(made | {"counts": counted}, indent=1) + "\n")
