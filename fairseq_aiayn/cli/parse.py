"""parse sentences with a trained model (section 6.3)

Prints a tree in Penn Treebank brackets for every SENTENCE (quote each one), or for every line of
standard input. In a terminal, it asks for one sentence after the other until Ctrl-D. Output of the
model that is not a tree over the words is repaired. With --constrained, the model can only write
trees over the words, so that only tags of punctuation may be repaired. Sentences are split into
words as in the WSJ: quotes become `` and '', brackets -LRB- and so on. For a parser of trees that
have other forms, such as GUM's, split them yourself (--tokenized).

  aiayn parse --checkpoint average.pt --data-bin bin "The board met." "It isn't over."
  aiayn parse --model parser --pretty
  aiayn parse --model parser --tokenized < words.txt > trees.txt

--model is a folder that aiayn export wrote. --data-bin is the data directory of the training, with
dict.words.txt, dict.tree.txt and the model of the word pieces, pieces.model. fairseq is not needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_aiayn.cli.precision_option import add_precision
from fairseq_aiayn.paper import PARSING_DECODING
from fairseq_aiayn.text import STANDARD_INPUT, source_name
from fairseq_aiayn.treebank.linearization import require_words
from fairseq_aiayn.treebank.trees import SYMBOLS, read_symbols

if TYPE_CHECKING:
    from fairseq_aiayn.inference.engine import Parser

BATCH = 16  # sentences


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn parse`."""
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE", help="a sentence to parse")
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--model", type=Path, metavar="FOLDER", help="what aiayn export wrote")
    model.add_argument("--checkpoint", type=Path, metavar="FILE", help="the trained model")
    parser.add_argument(
        "--data-bin", type=Path, metavar="DIR", help="the data that the checkpoint was trained on"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--pretty", action="store_true", help="draw the trees")
    form.add_argument(
        "--linearised", action="store_true", help="print the model's output without repairs"
    )
    parser.add_argument(
        "--tokenized", action="store_true", help="white space already separates all words"
    )
    parser.add_argument(
        "--beam",
        type=int,
        default=PARSING_DECODING.beam,
        metavar="N",
        help="beam size (default: %(default)s)",
    )
    parser.add_argument(
        "--constrained", action="store_true", help="search only among trees over the words"
    )
    add_precision(parser)
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")


def run(arguments: argparse.Namespace) -> None:
    """Print a tree for each sentence, in order; an empty line for an empty sentence."""
    engine = _load(arguments)
    if arguments.sentences or not sys.stdin.isatty():
        sentences, size = _given(arguments.sentences, arguments.tokenized), BATCH
    else:
        print("A sentence a line; Ctrl-D ends.", file=sys.stderr)
        sentences, size = _asked_for(arguments.tokenized), 1
    for batch in _batches(sentences, size):
        found = iter(engine.symbols(list(filter(None, batch))))
        for words in batch:
            print(_written(next(found), words, arguments) if words else "", flush=True)


def _load(arguments: argparse.Namespace) -> Parser:
    """Load the parser; raises OSError or ValueError for one that cannot be used."""
    if (arguments.checkpoint is None) != (arguments.data_bin is None):
        raise ValueError("--data-bin must be given with --checkpoint, and only with it")
    from fairseq_aiayn.inference import engine

    if arguments.model:
        model = engine.parser_folder(arguments.model)
    else:
        model = engine.parser_checkpoint(arguments.checkpoint, arguments.data_bin)
    device = "cpu" if arguments.cpu else None
    return engine.Parser(model, arguments.beam, arguments.constrained, device, arguments.precision)


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
    """Ask for sentences on the terminal and yield their words; report bad ones and go on."""
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
    """Return the words of a line, split further as in the treebank unless they are tokenized."""
    from fairseq_aiayn.treebank.trees import penn_words

    words = line if tokenized else penn_words(" ".join(line))
    if words:
        require_words(words)
    return words


def _batches(sentences: Iterable[list[str]], size: int) -> Iterator[list[list[str]]]:
    """Cut sentences into batches; after a ValueError, yield the sentences before it first."""
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
    """Return the model's symbols for a sentence in the requested form."""
    from fairseq_aiayn.treebank.repair import repair
    from fairseq_aiayn.treebank.trees import pretty, write_tree

    if arguments.linearised:
        return " ".join(symbols)
    tree = repair(symbols, words).tree
    return f"{pretty(tree)}\n" if arguments.pretty else write_tree(tree)
