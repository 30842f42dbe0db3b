"""Attacks by model folders and by logs of trainings."""

from __future__ import annotations

import json
import shutil

from torture.attempt import Attempt
from torture.materials import FOLDERS, Materials
from torture.mutation import damage_file, damage_text, mutate


def attack(attempt: Attempt, materials: Materials) -> None:
    """Damage one file of a model folder, and a log, and let commands read them."""
    _folder(attempt, materials)
    log = attempt.directory / "train.log"
    log.write_bytes(damage_text(materials.train_log.read_text(), attempt.rng))
    attempt.run("aiayn", "diagnose", log, *attempt.rng.choice(((), ("--row", "big", "--json"))))


def _folder(attempt: Attempt, materials: Materials) -> None:
    rng = attempt.rng
    system = rng.choice(FOLDERS)
    folder = attempt.directory / "model"
    shutil.copytree(materials.model_folder(system), folder)
    path = rng.choice(sorted(folder.iterdir()))
    if path.suffix == ".json" and rng.random() < 0.7:
        content = json.loads(path.read_text())
        (attempt.directory / "what").write_text(mutate(content, rng, attempt.mark))
        path.write_text(json.dumps(content, default=repr))
    elif path.suffix == ".txt" and rng.random() < 0.7:
        path.write_bytes(damage_text(path.read_text(), rng))
    elif rng.random() < 0.1:
        path.unlink()
    else:
        damage_file(path, rng)
    output = attempt.directory / "checkpoint.pt"
    attempt.run("aiayn", "export", folder, "--to", "fairseq", "--output", output, output=output)
    attempt.run("aiayn", "translate", folder, "--beam", "2", stdin=b"w1 w2\n\nw3 w4 w5\n")
