"""Attacks by trees, sequences and texts."""

from __future__ import annotations

import gzip

from torture.attempt import Attempt
from torture.materials import Materials
from torture.mutation import damage, damage_text


def attack(attempt: Attempt, materials: Materials) -> None:
    """Damage trees and let every command of treebanks read them; then a text for BLEU."""
    rng = attempt.rng
    mrg = attempt.directory / rng.choice(("wsj.mrg", "wsj.mrg.gz"))
    data = damage_text(materials.trees.read_text(), rng)
    if mrg.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
        data = damage(data, rng) if rng.random() < 0.5 else data
    mrg.write_bytes(data)
    words, trees = attempt.directory / "words", attempt.directory / "trees"
    skip = ("--skip",) if rng.random() < 0.3 else ()
    done = attempt.run(
        *("aiayn", "linearize", mrg, "--words", words, "--trees", trees, *skip), output=words
    )
    if not done.status:
        _score_what_was_read(attempt, done.stdout)
    bad = attempt.directory / "bad.trees"
    bad.write_bytes(damage_text(materials.lines.read_text(), rng))
    files = [materials.lines, bad]
    rng.shuffle(files)
    attempt.run("aiayn", "evalb", *files, *rng.choice(((), ("--json",), ("--per-sentence",))))
    attempt.run(
        *("aiayn", "bleu", "--hypothesis", files[0], "--reference", files[1]),
        *("--target-lang", rng.choice(("de", "fr", "xx"))),
    )
    parameters = attempt.directory / "my.prm"
    parameters.write_bytes(
        damage_text("DEBUG 0\nMAX_ERROR 10\nCUTOFF_LEN 40\nDELETE_LABEL TOP\n", rng)
    )
    attempt.run("aiayn", "evalb", materials.lines, materials.lines, "-p", parameters)


def _score_what_was_read(attempt: Attempt, sequences: bytes) -> None:
    """What was written must be whole trees: they come back from their sequences as they are."""
    words, trees = attempt.directory / "words", attempt.directory / "trees"
    back = attempt.run("aiayn", "delinearize", "-", "--words", words, stdin=sequences)
    if back.status and sequences:
        attempt.fault("delinearize refused what linearize wrote")
    elif trees.stat().st_size:
        again = attempt.directory / "again"
        again.write_bytes(back.stdout)
        score = attempt.run("aiayn", "evalb", trees, again)
        if b"100.00" not in score.stdout and b"Number of Valid" in score.stdout:
            attempt.fault("trees did not come back from their sequences")
    spoilt = damage_text(sequences.decode(), attempt.rng)
    attempt.run("aiayn", "delinearize", "-", "--words", words, stdin=spoilt)
