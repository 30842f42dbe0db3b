"""parse sentences with a trained model (section 6.3)

Prints a tree in Penn Treebank brackets for every SENTENCE (quote each), or for every line of
standard input; from a terminal it asks line by line until Ctrl-D. What the model wrote is repaired
where it is no tree over the words; with --constrained it can write nothing else, and only tags of
punctuation may still be changed. Brackets in words are escaped as the treebank does (-LRB-).

  aiayn parse --checkpoint average.pt --data-bin bin "The board met." "It isn't over."
  aiayn parse --checkpoint average.pt --data-bin bin --pretty
  aiayn parse --checkpoint average.pt --data-bin bin --tokenized < words.txt > trees.txt

--data-bin is the directory that the model was trained on: it has dict.words.txt, dict.tree.txt and
the word pieces, pieces.model.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from fairseq_aiayn.paper import PARSING_DECODING
from fairseq_aiayn.treebank.linearization import require_words
from fairseq_aiayn.treebank.lines import STANDARD_INPUT, SYMBOLS, read_symbols, source_name

BATCH = 16  # sentences


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn parse`."""
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE", help="what to parse")
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="FILE", help="the trained model"
    )
    parser.add_argument(
        "--data-bin", type=Path, required=True, metavar="DIR", help="the data it was trained on"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--pretty", action="store_true", help="draw the trees")
    form.add_argument(
        "--linearised", action="store_true", help="print what the model wrote, not repaired"
    )
    parser.add_argument(
        "--tokenized", action="store_true", help="sentences are words with white space between"
    )
    parser.add_argument(
        "--beam",
        type=int,
        default=PARSING_DECODING.beam,
        metavar="N",
        help="hypotheses that the search keeps (default: %(default)s)",
    )
    parser.add_argument(
        "--constrained", action="store_true", help="search among trees over the words only"
    )
    parser.add_argument("--cpu", action="store_true", help="leave the GPU alone")


def run(arguments: argparse.Namespace) -> None:
    """Print a tree for each sentence, in their order; an empty line for an empty one."""
    from fairseq_aiayn.plugin.parser import load_parser

    logging.getLogger("fairseq").setLevel(logging.WARNING)  # it tells the size of its dictionaries
    parser = load_parser(
        arguments.checkpoint,
        arguments.data_bin,
        arguments.beam,
        arguments.constrained,
        arguments.cpu,
    )
    if arguments.sentences or not sys.stdin.isatty():
        sentences, size = _given(arguments.sentences, arguments.tokenized), BATCH
    else:
        print("A sentence a line; Ctrl-D ends.", file=sys.stderr)
        sentences, size = _asked_for(arguments.tokenized), 1
    for batch in _batches(sentences, size):
        found = iter(parser.symbols(list(filter(None, batch))))
        for words in batch:
            print(_written(next(found), words, arguments) if words else "", flush=True)


def _given(sentences: list[str], tokenized: bool) -> Iterator[list[str]]:
    """Yield the words of the sentences or, without any, of the lines of standard input."""
    lines = map(SYMBOLS.findall, sentences) if sentences else read_symbols(STANDARD_INPUT)
    where = "sentence " if sentences else f"{source_name(STANDARD_INPUT)}:"
    for number, line in enumerate(lines, start=1):
        try:
            words = _words(line, tokenized)
        except ValueError as error:
            raise ValueError(f"{where}{number}: {error}") from None
        yield words


def _asked_for(tokenized: bool) -> Iterator[list[str]]:
    """Ask for lines on the terminal, again for one that cannot be parsed, and yield their words."""
    lines = read_symbols(STANDARD_INPUT)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = next(lines, None)
        if line is None:
            print(file=sys.stderr)
            return
        try:
            words = _words(line, tokenized)
        except ValueError as error:
            print(error, file=sys.stderr)
        else:
            yield words


def _words(line: list[str], tokenized: bool) -> list[str]:
    """Split what white space parts further, as the treebank does, if that is not done."""
    from fairseq_aiayn.treebank.tokenization import penn_words

    words = line if tokenized else penn_words(" ".join(line))
    if words:
        require_words(words)
    return words


def _batches(sentences: Iterable[list[str]], size: int) -> Iterator[list[list[str]]]:
    """Cut sentences into batches; ValueError comes when those before it are given out."""
    batch: list[list[str]] = []
    try:
        for words in sentences:
            batch.append(words)
            if len(batch) == size:
                yield batch
                batch = []
    except ValueError:
        yield batch
        raise
    yield batch


def _written(symbols: list[str], words: list[str], arguments: argparse.Namespace) -> str:
    """The model's symbols for a sentence in the form that was asked for."""
    from fairseq_aiayn.treebank.brackets_nltk import pretty
    from fairseq_aiayn.treebank.repair import repair
    from fairseq_aiayn.treebank.trees import write_tree

    if arguments.linearised:
        return " ".join(symbols)
    tree = repair(symbols, words).tree
    return f"{pretty(tree)}\n" if arguments.pretty else write_tree(tree)
