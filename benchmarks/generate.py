"""Measure how fast fairseq-generate translates with this package's search and model.

Both systems translate the test set with beam 4 and α 0.6, each with its own model of the same row,
trained on the same data with the same budget. Processes of fairseq-generate run in turns, A B A B
...; the figures are from fairseq's line "Translated N sentences (T tokens)", and the table also has
the wall time and the peak memory of the process. If one system's translations are shorter, a ratio
of sentences per second means little: so tokens per second have the same target, and the mean length
is printed. --length makes all translations equally long, whatever the models have learned.

examples:
    python benchmarks/generate.py --json generate.json             tiny: 6 minutes on two cores
    python benchmarks/generate.py --turns 1 --train-updates 20 --length 12     a trial
    python benchmarks/generate.py --checkpoints ours/average.pt stock/average.pt --row base
    python benchmarks/generate.py --device cuda --row base
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from comparison_options import add_data_option, add_options, add_turns, check_options
from side_by_side import Finding, aligned_lines, finding, number, ratios, run_comparison, spread
from sides import SEARCH, Side, on_device, opponents
from targets import TRANSLATING, TRANSLATING_TOKENS
from trained_models import find_model
from workers import Answer, Worker, log_file

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
COMPARED = {  # what is printed as a ratio, by the name of the figure
    TRANSLATING: "sentences/s",
    TRANSLATING_TOKENS: "tokens/s",
    "length of translations": "tokens a sentence",
    "time of the process": "s of the process",
    "peak memory of the process": "peak MiB",
}
Turns = dict[str, list[Answer]]


def generation_command(side: Side, checkpoint: Path, arguments: argparse.Namespace) -> list[str]:
    """Return fairseq-generate's arguments; stock needs the plugin to load its checkpoints."""
    size = ("--batch-size", arguments.batch_size)
    if arguments.batch_size is None:
        size = ("--max-tokens", arguments.max_tokens)
    return [
        *(str(arguments.data), *side.plugin, *SEARCH[side.system], *map(str, size)),
        *("--path", str(checkpoint), "--gen-subset", "test", "--seed", str(arguments.seed)),
        *("--required-batch-size-multiple", "1", "--post-process", "subword_nmt"),
        *(["--fp16"] if side.precision == "float16" else []),
        *on_device(arguments.device),
        *(_exactly(arguments.length) if arguments.length else ()),
    ]


def _exactly(length: int) -> list[str]:
    """Return options that force a length; they override those of the search."""
    return ["--min-len", str(length), "--max-len-a", "0", "--max-len-b", str(length)]


def translate(side: Side, command: list[str], arguments: argparse.Namespace) -> Answer:
    """Run fairseq-generate once; raises WorkerDied if it fails."""
    log = log_file(arguments.work, side.name)
    script = Path(__file__).with_name("command_worker.py")
    line = [script, arguments.device, "fairseq-generate", *command]
    with Worker(side.name, line, log, side.environment) as worker:
        answer = worker.answer()
        seconds = time.monotonic() - worker.started
    translated = TRANSLATED.search(log.read_text(encoding="utf-8", errors="replace"))
    if translated is None:
        raise ValueError(f"{log} has no line 'Translated N sentences (T tokens)'")
    figures = [float(group.replace(",", "")) for group in translated.groups()]
    names = ("sentences", "tokens", "sentences_per_second", "tokens_per_second")
    return answer | dict(zip(names, figures, strict=True)) | {"process_seconds": round(seconds, 3)}


def measure(sides: list[Side], arguments: argparse.Namespace) -> Turns:
    """Let the sides translate in turns; missing models are trained first."""
    models = arguments.checkpoints or [find_model(side, arguments) for side in sides]
    commands = [generation_command(*each, arguments) for each in zip(sides, models, strict=True)]
    turns: Turns = {side.name: [] for side in sides}
    for turn in range(1, arguments.turns + 1):
        for side, command in reversed(list(zip(sides, commands, strict=True))):
            print(f"turn {turn} of {arguments.turns}: {side.name}", file=sys.stderr, flush=True)
            turns[side.name].append(translate(side, command, arguments))
    return turns


def compare(arguments: argparse.Namespace) -> tuple[str, list[Finding], dict[str, object]]:
    """Translate with ours and its rival; OSError or ValueError if one of them fails."""
    own, rival = opponents(arguments.against, arguments.device)
    turns = measure([own, rival], arguments)
    unit, about = f"{own.label} ÷ {rival.name}", (arguments, arguments.row, own.precision)
    found = []
    for name, figure in COMPARED.items():
        values = ([FIGURES[figure](turn) for turn in turns[side.name]] for side in (own, rival))
        found.append(finding(name, arguments.row, unit, ratios(*values), *about))
    return table(turns, arguments), found, {"turns": turns}


def table(turns: Turns, arguments: argparse.Namespace) -> str:
    """Return the measurements of each side as text."""
    sentences = next(iter(turns.values()))[0]["sentences"]
    rows = [["", *FIGURES]]
    for name, measured in reversed(turns.items()):
        cells = (str(spread(list(map(figure, measured)))) for figure in FIGURES.values())
        rows.append([name, *cells])
    batch = f"--max-tokens {arguments.max_tokens}"
    if arguments.batch_size is not None:
        batch = f"--batch-size {arguments.batch_size}"
    length = f" of {arguments.length} tokens each" if arguments.length else ""
    title = (
        f"{arguments.row}, {number(sentences)} sentences{length}, beam 4, {batch}, "
        f"{arguments.device}: {arguments.turns} turns"
    )
    return "\n".join([title, *aligned_lines(rows)])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    number_of = {"type": int, "metavar": "N"}
    parser.add_argument("--row", default="tiny", help="a row of aiayn rows (default: tiny)")
    parser.add_argument(
        "--checkpoints",
        type=Path,
        nargs=2,
        metavar=("OURS", "OTHER"),
        help="models to translate with, instead of training them",
    )
    parser.add_argument(
        "--train-updates", default=300, **number_of, help="updates of both models (default: 300)"
    )
    parser.add_argument("--length", **number_of, help="tokens per translation, without its end")
    parser.add_argument(
        "--max-tokens", default=4096, **number_of, help="tokens per batch (default: 4096)"
    )
    parser.add_argument("--batch-size", **number_of, help="sentences per batch, instead of tokens")
    add_turns(parser, 3)
    add_data_option(parser)
    add_options(parser)
    arguments = parser.parse_args()
    check_options(parser, arguments)
    for checkpoint in arguments.checkpoints or ():
        if not checkpoint.is_file():
            parser.error(f"--checkpoints must be files, got {checkpoint}")
    return arguments


def main() -> None:
    run_comparison("generate", compare, parse())


if __name__ == "__main__":
    main()
