"""Print the run directory whose model has the best F1 on the development set (section 6.3).

Among equal ones, it is the first. The F1 of all is printed to standard error.

    python choose.py exp/wsj_parsing/wsj/aiayn-parsing-1-dropout*/valid
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_aiayn.text import aligned_lines, read_dataclass, script
from fairseq_aiayn.treebank.evalb import Scores


def read_f1(parts: Sequence[Path]) -> list[float]:
    """Return the F1 of each directory of a search, RUN/PART.

    Raises ValueError if a score is missing or not a number, or if its number of sentences differs
    from the first score's.
    """
    scores = [_read(part / "score.json") for part in parts]
    sentences = scores[0].all.sentences
    for part, score in zip(parts, scores, strict=True):
        if score.all.sentences != sentences:
            raise ValueError(
                f"{part / 'score.json'}: must be of the {sentences:,} sentences of {parts[0]}, is "
                f"of {score.all.sentences:,}"
            )
    return [score.all.f1 for score in scores]


def best(parts: Sequence[Path]) -> tuple[Path, list[float]]:
    """Return the part with the best F1 (among equal ones, the first) and the F1 of all parts."""
    f1 = read_f1(parts)
    return parts[f1.index(max(f1))], f1


def _read(path: Path) -> Scores:
    try:
        scores = read_dataclass(Scores, path)
    except FileNotFoundError:
        raise ValueError(f"{path}: every run must have a score, this one has none") from None
    if not math.isfinite(scores.all.f1):
        raise ValueError(f"{path}: F1 must be a number, is {scores.all.f1}")
    return scores


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("parts", nargs="+", type=Path, metavar="RUN/PART")
        arguments = parser.parse_args()
        chosen, f1 = best(arguments.parts)
        rows = [(str(part), f"{value:.2f}") for part, value in zip(arguments.parts, f1)]
        print("\n".join(aligned_lines([("run", "F1"), *rows])), file=sys.stderr)
        print(chosen.parent)


if __name__ == "__main__":
    main()
