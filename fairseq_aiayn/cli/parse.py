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

--model is a folder that aiayn export wrote, or a run. --data-bin is the data directory of the
training, with dict.words.txt, dict.tree.txt and the model of the word pieces, pieces.model. fairseq
is not needed. An invalid sentence ends the command, after the trees before it; with --skip-invalid,
it has an empty line.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fairseq_aiayn.cli.options import add_model, add_search, read_model, search_settings
from fairseq_aiayn.cli.sentences import outputs_of

if TYPE_CHECKING:
    from fairseq_aiayn.inference.engine import Parse, ParserInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn parse`."""
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE", help="a sentence to parse")
    add_model(parser, "--model")
    add_search(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--pretty", action="store_true", help="draw the trees")
    form.add_argument(
        "--linearised", action="store_true", help="print the model's output without repairs"
    )
    parser.add_argument(
        "--tokenized", action="store_true", help="white space already separates all words"
    )
    parser.add_argument(
        "--constrained", action="store_true", help="search only among trees over the words"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print a tree for each sentence, in order; an empty line for an empty sentence."""
    from fairseq_aiayn.inference.engine import Engine, Parser
    from fairseq_aiayn.treebank.trees import SYMBOLS

    if arguments.checkpoint and arguments.data_bin and not arguments.bpe_codes:
        default = arguments.data_bin / "pieces.model"
        arguments.sentencepiece_model = arguments.sentencepiece_model or default
    parser = Parser(read_model(arguments), *search_settings(arguments), arguments.precision)
    engine = parser.engine(arguments.beam, arguments.constrained)

    def read(sentence: str) -> ParserInput:
        return parser.read(SYMBOLS.findall(sentence) if arguments.tokenized else sentence)

    of_lines = Engine(read, engine.run, engine.empty, engine.batch_tokens)
    for parse in outputs_of(of_lines, arguments.sentences, arguments.skip_invalid):
        print(_text(parse, arguments) if parse and parse.words else "", flush=True)


def _text(parse: Parse, arguments: argparse.Namespace) -> str:
    """Return the parse of a sentence in the requested form."""
    from fairseq_aiayn.treebank.trees import pretty, write_tree

    if arguments.linearised:
        return " ".join(parse.symbols)
    return f"{pretty(parse.tree())}\n" if arguments.pretty else write_tree(parse.tree())
