"""Measure how fast fairseq-generate translates with this package's search and model.

Both systems translate the test set with beam 4 and α 0.6, each with its own model of the same row,
trained on the same data with the same budget. Ours also translates with products in bfloat16, and
CTranslate2 translates in float32 with our model and its own search. Processes of fairseq-generate
run in turns, A B A B ...; the figures are from fairseq's line "Translated N sentences (T tokens)",
and the table also has the wall time and the peak memory of the process. If one system's
translations are shorter, a ratio of sentences per second means little: so tokens per second have
the same target, and the mean length is printed. --length makes all translations equally long,
whatever the models have learned.

examples:
    python benchmarks/generate.py --json generate.json             tiny: 6 minutes on two cores
    python benchmarks/generate.py --turns 1 --train-updates 20 --length 12     a trial
    python benchmarks/generate.py --checkpoints ours/average.pt stock/average.pt --row base
    python benchmarks/generate.py --device cuda --row base
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from comparison import run_comparison
from comparison_options import add_count, add_data, add_row, comparison_parser, old_file
from findings import PEER, TRANSLATING, TRANSLATING_TOKENS, Finding, find_target, finding
from sides import Side, translating_sides
from spreads import number, ratios, spread
from workers import Answer, start

from fairseq_aiayn.text import aligned_lines

TRANSLATED = re.compile(
    r"Translated ([\d,]+) sentences \(([\d,]+) tokens\) in [\d,.]+s "
    r"\(([\d,.]+) sentences/s, ([\d,.]+) tokens/s\)"
)
FIGURES: dict[str, Callable[[Answer], float]] = {
    "sentences/s": lambda turn: turn["sentences_per_second"],
    "tokens/s": lambda turn: turn["tokens_per_second"],
    "tokens a sentence": lambda turn: turn["tokens"] / turn["sentences"],
    "s of the process": lambda turn: turn["process_seconds"],
    "peak MiB": lambda turn: turn["peak_mib"],
}
OF_SEARCH = 3  # of these figures, CTranslate2 has the first ones: it is not a command of fairseq
CTRANSLATE2 = "CTranslate2 float32"
COMPARED = {  # what is printed as a ratio, by the name of the figure
    TRANSLATING: "sentences/s",
    TRANSLATING_TOKENS: "tokens/s",
    "length of translations": "tokens a sentence",
    "time of the process": "s of the process",
    "peak memory of the process": "peak MiB",
}
BATCH_TOKENS = 1_024  # a short training learns more from many small updates
WARMUP = 1_000  # with fewer updates, Equation 3's rates are too high to learn anything


def compare(arguments: argparse.Namespace) -> tuple[str, list[Finding], dict[str, object]]:
    """Let both sides translate in turns; OSError or ValueError if one of them fails."""
    stock, ours = translating_sides(arguments.device)
    sides = [stock, ours, faster := Side("ours", "bfloat16", arguments.device)]
    if arguments.checkpoints:
        models = dict(zip(("ours", "stock"), arguments.checkpoints, strict=True))
    else:
        models = {side.system: train(side, arguments) for side in (stock, ours)}
    turns: dict[str, list[Answer]] = {name: [] for name in (*(s.name for s in sides), CTRANSLATE2)}
    for turn in range(arguments.turns + 1):
        counts = (
            f"turn {turn} of {arguments.turns}" if turn else "a first turn, which does not count"
        )
        print(counts, file=sys.stderr, flush=True)
        answers = {side.name: translate(side, models[side.system], arguments) for side in sides}
        answers[CTRANSLATE2] = translate_with_ctranslate2(models["ours"], arguments)
        if turn:  # in the first one, files and caches are cold
            for name, answer in answers.items():
                turns[name].append(answer)
    found = [compared(name, ours, stock.name, turns, arguments) for name in COMPARED]
    found.append(compared(TRANSLATING, faster, stock.name, turns, arguments))
    found += [compared(PEER, side, CTRANSLATE2, turns, arguments) for side in (ours, faster)]
    return table(turns, arguments), found, {"turns": turns}


def compared(
    name: str,
    side: Side,
    other: str,
    turns: dict[str, list[Answer]],
    arguments: argparse.Namespace,
) -> Finding:
    """Divide a figure of one of our sides by that of the other, turn by turn."""
    figure = FIGURES[COMPARED.get(name, "sentences/s")]
    values = [list(map(figure, turns[one])) for one in (side.name, other)]
    target = find_target(name, arguments.device, arguments.row, side.precision)
    return finding(name, arguments.row, f"{side.name} ÷ {other}", ratios(*values), target)


def train(side: Side, arguments: argparse.Namespace) -> Path:
    """Train a model for --train-updates and return its checkpoint; WorkerDied if that fails."""
    folder = arguments.work / "models" / f"{arguments.row}-{side.system}"
    shutil.rmtree(folder, ignore_errors=True)  # fairseq would go on from there
    options = [
        *(str(arguments.data), "--save-dir", str(folder)),
        *side.training_options(arguments.row, BATCH_TOKENS, arguments.train_updates, WARMUP),
        *("--save-interval-updates", "0", "--no-epoch-checkpoints"),
    ]
    updates = f"{arguments.train_updates:,} updates"
    print(f"training {side.name} for {updates}: {folder}", file=sys.stderr, flush=True)
    command = ["fairseq-train", *options]
    with start(f"training {side.name}", "command_worker.py", command, arguments) as worker:
        worker.answer()
    return folder / "checkpoint_last.pt"


def translate(side: Side, checkpoint: Path, arguments: argparse.Namespace) -> Answer:
    """Run fairseq-generate once; WorkerDied if it fails."""
    options = [
        *(str(arguments.data), *side.translating_options(), "--path", str(checkpoint)),
        *("--max-tokens", str(arguments.max_tokens), "--gen-subset", "test"),
        *("--post-process", "subword_nmt"),
        *(exactly(arguments.length) if arguments.length else ()),
    ]
    command = ["fairseq-generate", *options]
    with start(side.name, "command_worker.py", command, arguments) as worker:
        answer = worker.answer()
        seconds = time.monotonic() - worker.started
    translated = TRANSLATED.search(worker.log.read_text(encoding="utf-8", errors="replace"))
    if translated is None:
        raise ValueError(f"{worker.log} has no line 'Translated N sentences (T tokens)'")
    figures = [float(group.replace(",", "")) for group in translated.groups()]
    names = ("sentences", "tokens", "sentences_per_second", "tokens_per_second")
    return answer | dict(zip(names, figures, strict=True)) | {"process_seconds": round(seconds, 3)}


def translate_with_ctranslate2(checkpoint: Path, arguments: argparse.Namespace) -> Answer:
    """Translate once with CTranslate2; WorkerDied if it fails."""
    numbers = (str(arguments.max_tokens), str(arguments.length or 0))
    words = [str(checkpoint), str(arguments.data), *numbers]
    with start(CTRANSLATE2, "ctranslate2_worker.py", words, arguments) as worker:
        return worker.answer()


def exactly(length: int) -> list[str]:
    """Return options that force a length; they override those of the search."""
    return ["--min-len", str(length), "--max-len-a", "0", "--max-len-b", str(length)]


def table(turns: dict[str, list[Answer]], arguments: argparse.Namespace) -> str:
    """Return the measurements of each side as text."""
    sentences = next(iter(turns.values()))[0]["sentences"]
    rows = [["", *FIGURES]]
    for name, measured in turns.items():
        figures = [*FIGURES.values()][: OF_SEARCH if name == CTRANSLATE2 else None]
        cells = [str(spread(list(map(figure, measured)))) for figure in figures]
        rows.append([name, *cells, *[""] * (len(FIGURES) - len(cells))])
    length = f" of {arguments.length} tokens each" if arguments.length else ""
    title = (
        f"{arguments.row}, {number(sentences)} sentences{length}, beam 4, "
        f"--max-tokens {arguments.max_tokens}, {arguments.device}: {arguments.turns} turns"
    )
    return "\n".join([title, *aligned_lines(rows)])


def parse() -> argparse.Namespace:
    parser = comparison_parser(__doc__)
    parser.add_argument(
        "--checkpoints",
        type=old_file,
        nargs=2,
        metavar=("OURS", "STOCK"),
        help="models to translate with, instead of training them",
    )
    add_row(parser)
    add_count(parser, "--train-updates", 300, "updates of both models")
    add_count(parser, "--length", None, "tokens per translation, without its end")
    add_count(parser, "--max-tokens", 4096, "tokens per batch")
    add_count(parser, "--turns", 3, "turns per side")
    add_data(parser)
    return parser.parse_args()


def main() -> None:
    run_comparison(compare, parse())


if __name__ == "__main__":
    main()
