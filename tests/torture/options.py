"""Wrong options of every command."""

from __future__ import annotations

import argparse
import random
import re
from pathlib import Path

from torture.attempt import Attempt
from torture.materials import SHORT, Materials, reading, training
from torture.server import ROOT

VALUES = (
    *("", " ", "0", "-1", "1", "3.5", "nan", "inf", "-inf", "1e999", "9" * 4000, "2147483648"),
    *("1000000", "x", "é", "\u2028", "a b", "../..", "/", ".", "/dev/null", "/etc/passwd"),
    *("/proc/self/mem", "-", "--", "-x", "${oc.env:HOME}", "$(touch executed)", "`touch executed`"),
    *("{}", "[1,2]", "true", "None", "en", "de", "a" * 300, "a" * 5000),
    *("*", "a:b", "a,b", "'", '"'),
)
NUMBERS = ("0", "-1", "3.5", "nan", "inf", "-inf", "1e999", "2147483648", "1000000", "x", "[1,2]")
# Numbers among fairseq's options that say what this package does
FAIRSEQ = {
    "fairseq-generate": (
        *("--beam", "--lenpen", "--nbest", "--max-len-a", "--max-len-b", "--min-len"),
        *("--max-tokens", "--batch-size", "--temperature", "--diverse-beam-groups"),
    ),
    "fairseq-train": (
        *("--label-smoothing", "--dropout", "--attention-dropout", "--activation-dropout"),
        *("--encoder-layers", "--encoder-embed-dim", "--encoder-ffn-embed-dim", "--d-k", "--d-v"),
        *("--encoder-attention-heads", "--warmup-updates", "--adam-betas", "--adam-eps"),
        *("--clip-norm", "--lr-factor", "--max-tokens", "--update-freq", "--seed", "--patience"),
        *("--max-source-positions", "--save-interval-updates", "--num-workers"),
    ),
}
RECIPES = tuple(sorted(ROOT.glob("recipes/*/run.sh")))


def attack(attempt: Attempt, materials: Materials) -> None:
    """Run a few commands with an option or two that are wrong."""
    for _ in range(3):
        _aiayn(attempt, materials)
    _fairseq(attempt, materials)


def _aiayn(attempt: Attempt, materials: Materials) -> None:
    from fairseq_aiayn.cli.main import build_parser

    rng = attempt.rng
    commands = build_parser()._subparsers._group_actions[0].choices
    name = rng.choice(sorted(commands))
    output = attempt.directory / f"out-{attempt.commands}.html"
    words = sound_arguments(name, materials, output)
    attempt.keep(*(Path(word) for word in words if Path(word).is_file()))
    for _ in range(rng.choice((1, 1, 2))):
        words = _spoilt(words, commands[name], rng)
    attempt.run("aiayn", name, *words, stdin=rng.choice((b"", b"w1 w2\n", rng.randbytes(50))))


def sound_arguments(name: str, materials: Materials, output: Path) -> list[str]:
    """Return arguments with which a command ends well."""
    checkpoints = materials.checkpoints("ours")
    model = checkpoints / "checkpoint_last.pt"
    parser = materials.checkpoints("parser") / "checkpoint_last.pt"
    lines, words = materials.lines, materials.lines.with_name("all.words")
    found = {
        "rows": [],
        "flags": ["base", "--gpus", "8"],
        "cost": ["big", "--tflops", "19.5", "--gpus", "8", "--hours", "9"],
        "user-dir": [],
        "average": ["--last", "2", "--dir", checkpoints, "--output", output],
        "bleu": ["--hypothesis", lines, "--reference", lines, "--target-lang", "de"],
        "compare": [materials.directory, "--output", output],
        "attention": [
            *("--checkpoint", model, "--data-bin", materials.translation_bin),
            *("--source", "w1 w2", "--target", "v1", "--output", output),
        ],
        "linearize": [materials.trees],
        "parse": [
            *("--checkpoint", parser, "--data-bin", materials.parsing_bin, "--cpu", "--beam", "1"),
            "the cat",
        ],
        "delinearize": [words, "--words", words],
        "diagnose": [materials.train_log],
        "export": [
            *("--checkpoint", model, "--data-bin", materials.translation_bin, "--output", output)
        ],
        "translate": [materials.model_folder("ours"), "--beam", "1"],
        "evalb": [lines, lines],
    }
    return [str(word) for word in found[name]]


def _spoilt(words: list[str], parser: argparse.ArgumentParser, rng: random.Random) -> list[str]:
    """Replace, add, drop or double an argument."""
    words, value = list(words), rng.choice(VALUES)
    actions = [one for one in parser._actions if one.option_strings and one.dest != "help"]
    kind = rng.randrange(4)
    if kind == 0 and words:
        words[rng.randrange(len(words))] = value
    elif kind == 1 and words:
        del words[rng.randrange(len(words))]
    elif kind == 2 or not actions:
        words.insert(rng.randrange(len(words) + 1), value)
    else:
        action = rng.choice(actions)
        number = action.nargs if isinstance(action.nargs, int) else 1
        words += [rng.choice(action.option_strings), *[value] * number]
    return words


def _fairseq(attempt: Attempt, materials: Materials) -> None:
    rng = attempt.rng
    model = materials.checkpoints("ours") / "checkpoint_last.pt"
    attempt.keep(model)
    command = rng.choice(sorted(FAIRSEQ))
    option, value = rng.choice(FAIRSEQ[command]), rng.choice(NUMBERS)
    if command == "fairseq-train":
        words = training(materials.translation_bin, "ours", attempt.directory / "save")
    else:
        words = (command, *reading(materials.translation_bin, "ours", model), *SHORT)
    attempt.run(*words, f"{option}={value}", limit=300)


def declared(recipe: Path) -> list[str]:
    """List the options that a recipe and what it sources declare."""
    found: list[str] = []
    for script in (recipe, *sorted((ROOT / "recipes" / "lib").glob("*.sh"))):
        block = re.search("(?ms)^# Options$(.*?)^# End of options$", script.read_text())
        found += re.findall(r"(?m)^([a-z][a-z0-9_]*)=", block[1]) if block else []
    return found
