"""Attacks by checkpoints: damaged bytes, wrong content, programs in them."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from torture.attempt import Attempt
from torture.materials import PLUGIN, SHORT, SYSTEMS, Materials
from torture.mutation import damage_file, mutate

DAMAGED = 0.25  # of the files; the others are well-formed, of wrong content


def attack(attempt: Attempt, materials: Materials) -> None:
    """Give one bad checkpoint to two of the commands that read checkpoints."""
    rng = attempt.rng
    system = rng.choice(("ours", "ours", "stock", "parser"))
    folder = attempt.directory / "save"
    shutil.copytree(materials.checkpoints(system), folder)
    bad = folder / "checkpoint_last.pt"
    if rng.random() < DAMAGED:
        damage_file(bad, rng)
    else:
        state = torch.load(bad, weights_only=False)
        (attempt.directory / "what").write_text(mutate(state, rng, attempt.mark))
        torch.save(state, bad, _use_new_zipfile_serialization=rng.random() < 0.8)
    shutil.copy(bad, folder / "checkpoint_1_2.pt")
    attempt.keep(folder / "checkpoint_1_1.pt", folder / "checkpoint_1_2.pt")
    for name in rng.sample(sorted(USES[system]), 2):
        USES[system][name](attempt, materials, system, bad)


def average(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    output = attempt.directory / "average.pt"
    attempt.run(
        "aiayn", "average", "--last", "2", "--dir", bad.parent, "--output", output, output=output
    )


def attention(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    output = attempt.directory / attempt.rng.choice(("page.html", "picture.svg"))
    attempt.run(
        *("aiayn", "attention", "--checkpoint", bad, "--data-bin", materials.translation_bin),
        *("--source", "w1 w2", "--target", "v1 v2", "--output", output),
        output=output,
    )


def parse(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    given = ("--checkpoint", bad, "--data-bin", materials.parsing_bin, "--cpu", "--beam", "2")
    attempt.run("aiayn", "parse", *given, "the cat saw it .")


def generate(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    attempt.run("fairseq-generate", *_reading(materials, system, bad), *SHORT)


def interactive(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    attempt.run(
        "fairseq-interactive", *_reading(materials, system, bad), *SHORT, stdin=b"w1 w2\n\nw3\n"
    )


def validate(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    attempt.run("fairseq-validate", *_reading(materials, system, bad), "--max-tokens", "256")


def resume(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    attempt.run(*_training(materials, system, bad.parent), "--max-update", "3")


def fine_tune(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    folder = attempt.directory / "fine"
    attempt.run(*_training(materials, system, folder), "--finetune-from-model", bad)


def _reading(materials: Materials, system: str, bad: Path) -> tuple[str | Path, ...]:
    task = {"ours": "aiayn_translation", "stock": "translation", "parser": "aiayn_parsing"}[system]
    data = materials.parsing_bin if system == "parser" else materials.translation_bin
    return (
        data,
        *PLUGIN,
        "--task",
        task,
        "--cpu",
        "--path",
        bad,
        "--required-batch-size-multiple",
        "1",
    )


def _training(materials: Materials, system: str, folder: Path) -> tuple[str | Path, ...]:
    options = SYSTEMS[system]
    return (
        *("fairseq-train", materials.translation_bin, *PLUGIN, *options),
        *("--save-dir", folder, "--no-epoch-checkpoints"),
    )


READERS = {"average": average, "generate": generate, "interactive": interactive}
READERS |= {"validate": validate}
TRAINERS = {"resume": resume, "fine_tune": fine_tune}
USES = {
    "ours": READERS | TRAINERS | {"attention": attention},
    "stock": READERS | TRAINERS,
    "parser": READERS | {"parse": parse},
}
