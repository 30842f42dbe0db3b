"""Print the numbers of training trees as JSON.

python count_trees.py --trees trees --tags pos > data.json
"""

from __future__ import annotations

import json
from pathlib import Path

from fairseq_aiayn.text import script


def count_lines(file: Path) -> int:
    """Return the number of lines of a file, or 0 if it does not exist."""
    if not file.exists():
        return 0
    with file.open("rb") as stream:
        return sum(1 for _ in stream)


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--trees", type=Path, required=True, metavar="DIR")
        parser.add_argument("--tags", required=True)
        arguments = parser.parse_args()
        counts = {
            "gold": count_lines(arguments.trees / "train.tree"),
            "silver": count_lines(arguments.trees / "silver.tree"),
            "augmented": count_lines(arguments.trees / "augmented.tree"),
            "tags": arguments.tags,
        }
        if not counts["gold"]:
            raise ValueError(f"{arguments.trees}/train.tree: must have a line, has none")
        print(json.dumps(counts))


if __name__ == "__main__":
    main()
