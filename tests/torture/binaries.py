"""Attacks by what fairseq-preprocess left: binarized text and dictionaries."""

from __future__ import annotations

import os
import shutil

from torture.attempt import Attempt
from torture.materials import SHORT, TRANSLATORS, Materials, reading, training
from torture.mutation import damage_file, damage_text


def attack(attempt: Attempt, materials: Materials) -> None:
    """Damage one file of the data and let commands read it."""
    rng = attempt.rng
    data = attempt.directory / "bin"
    shutil.copytree(materials.translation_bin, data)
    path = rng.choice([one for one in sorted(data.iterdir()) if one.suffix != ".log"])
    if path.suffix == ".txt" and rng.random() < 0.7:
        path.write_bytes(damage_text(path.read_text(), rng))
    elif rng.random() < 0.1:
        path.unlink()
    elif rng.random() < 0.1:
        shutil.copy(rng.choice(sorted(data.iterdir())), f"{path}.part")
        os.replace(f"{path}.part", path)
    else:
        damage_file(path, rng)
    system = rng.choice(TRANSLATORS)
    model = materials.checkpoints(system) / "checkpoint_last.pt"
    attempt.keep(model)
    words = reading(data, system, model)
    attempt.run("fairseq-generate", *words, *SHORT, "--max-tokens", "512")
    attempt.run("fairseq-validate", *words, "--max-tokens", "256")
    attempt.run(*training(data, system, attempt.directory / "save"))
