"""Stands in for fairseq's commands where only what a recipe does around them is tested.

Each leaves what the recipes read of the real one's results: no binaries, and the references as
translations. STAND_IN_FAILS names an architecture whose training fails, STAND_IN_SPOILS a part of
the path of models that write one word for every other sentence."""

import json
import os
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

from sacremoses import MosesDetokenizer


def preprocess(flags: dict[str, str]) -> None:
    Path(flags["--destdir"]).mkdir()


def train(flags: dict[str, str]) -> None:
    if flags["--arch"] == os.environ.get("STAND_IN_FAILS"):
        raise SystemExit(f"no GPU takes {flags['--arch']}")
    checkpoints = Path(flags["--save-dir"])
    checkpoints.mkdir(parents=True)
    with zipfile.ZipFile(checkpoints / "checkpoint_last.pt", "w") as archive:
        archive.writestr("data.pkl", flags["--seed"])
    epoch = {"epoch": 1, "train_num_updates": flags["--max-update"], "train_wpb": "250"}
    epoch |= {"train_wps": "500", "train_train_wall": "3"}
    lines = ["num. shared model params: 1,000", json.dumps(epoch), "done training in 3.1 seconds"]
    Path(flags["--log-file"]).write_text("".join(f"{line}\n" for line in lines))


def validate(flags: dict[str, str]) -> None:
    print("2026-01-31 12:00:00 | INFO | tasks | [de] dictionary: 184 types")
    print('2026-01-31 12:00:01 | INFO | valid | {"epoch": 1, "valid_ppl": "9.87"}')


def generate(flags: dict[str, str]) -> None:
    subset = flags["--gen-subset"]
    text = Path(flags["data"]).parent / f"subwords/{subset}.{flags['--target-lang']}"
    lines = text.read_bytes().decode().split("\n")[:-1]
    if os.environ.get("STAND_IN_SPOILS", "no such path") in flags["--path"]:
        lines = [line if k % 2 else line.split(" ")[0] for k, line in enumerate(lines)]
    found = []
    for k, line in enumerate(lines):
        if flags.get("--post-process") == "subword_nmt":
            line = f"{line} ".replace("@@ ", "").strip()
        found.append(f"H-{k}\t-0.1\t{line}\n")
        if "--tokenizer" in flags:
            line = MosesDetokenizer(flags["--target-lang"]).detokenize(line.split())
        found.append(f"D-{k}\t-0.1\t{line}\n")
    sys.stdout.buffer.write("".join(reversed(found)).encode())  # as batches are: in any order
    print(f"Translated {len(lines):,} sentences (9 tokens) in 1.0s (9/s)", file=sys.stderr)


def with_stand_ins(directory: Path) -> dict[str, str]:
    """Return variables with which fairseq's commands are stand-ins, made in a directory."""
    import fork_server
    from recipe_runs import in_front, with_fork_server, write_tool

    for name in COMMANDS:
        program = f"{fork_server.programs() / 'python'} {__file__} {name}"
        write_tool(directory / name, f'exec {program} "$@"\n')
    return in_front(directory, with_fork_server())


COMMANDS = {
    "fairseq-preprocess": preprocess,
    "fairseq-train": train,
    "fairseq-validate": validate,
    "fairseq-generate": generate,
}

if __name__ == "__main__":
    name, *words = sys.argv[1:]
    COMMANDS[name]({"data": words[0], **dict(pairwise(words))})
