"""What each difference from stock fairseq does to a short training, alone and together.

Our model and loss of the row tiny, with the initial values that stood here before there was a
choice ("ours"), and with single properties of stock fairseq in place of ours. Each kind is trained
with every seed on a recipe's prepared text, averaged, translated and scored like the demo.

    recipes/demo/run.sh --stop_stage 4
    python benchmarks/ablation.py exp/demo exp/ablation --seeds 1 2 3 --json ablation.json

Trainings that are done are kept, so that it goes on where it was stopped. Two run at a time, each
on one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = ("--user-dir", str(ROOT / "fairseq_aiayn"))
PAIR = ("--source-lang", "en", "--target-lang", "de")

# Kind: the scheme of initial values, None for stock fairseq itself; what is patched
KINDS: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "stock": (None, ()),
    "ours": ("fairseq-0.9", ()),
    "feed-forward": ("fairseq", ()),
    "queries apart": ("tensor2tensor", ()),
    "biases": ("fairseq-0.9", ("biases",)),
    "positions": ("fairseq-0.9", ("positions",)),
    "order": ("fairseq-0.9", ("order",)),
    "together": ("fairseq", ("biases", "positions", "order")),
    "feed-forward, queries apart": ("fairseq", ("queries",)),
}


def have_biases() -> None:
    """Projections with biases, drawn as stock fairseq draws them."""
    import torch.nn.functional as F
    from torch import nn

    from fairseq_aiayn.nn import decoder, encoder, initialization
    from fairseq_aiayn.nn.attention import MultiHeadAttention

    class Biased(MultiHeadAttention):
        def __init__(self, shape):
            super().__init__(shape)
            self.W_QKV = nn.Linear(shape.d_model, sum(self.rows))
            self.W_O = nn.Linear(shape.h * shape.d_v, shape.d_model)
            nn.init.zeros_(self.W_O.bias)

        def queries(self, x):
            Q, own = self.W_QKV, slice(self.rows[0])
            return self._split_heads(F.linear(x, Q.weight[own], Q.bias[own]))

        def keys_values(self, memory):
            KV, own = self.W_QKV, slice(self.rows[0], None)
            K, V = F.linear(memory, KV.weight[own], KV.bias[own]).split(self.rows[1:], dim=-1)
            return self._split_heads(K), self._split_heads(V)

    encoder.MultiHeadAttention = decoder.MultiHeadAttention = Biased
    assert issubclass(Biased, initialization.MultiHeadAttention)


def have_positions() -> None:
    """Stock fairseq's sinusoids: concatenated, of other wavelengths, from position 2."""
    from fairseq.modules import SinusoidalPositionalEmbedding

    from fairseq_aiayn.nn import positions

    table = SinusoidalPositionalEmbedding.get_embedding
    positions.sinusoids = lambda length, d_model: table(length + 2, d_model)[2:]


def have_order() -> None:
    """Stock fairseq's batches: by source length, drawn once."""
    from fairseq.tasks.translation import TranslationTask

    from fairseq_aiayn.plugin.task import AiaynTranslationTask

    AiaynTranslationTask.load_dataset = TranslationTask.load_dataset
    AiaynTranslationTask.can_reuse_epoch_itr = TranslationTask.can_reuse_epoch_itr


def have_queries() -> None:
    """The encoder-decoder attention's W^Q drawn apart, whatever the feed-forward network is."""
    from fairseq_aiayn.nn import initialization, transformer

    def initialize(model, scheme):
        drawn(model, scheme)
        for module in model.modules():
            if isinstance(module, initialization.DecoderLayer):
                initialization.draw_queries_apart(module.cross_attention)

    drawn, transformer.initialize = transformer.initialize, initialize


PATCHES = {
    "biases": have_biases,
    "positions": have_positions,
    "order": have_order,
    "queries": have_queries,
}


def run_patched(kind: str, command: str, *options: str) -> None:
    """One of fairseq's commands in this process, on a patched plugin."""
    from importlib.metadata import entry_points

    from fairseq_aiayn import plugin  # noqa: F401

    for patch in KINDS[kind][1]:
        PATCHES[patch]()
    sys.argv = [command, *options]
    entry_points(group="console_scripts")[command].load()()


def run(log: Path, *command: object) -> str:
    """Run a command on one thread; its output, which is also appended to a log."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, env=environment, check=False
    )
    with log.open("a", encoding="utf-8") as file:
        file.write(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(f"failed, see {log}: {' '.join(map(str, command))}")
    return done.stdout


def flags(kind: str) -> list[str]:
    """fairseq-train's options for a kind of the row tiny."""
    scheme = KINDS[kind][0]
    system = "stock" if scheme is None else "aiayn"
    found = subprocess.run(
        ["aiayn", "flags", "tiny", "--gpus", "1", "--system", system],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return found + (["--initialization", scheme] if scheme else [])


def measure(kind: str, seed: int, text: Path, work: Path) -> dict[str, float]:
    """Train, average, validate, translate and score; what was found before, if it was."""
    place = work / f"{kind.replace(', ', '-').replace(' ', '-')}-{seed}"
    found = place / "found.json"
    if found.exists():
        return json.loads(found.read_text())
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    stock = KINDS[kind][0] is None
    task = ("--task", "translation" if stock else "aiayn_translation")
    search = ("--beam 4 --lenpen 0.6 --max-len-a 1 --max-len-b 50" if stock else "").split()
    data = (text / "bin", *PLUGIN, *PAIR, *task, "--required-batch-size-multiple", "1", "--cpu")
    fairseq = (sys.executable, __file__, "--worker", kind)
    log, average = place / "log", place / "average.pt"
    run(log, *fairseq, "fairseq-train", *data, *flags(kind), "--seed", seed, "--num-workers", 0,
        "--save-dir", place / "checkpoints", "--log-file", place / "train.log", "--log-format",
        "json", "--log-interval", 50, "--no-epoch-checkpoints", "--save-interval", 1_000_000,
        "--disable-validation")  # fmt: skip
    run(log, "aiayn", "average", "--last", 5, "--dir", place / "checkpoints", "--output", average)
    model = ("--path", average, "--num-workers", 0, "--max-tokens", 4096)
    valid = run(log, *fairseq, "fairseq-validate", *data, *model, "--log-format", "json")
    out = run(log, *fairseq, "fairseq-generate", *data, *model, *search, "--post-process",
              "subword_nmt", "--tokenizer", "moses", "--log-format", "none")  # fmt: skip
    sentences = subprocess.run(
        [sys.executable, ROOT / "recipes/lib/hypotheses.py"],
        input=out, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (place / "hypothesis.txt").write_text(sentences, encoding="utf-8")
    bleu = run(log, "aiayn", "bleu", "--hypothesis", place / "hypothesis.txt", "--reference",
               text / "data/test.de", "--target-lang", "de", "--json")  # fmt: skip
    scores = json.loads(bleu)
    perplexity = [json.loads(line[line.index("{") :])["valid_ppl"]
                  for line in valid.splitlines() if '"valid_ppl"' in line]  # fmt: skip
    result = {
        "perplexity": float(perplexity[-1]),
        "bleu": scores["paper"]["score"],
        "sacrebleu": scores["sacrebleu"]["score"],
    }
    shutil.rmtree(place / "checkpoints")
    found.write_text(json.dumps(result))
    print(kind, seed, result, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=Path, help="EXP of a recipe, prepared")
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    jobs = [(kind, seed) for seed in arguments.seeds for kind in arguments.kinds]
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda job: measure(*job, arguments.text, arguments.work), jobs)
        results = dict(zip(jobs, found, strict=True))
    table = {kind: {str(s): results[kind, s] for s in arguments.seeds} for kind in arguments.kinds}
    commit = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    arguments.json.write_text(json.dumps({"commit": commit, "kinds": table}, indent=2) + "\n")
    for kind, by_seed in table.items():
        for what in ("perplexity", "bleu"):
            values = [one[what] for one in by_seed.values()]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            print(f"{kind:30} {what:12} {statistics.mean(values):6.2f} ± {spread:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        run_patched(*sys.argv[2:])
    else:
        main()
