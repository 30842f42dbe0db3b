"""Miniatures of a treebank, invented: brackets over several lines, function tags and traces."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

Node = tuple  # (tag, form) of a word, (label, node, ...) of a constituent

SYLLABLES = ("ba", "ke", "li", "mo", "nu", "ra", "se", "ti")
# What a text of brackets, pieces or fairseq could take for something else
ODD_FORMS = ("1\\/2", "-LRB-", "ke\u00a0li", "mo\u2581nu", "é\u2028")
PER_SECTION = 4
TEST = 3  # in section 23
SIZES = {number: PER_SECTION for number in range(2, 23)} | {23: TEST}


def write_treebank(directory: Path) -> Path:
    """Write the sections of Treebank-3's wsj, one of their files compressed.

    What no section of the paper's sets should read is broken: section 24, a copy that an editor
    left.
    """
    for number, size in SIZES.items():
        section = directory / f"{number:02d}"
        section.mkdir(parents=True)
        text = invented_text(size, number).encode()
        if number == 2:
            (section / "wsj_0201.mrg.gz").write_bytes(gzip.compress(text, mtime=0))
        else:
            (section / f"wsj_{number:02d}01.mrg").write_bytes(text)
    (directory / "24").mkdir()
    for broken in ("24/wsj_2401.mrg", "03/wsj_0301.mrg~"):
        (directory / broken).write_text("( (S (NP")
    return directory


def invented_text(count: int, seed: int) -> str:
    """Return so many trees as a treebank prints them."""
    rng = random.Random(seed)
    return "".join(f"( {printed(sentence(rng), 1)} )\n" for _ in range(count))


def printed(node: Node, depth: int) -> str:
    """Print a node with every constituent but the first of its mother on a line of its own."""
    label, *children = node
    if isinstance(children[0], str):
        return f"({label} {children[0]})"
    text = f"({label}"
    for place, child in enumerate(children):
        on = " " if place == 0 or isinstance(child[1], str) else "\n" + "  " * depth
        text += on + printed(child, depth + 1)
    return f"{text} )"


def sentence(rng: random.Random) -> Node:
    """A clause with or without an adverbial before it, and a full stop."""
    before = [("ADVP-TMP", ("RB", word(rng, "ly"))), (",", ",")] if rng.random() < 0.3 else []
    return ("S", *before, noun_phrase(rng, "NP-SBJ-1"), verb_phrase(rng, 2), (".", "."))


def noun_phrase(rng: random.Random, label: str) -> Node:
    noun = ("NN", rng.choice(ODD_FORMS) if rng.random() < 0.1 else word(rng))
    kind = rng.randrange(4)
    if kind == 0:
        return (label, ("PRP", rng.choice(("it", "they"))))
    if kind == 1:
        inner = ("NP", ("DT", "the"), noun)
        return (label, inner, ("PP-LOC=2", ("IN", "of"), ("NP", ("NNP", word(rng).title()))))
    return (label, ("DT", rng.choice(("the", "a"))), *[("JJ", word(rng, "y"))] * (kind - 2), noun)


def verb_phrase(rng: random.Random, depth: int) -> Node:
    """A verb with an object, a particle, a clause without subject or, to a depth, a whole one."""
    kind = rng.randrange(4 if depth else 3)
    verb = ("VBD", word(rng, "ed"))
    if kind == 0:
        return ("VP", verb, noun_phrase(rng, "NP"), ("PP-CLR", ("-NONE-", "*T*-1")))
    if kind == 1:
        return ("VP", verb, ("PRT|ADVP", ("RP", "up")), noun_phrase(rng, "NP"))
    if kind == 2:
        to = ("VP", ("TO", "to"), ("VP", ("VB", word(rng)), noun_phrase(rng, "NP")))
        return ("VP", verb, ("S", ("NP-SBJ", ("-NONE-", "*-1")), to))
    clause = ("S", noun_phrase(rng, "NP-SBJ"), verb_phrase(rng, depth - 1))
    return ("VP", verb, ("SBAR", ("-NONE-", "0"), clause))


def word(rng: random.Random, ending: str = "") -> str:
    return rng.choice(SYLLABLES) + rng.choice(SYLLABLES) + ending
