"""Measure what subword-nmt learn-bpe takes for the words of a whole WMT14 English-German.

Draws the running words of --pairs synthetic pairs (see synthetic_words.py), counts them, and has
37,000 byte pairs and characters learned from those seen --min-count times, as the recipe does.

    python benchmarks/learn_bpe.py --min-count 2 --json learn_bpe.json    about ten minutes
    python benchmarks/learn_bpe.py --pairs 20000                          a trial
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from synthetic_words import ENGLISH, GERMAN, Language, spell

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recipes" / "lib"))

from count_words import dictionary
from run_settings import ROOT, commit, hardware, packages

sys.path.insert(0, str(ROOT))

from fairseq_aiayn.paper import VOCABULARY_EN_DE

WORDS_A_SENTENCE = 23
CHUNK = 10_000_000  # words drawn at a time


def count_ranks(language: Language, words: int, rng: np.random.Generator) -> Counter[int]:
    """Count the ranks of so many running words."""
    ranks, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    for drawn in range(0, words, CHUNK):
        new, found = np.unique(language.draw(rng, min(CHUNK, words - drawn)), return_counts=True)
        ranks, place = np.unique(np.concatenate([ranks, new]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, found])).astype(np.int64)
    return Counter(dict(zip(ranks.tolist(), counts.tolist(), strict=True)))


def count_words(pairs: int, seed: int) -> Counter[bytes]:
    """Count the words of both languages together."""
    rng = np.random.default_rng(seed)
    total: Counter[bytes] = Counter()
    for language in (ENGLISH, GERMAN):
        for rank, count in count_ranks(language, pairs * WORDS_A_SENTENCE, rng).items():
            total[spell(language, rank).encode()] += count
    return total


def learn(words: Path) -> tuple[float, float]:
    """Return the seconds and the peak resident MiB of learn-bpe; CalledProcessError if it fails."""
    command = [str(Path(sys.executable).parent / "subword-nmt"), "learn-bpe", "--dict-input"]
    command += ["--symbols", str(VOCABULARY_EN_DE), "--total-symbols", "--input", str(words)]
    started = time.monotonic()
    subprocess.run([*command, "--output", str(words.with_name("codes"))], check=True)
    seconds = time.monotonic() - started
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=4_500_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--min-count", type=int, default=2, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    counts = count_words(arguments.pairs, arguments.seed)
    with tempfile.TemporaryDirectory() as directory:
        words = Path(directory) / "words"
        with words.open("wb") as stream:
            stream.writelines(dictionary(counts, arguments.min_count))
        seconds, mib = learn(words)
    figures = {
        "pairs": arguments.pairs,
        "seed": arguments.seed,
        "min_count": arguments.min_count,
        "types": len(counts),
        "types_learned_from": sum(count >= arguments.min_count for count in counts.values()),
        "seconds": round(seconds, 1),
        "peak_mib": round(mib),
    }
    print("  ".join(f"{name} {value:,}" for name, value in figures.items()))
    if arguments.json:
        about = {"commit": commit(), "packages": packages(), "hardware": hardware()}
        arguments.json.write_text(json.dumps(figures | about, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
