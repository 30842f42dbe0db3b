"""Attacks by checkpoints: damaged bytes, wrong content, programs in them."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from torture.attempt import Attempt
from torture.materials import SHORT, Materials, reading, training
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


def diagnose(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    attempt.run("aiayn", "diagnose", bad, *attempt.rng.choice(((), ("--json",))))


def export(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    output = attempt.directory / "model"
    given = ("--checkpoint", bad, "--data-bin", materials.data_of(system))
    attempt.run("aiayn", "export", *given, "--output", output, output=output)


def generate(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    attempt.run("fairseq-generate", *reading(materials.data_of(system), system, bad), *SHORT)


def interactive(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    words = reading(materials.data_of(system), system, bad)
    attempt.run("fairseq-interactive", *words, *SHORT, stdin=b"w1 w2\n\nw3\n")


def validate(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    attempt.run(
        "fairseq-validate", *reading(materials.data_of(system), system, bad), "--max-tokens", "256"
    )


def resume(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    attempt.run(*training(materials.data_of(system), system, bad.parent), "--max-update", "3")


def fine_tune(attempt: Attempt, materials: Materials, system: str, bad: Path) -> None:
    folder = attempt.directory / "fine"
    attempt.run(*training(materials.data_of(system), system, folder), "--finetune-from-model", bad)


READERS = {"average": average, "generate": generate, "interactive": interactive}
READERS |= {"validate": validate, "diagnose": diagnose, "export": export}
TRAINERS = {"resume": resume, "fine_tune": fine_tune}
USES = {
    "ours": READERS | TRAINERS | {"attention": attention},
    "stock": READERS | TRAINERS,
    "parser": READERS | {"parse": parse},
}
