"""A miniature of a treebank, invented: brackets over several lines, function tags and traces."""

import gzip
import random
from pathlib import Path

SYLLABLES = ("ba", "ke", "li", "mo", "nu", "ra", "se", "ti")
# What a text of brackets, pieces or fairseq could take for something else
ODD_FORMS = ("1\\/2", "-LRB-", "ke\u00a0li", "mo\u2581nu", "é\u2028")
TEMPLATES = (
    # 41 symbols
    """\
( (S (NP-SBJ-1 (DT the) (NN {}) )
    (VP (VBD {})
      (SBAR (-NONE- 0)
        (S (NP-SBJ (NP (DT a) (JJ {}) (NN {}) )
            (PP-LOC=2 (IN of) (NP (NNP {}) )))
          (VP (VBD {})
            (S (NP-SBJ (-NONE- *-1) )
              (VP (TO to) (VP (VB {}) (NP (PRP it) ))))))))(. .) ))
""",
    """\
( (S (ADVP-TMP (RB {}) ) (, ,)
    (NP-SBJ (PRP they) )
    (VP (VBD {})
      (PRT|ADVP (RP up) )
      (NP (DT the) (NN {}) ) (PP-CLR (-NONE- *T*-1) )) (. .) ))
""",
)
PER_SECTION = 4
TEST = 3  # in section 23
SIZES = {number: PER_SECTION for number in range(2, 23)} | {23: TEST}


def write_treebank(directory: Path) -> Path:
    """Write the sections of Treebank-3's wsj, one file compressed; what nobody reads is broken."""
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
    rng = random.Random(seed)
    blanks = [[word(rng) for _ in range(8)] for _ in range(count)]
    return "".join(TEMPLATES[k % len(TEMPLATES)].format(*words) for k, words in enumerate(blanks))


def word(rng: random.Random) -> str:
    odd = rng.random() < 0.1
    return rng.choice(ODD_FORMS) if odd else rng.choice(SYLLABLES) + rng.choice(SYLLABLES)
