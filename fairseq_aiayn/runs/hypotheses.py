"""Print the translations that fairseq-generate wrote, in the order of the test set.

    python -m fairseq_aiayn.runs.hypotheses < generate-test.txt > hypothesis.txt
    python -m fairseq_aiayn.runs.hypotheses --tokens < generate-test.txt > hypothesis.tokens

The first command prints detokenized text, the second tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from fairseq_aiayn.scores import GENERATED
from fairseq_aiayn.text import STANDARD_INPUT, script, stream_lines


def hypotheses(lines: Iterable[str], kind: str = "D") -> list[str]:
    """Return the best hypothesis of every sentence, detokenized (D) or as tokens (H).

    n-best lists have the best hypothesis first. Raises ValueError if a sentence has none.
    """
    found: dict[int, str] = {}
    for line in lines:
        match = GENERATED.match(line)
        if match and match[1] == kind and match[3] is not None:
            found.setdefault(int(match[2]), match[3])
    if missing := set(range(max(found, default=0) + 1)) - found.keys():
        raise ValueError(f"expected a {kind}- line of every sentence, got none of {min(missing)}")
    return [found[index] for index in sorted(found)]


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--tokens", action="store_true", help="print tokens, not detokenized")
        arguments = parser.parse_args()
        lines = hypotheses(stream_lines(STANDARD_INPUT), "H" if arguments.tokens else "D")
        sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode())


if __name__ == "__main__":
    main()
