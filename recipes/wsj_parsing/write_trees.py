"""Write a set of trees in the four parallel forms that training and scoring use.

OUTPUT.trees has the normalized trees, OUTPUT.words their words, OUTPUT.text the words as input of
the word pieces, OUTPUT.tree the symbols to predict: the tree depth first, as labelled opening
brackets, one symbol for each word, and labelled closing brackets (section 6.3).

    python write_trees.py --tags pos --list lists/train --longest 512 --output trees/train
    python write_trees.py --tags pos --output trees/silver silver.gz
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from list_trees import read_list
from tqdm import tqdm

from fairseq_aiayn.text import script, whole_file
from fairseq_aiayn.treebank.linearization import Tags, linearize, normalized_trees, source_text
from fairseq_aiayn.treebank.trees import words_of, write_tree

SUFFIXES = (".trees", ".words", ".text", ".tree")


@dataclass
class Counts:
    """The numbers of trees of a set."""

    kept: int = 0
    too_long: int = 0


def write_set(files: Iterable[Path], tags: Tags, longest: int | None, output: Path) -> Counts:
    """Write the trees in `files` that have at most `longest` symbols; return the counts.

    Raises OSError or ValueError for bad files, ValueError if no tree is left.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    paths = [output.with_name(output.name + suffix) for suffix in SUFFIXES]
    with ExitStack() as stack:
        streams = [stack.enter_context(whole_file(path)) for path in paths]
        counts = copy_trees(files, tags, longest, streams)
        if not counts.kept:
            raise ValueError(f"{output.name}: must have at least one tree, has none")
    return counts


def copy_trees(
    files: Iterable[Path], tags: Tags, longest: int | None, streams: list[TextIO]
) -> Counts:
    """Write one line per tree to each stream; the streams are in the order of SUFFIXES."""
    counts = Counts()
    trees, words, text, symbols = streams
    with tqdm(unit=" trees", unit_scale=True, disable=not sys.stderr.isatty()) as bar:
        for file in files:
            for tree in normalized_trees(file):
                bar.update()
                linearized = linearize(tree, tags)
                if longest is not None and len(linearized) > longest:
                    counts.too_long += 1
                    continue
                counts.kept += 1
                trees.write(f"{write_tree(tree)}\n")
                forms = [word.form for word in words_of(tree)]
                words.write(" ".join(forms) + "\n")
                text.write(f"{source_text(forms)}\n")
                symbols.write(" ".join(linearized) + "\n")
    return counts


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="bracketed trees")
        parser.add_argument("--list", type=Path, metavar="FILE", help="a list of further files")
        parser.add_argument("--tags", choices=("pos", "XX"), required=True)
        parser.add_argument("--longest", type=int, metavar="SYMBOLS", help="leave out longer ones")
        parser.add_argument("--output", type=Path, required=True, metavar="PREFIX")
        arguments = parser.parse_args()
        files = list(arguments.files)
        if arguments.list:
            files += map(Path, read_list(arguments.list))
        counts = write_set(files, arguments.tags, arguments.longest, arguments.output)
        left_out = f", {counts.too_long:,} left out as too long" if arguments.longest else ""
        print(f"{arguments.output.name}: {counts.kept:,} trees{left_out}")


if __name__ == "__main__":
    main()
