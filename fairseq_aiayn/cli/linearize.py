"""write trees as sequences, one sentence per line

Reads trees in Penn Treebank brackets, removes function tags and traces, and prints each tree depth
first: "(LABEL" and ")LABEL" for its brackets and, for each word, its tag (--tags pos) or XX
(--tags XX). The words themselves are not printed; --words writes them to a file.

  aiayn linearize wsj/22 --words valid.words --trees valid.trees > valid.tree
  aiayn linearize wsj_0001.mrg wsj_0002.mrg.gz --tags XX > train.tree
  aiayn parse --checkpoint average.pt ... < sentences | aiayn linearize --collapse-unary

TREES is a file, a .gz file, a directory (all *.mrg, *.ptb, *.mrg.gz and *.ptb.gz below it) or - for
standard input. Line N of --words and of --trees belongs to line N of the output. With --skip, the
input has one tree per line, as parsers write it; lines that are not a tree are skipped and counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TextIO, get_args

from fairseq_aiayn.text import require_not_among, shortened, source_name, whole_file
from fairseq_aiayn.treebank.linearization import Tags, linearize, normalized_lines, normalized_trees
from fairseq_aiayn.treebank.trees import Constituent, input_files, words_of, write_tree

LISTED = 10  # skipped lines whose reason is printed; of all, only the number is


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn linearize`."""
    parser.add_argument("trees_in", nargs="*", default=["-"], metavar="TREES", help="trees to read")
    parser.add_argument(
        "--tags",
        choices=get_args(Tags),
        default="pos",
        help="each word's symbol (default: %(default)s)",
    )
    parser.add_argument(
        "--collapse-unary", action="store_true", help="merge an NP over a single NP into one NP"
    )
    parser.add_argument(
        "--skip", action="store_true", help="skip and count lines that are not a tree"
    )
    parser.add_argument("--words", type=Path, metavar="FILE", help="write the words here")
    parser.add_argument("--trees", type=Path, metavar="FILE", help="write normalized trees here")


def run(arguments: argparse.Namespace) -> None:
    """Print the linearized trees and write the requested files."""
    outputs = [path.resolve() for path in (arguments.words, arguments.trees) if path]
    if len(set(outputs)) < len(outputs):
        raise ValueError(f"--words and --trees: expected two files, got {arguments.trees} twice")
    inputs = [file for path in arguments.trees_in for file in input_files(path)]
    require_not_among("--words", arguments.words, inputs)
    require_not_among("--trees", arguments.trees, inputs)
    with _open(arguments.words) as words, _open(arguments.trees) as trees:
        count = 0
        for tree in _read(arguments):
            print(" ".join(linearize(tree, arguments.tags)))
            if words:
                print(" ".join(word.form for word in words_of(tree)), file=words)
            if trees:
                print(write_tree(tree), file=trees)
            count += 1
        if not count:
            raise ValueError(f"{source_name(arguments.trees_in[0])}: expected a tree, got none")
        for output in (sys.stdout, words, trees):  # no file appears if another cannot be written
            if output:
                output.flush()


def _read(arguments: argparse.Namespace) -> Iterator[Constituent]:
    """Yield the normalized trees; with --skip, print how many lines were left out, and why."""
    refused: list[str] = []
    for path in arguments.trees_in:
        if arguments.skip:
            yield from normalized_lines(path, arguments.collapse_unary, refused)
        else:
            yield from normalized_trees(path, arguments.collapse_unary)
    for reason in refused[:LISTED]:
        print(shortened(reason), file=sys.stderr)
    if refused:
        print(f"left out: {len(refused):,} lines that are no tree", file=sys.stderr)


def _open(path: Path | None) -> AbstractContextManager[TextIO | None]:
    return nullcontext() if path is None else whole_file(path)
