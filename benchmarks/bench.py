"""Measure speed and memory compared with stock fairseq, and what a user waits for at first.

fairseq's own commands run in one process per side, which are started once and take turns, A B A B
..., on the same data with the same --max-tokens. A figure is the median of the ratios of all
rounds, with their quartiles; one whose quartiles are more than 5% of it apart is called unsteady.

  training      source and target tokens per second, without padding, of updates of the same three
                batches of each side; peak memory of a step, without what the process held before
                the model was built (on a CPU resident memory, on a GPU that of the tensors);
                the time of its matrix products and attention kernels alone ÷ that of an update
  translating   sentences per second of fairseq-generate with beam 4 and α 0.6, and of CTranslate2
                on a CPU where it is installed, with hardly trained models, 12 tokens each
  products      GFLOP/s of MKL and oneDNN on a CPU, in float32 at three shapes of base
  first minute  seconds to the first update, of `import fairseq_aiayn`, `aiayn --help`, `aiayn rows`

Stock fairseq runs in the precision of ours; on a CPU, where it has float32 alone, in that.

examples:
    python benchmarks/bench.py --json bench.json       tiny, base and demo: 20 minutes on two cores
    python benchmarks/bench.py --parts training --row tiny --seconds 10           a trial
    python benchmarks/bench.py --device cuda           tiny, base and big in three precisions
    python benchmarks/bench.py --show FILE ...         result files side by side, in Markdown
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from figures import Figure, ratio, side_by_side, spread, table
from matrix_products import SHAPES, gflops_of_libraries
from sides import Side, training_groups, translating_sides
from workers import Answer, Worker, alternate

from fairseq_aiayn.console import script
from fairseq_aiayn.files import write_whole
from fairseq_aiayn.paper import DEMO, ROWS
from fairseq_aiayn.runs.record import ROOT, commit, hardware, packages

HERE = Path(__file__).parent
WORK = ROOT / "exp" / "bench"
INTERRUPTED = 128 + signal.SIGINT  # what a shell reports
# Configurations, of which the first one also translates; tokens of a batch; seconds of turns
DEFAULTS = {
    "cpu": {"row": ["tiny", "base", "demo"], "max_tokens": 2_048, "seconds": 70.0},
    "cuda": {"row": ["base", "tiny", "big"], "max_tokens": 4_096, "seconds": 20.0},
}


class Regime(NamedTuple):
    """What a configuration trains on again and again, and in how many threads."""

    max_tokens: int
    batches: int = 3
    threads: int = 0  # as the environment says


# As the demo trains: each batch has shapes of its own, and they are more than oneDNN keeps
REGIMES = {DEMO.name: Regime(DEMO.batch_tokens, batches=15, threads=1)}
ENDLESS, WARMUP = 1_000_000, 4_000  # updates; the turns end the training
# A model for translating is hardly trained, because only the length of translations would matter
SHORT_TRAINING = {"max_tokens": 1_024, "updates": 20, "warmup": 1_000}
LENGTH, TRANSLATED_TOKENS = 12, 4_096  # tokens of every translation, of a batch of sources
PEER = "CTranslate2 float32"
STARTS = 3  # of fairseq-train, up to the first update
FIRST_COMMANDS = (
    ("aiayn", "--help"),
    ("aiayn", "rows"),
    ("python", "-c", "import fairseq_aiayn"),
)
FIRST_TIMES = 11  # of each of these commands
Measured = dict[str, object]  # all figures, for JSON


def training(arguments: argparse.Namespace) -> tuple[list[Figure], Measured]:
    """Train each configuration in each precision on all sides in turn."""
    figures: list[Figure] = []
    measured: Measured = {}
    for row in arguments.row:
        for sides in training_groups(arguments.device):
            with ExitStack() as running:
                workers = [running.enter_context(trainer(side, row, arguments)) for side in sides]
                held = {worker.name: worker.answer()["held_mib"] for worker in workers}
                count = regime(row, arguments).batches
                orders: list[dict[str, object]] = [{"batch": k} for k in range(count)]
                answers = alternate(workers, orders, arguments.seconds, f"training {row}")
            speeds = {name: list(map(speed, rounds)) for name, rounds in answers.items()}
            peaks = {
                name: [max(turn["peak_mib"] for turn in turns) - held[name] for turns in rounds]
                for name, rounds in answers.items()
            }
            for name, rounds in answers.items():
                shares = [total("products", turns) / total("seconds", turns) for turns in rounds]
                figures.append(Figure("training, products ÷ update", row, name, spread(shares)))
            for title, values in (("tokens/s", speeds), ("peak memory of a step", peaks)):
                figures += beside_stock(f"training, {title}", row, sides, values)
                measured[f"{row}, {sides[0].precision}, {title}"] = values
    return figures, measured


def beside_stock(
    name: str, row: str, sides: list[Side], values: dict[str, list[float]]
) -> list[Figure]:
    """Divide the values of each of our sides by those of stock fairseq, the first of the sides."""
    stock, *ours = (side.name for side in sides)
    return [ratio(name, row, (own, stock), values[own], values[stock]) for own in ours]


def speed(turns: list[Answer]) -> float:
    """Return the tokens per second of all turns of a round."""
    return total("tokens", turns) / total("seconds", turns)


def total(name: str, turns: list[Answer]) -> float:
    """Return the sum over the turns of a round."""
    return sum(turn[name] for turn in turns)


def regime(row: str, arguments: argparse.Namespace) -> Regime:
    """Return that of a configuration."""
    return REGIMES.get(row, Regime(arguments.max_tokens))


def trainer(side: Side, row: str, arguments: argparse.Namespace) -> Worker:
    """Start a fairseq-train without an end, of which nothing is kept."""
    trains = regime(row, arguments)
    options = side.training_options(row, trains.max_tokens, ENDLESS, WARMUP)
    # fairseq makes and deletes a file in it all the same, and others start at this moment
    own = arguments.work / "unsaved" / f"{row}-{side.name}"
    words = [str(arguments.data), *options, "--no-save", "--save-dir", str(own)]
    words = [str(trains.batches), str(trains.threads), *words]
    return start(side.name, "training_worker.py", words, arguments)


def translating(arguments: argparse.Namespace) -> tuple[list[Figure], Measured]:
    """Let all sides translate the test set in turn, with models of the first configuration."""
    row, sides = arguments.row[0], translating_sides(arguments.device)
    models = {side.system: briefly_trained(side, row, arguments) for side in sides[:2]}
    with ExitStack() as running:
        workers = [translator(side, models[side.system], arguments) for side in sides]
        if arguments.device == "cpu" and importlib.util.find_spec("ctranslate2"):
            numbers = [str(LENGTH), str(TRANSLATED_TOKENS)]
            words = ["ctranslate2", str(models["ours"]), str(arguments.data), *numbers]
            workers.append(start(PEER, "translating_worker.py", words, arguments))
        for worker in workers:
            running.enter_context(worker)
        answers = alternate(workers, [{}], arguments.seconds, f"translating {row}")
    rates, peaks = (
        {name: [turn[key] for (turn,) in rounds] for name, rounds in answers.items()}
        for key in ("sentences_per_second", "peak_mib")
    )
    figures = beside_stock("translating, sentences/s", row, sides, rates)
    if PEER in rates:
        for own in (side.name for side in sides[1:]):
            values = rates[own], rates[PEER]
            figures.append(ratio("translating, sentences/s", row, (own, PEER), *values))
    figures += beside_stock("translating, peak memory of the process", row, sides, peaks)
    return figures, {"sentences/s": rates, "peak MiB": peaks}


def briefly_trained(side: Side, row: str, arguments: argparse.Namespace) -> Path:
    """Train a model and return its checkpoint; raises OSError if that fails."""
    folder = arguments.work / "models" / f"{row}-{side.system}"
    shutil.rmtree(folder, ignore_errors=True)  # fairseq would go on from there
    command = [
        *(installed("fairseq-train"), str(arguments.data)),
        *side.training_options(row, **SHORT_TRAINING),
        *("--save-dir", str(folder), "--save-interval-updates", "0", "--no-epoch-checkpoints"),
    ]
    log = arguments.work / "logs" / f"training-{side.system}.log"
    print(f"training a model for {side.name}", file=sys.stderr, flush=True)
    with log.open("wb") as file:
        status = subprocess.run(command, stdout=file, stderr=file, check=False).returncode
    if status:
        raise OSError(f"fairseq-train of {side.name} ended with status {status}: see {log}")
    return folder / "checkpoint_last.pt"


def translator(side: Side, checkpoint: Path, arguments: argparse.Namespace) -> Worker:
    """Start a side that translates with a model."""
    words = [
        *(str(arguments.data), *side.translating_options(), "--path", str(checkpoint)),
        *("--max-tokens", str(TRANSLATED_TOKENS), "--gen-subset", "test"),
        *("--min-len", str(LENGTH), "--max-len-a", "0", "--max-len-b", str(LENGTH)),
    ]
    return start(side.name, "translating_worker.py", ["fairseq-generate", *words], arguments)


def first_minute(arguments: argparse.Namespace) -> tuple[list[Figure], Measured]:
    """Start fairseq-train of both systems in turn, and the commands that a user tries first."""
    row, sides = arguments.row[0], training_groups(arguments.device)[0][:2]
    starts: dict[str, list[float]] = {side.name: [] for side in sides}
    for turn in range(STARTS):
        for side in sides:
            print(f"first update: start {turn + 1}, {side.name}", file=sys.stderr, flush=True)
            with trainer(side, row, arguments) as worker:
                worker.answer()
                starts[side.name].append(time.monotonic() - worker.started)
    commands = {
        " ".join(words): [seconds_of(words) for _ in range(FIRST_TIMES)] for words in FIRST_COMMANDS
    }
    figures = beside_stock("seconds to the first update", row, sides, starts)
    figures += [Figure(name, "", "s", spread(times)) for name, times in commands.items()]
    return figures, {"starts": starts, "commands": commands}


def products(arguments: argparse.Namespace) -> tuple[list[Figure], Measured]:
    """Let the libraries of a CPU multiply matrices in turn."""
    figures, shapes = [], SHAPES if arguments.device == "cpu" else ()
    for shape in shapes:
        for library, rates in gflops_of_libraries(*shape).items():
            subject = " × ".join(map(str, shape))
            figures.append(Figure("products, GFLOP/s", subject, library, spread(rates)))
    return figures, {}


def seconds_of(words: Sequence[str]) -> float:
    """Return the wall time of a command; raises OSError if it fails."""
    started = time.monotonic()
    command = [installed(words[0]), *words[1:]]
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        raise OSError(f"{' '.join(words)} failed")
    return time.monotonic() - started


def installed(name: str) -> str:
    """Return the path of a command that was installed beside this Python."""
    return str(Path(sys.executable).with_name(name))


def start(name: str, program: str, words: list[str], arguments: argparse.Namespace) -> Worker:
    """Start a program of this directory on the device of the options; its log goes to --work."""
    log = arguments.work / "logs" / f"{Path(program).stem}-{name.replace(' ', '-')}.log"
    return Worker(name, [HERE / program, arguments.device, *words], log)


PARTS = {each.__name__: each for each in (products, training, translating, first_minute)}


def result(
    arguments: argparse.Namespace, load: list[float], figures: list[Figure], measured: Measured
) -> str:
    """Return all figures and what they must be traced back to, as JSON; no path of this machine."""
    chosen = {name: getattr(arguments, name) for name in ("device", "parts", *DEFAULTS["cpu"])}
    content = {
        "machine": hardware(),
        "packages": packages(),
        "commit": commit(),
        "command": "benchmarks/bench.py",
        "options": chosen,
        "load_average": {"before": load, "after": list(os.getloadavg())},
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "found": [asdict(figure) for figure in figures],
        "measured": measured,
    }
    return f"{json.dumps(content, indent=1, ensure_ascii=False)}\n"


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the options; status 2 for a data directory without a training set."""
    add = parser.add_argument
    add("--device", choices=DEFAULTS, default="cpu", help="default: cpu")
    add("--parts", choices=PARTS, nargs="+", default=list(PARTS), help="default: all")
    add("--row", choices=ROWS, nargs="+", metavar="ROW", help="default: tiny base demo (GPU: big)")
    add("--max-tokens", type=int, metavar="N", help="of a training batch (2048; GPU: 4096)")
    add("--seconds", type=float, metavar="S", help="of turns, at least (70; GPU: 20)")
    add("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    add("--show", type=Path, nargs="+", metavar="FILE", help="measure nothing, print these results")
    add("--work", type=Path, default=WORK, metavar="DIR", help="for logs and models")
    data = WORK / "multi30k_en_de" / "bin"
    add("--data", type=Path, default=data, metavar="DIR", help="output of fairseq-preprocess")
    arguments = parser.parse_args()
    if not arguments.show and not any(arguments.data.glob("train.*-*.*.idx")):
        parser.error(f"--data: expected output of fairseq-preprocess, got {arguments.data}")
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    return argparse.Namespace(**{"json": None, "show": None} | DEFAULTS[arguments.device] | given)


def main() -> None:
    """Measure all parts, print the table, write --json; one line for what goes wrong."""
    load = list(os.getloadavg())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    figures: list[Figure] = []
    measured: Measured = {}
    try:
        with script(__doc__) as parser:
            arguments = parse(parser)
            if arguments.show:
                print(side_by_side(arguments.show), end="")
                return
            (arguments.work / "logs").mkdir(parents=True, exist_ok=True)
            try:
                os.lockf(os.open(arguments.work / ".lock", os.O_RDWR | os.O_CREAT), os.F_TLOCK, 0)
            except BlockingIOError as error:
                raise ValueError(f"{arguments.work}: another benchmark works there") from error
            if arguments.json:
                arguments.json.parent.mkdir(parents=True, exist_ok=True)
            for part in arguments.parts:
                found, measured[part] = PARTS[part](arguments)
                figures += found
                if arguments.json:
                    write_whole(arguments.json, result(arguments, load, figures, measured))
            print(table(figures))
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
