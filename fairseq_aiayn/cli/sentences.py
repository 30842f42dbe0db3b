"""The commands that put sentences through a trained model."""

from __future__ import annotations

import argparse
import codecs
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fairseq_aiayn.cli.options import add_model, add_search, read_model, search_settings

if TYPE_CHECKING:
    from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator
    from fairseq_aiayn.inference.engine import Engine, Parse, Translator

Output = TypeVar("Output")


def declare_translate(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn translate`."""
    add_model(parser)
    add_search(parser)
    parser.add_argument(
        "--alpha", type=float, metavar="A", help="length penalty (default: the model's)"
    )
    parser.add_argument(
        "--nbest", type=int, default=1, metavar="N", help="lines per sentence (default: 1)"
    )
    parser.add_argument(
        "--scores", action="store_true", help="print score and log P before each output, with tabs"
    )


def run_translate(arguments: argparse.Namespace) -> None:
    """translate raw text with a trained model

    Reads a sentence per line from standard input, or asks for one after the other in a terminal,
    and prints one translation per line, in the same order; an empty line stays empty. Text is
    tokenized and cut into pieces as in the model's training, and put together again. The beam
    search is the paper's (section 6.1). fairseq is not needed. FOLDER may also be what `aiayn
    export --to ctranslate2` wrote; outputs are ranked in the same way.

    With --nbest N, every sentence has N lines, best first; if it has fewer outputs, the last of its
    lines are empty. An invalid line (not UTF-8, more than 1,024 tokens) ends the command with its
    number, after the translations before it; with --skip-invalid, it has empty lines instead.

    examples:
      aiayn translate demo-en-de < text.en > text.de
      aiayn translate demo-en-de --beam 1 --threads 4 < text.en
      aiayn translate demo-en-de --precision bfloat16 < text.en
      aiayn translate demo-en-de --nbest 3 --scores < text.en
      aiayn translate demo-en-de-int8 --skip-invalid < text.en
      aiayn translate demo-en-de
    """
    engine = _translator(arguments).engine(arguments.beam, arguments.alpha, arguments.nbest)
    for translations in outputs_of(engine, (), arguments.skip_invalid):
        lines = [""] * arguments.nbest
        for place, found in enumerate(translations or ()):
            numbers = f"{found.score:.4f}\t{found.log_p:.4f}\t" if arguments.scores else ""
            lines[place] = f"{numbers}{found.text}"
        print(*lines, sep="\n", flush=sys.stdin.isatty())


def _translator(arguments: argparse.Namespace) -> Translator | CTranslate2Translator:
    """Load the model; raises OSError or ValueError for one that cannot be used."""
    announce_loading()
    from fairseq_aiayn.inference.engine import Translator
    from fairseq_aiayn.inference.folder import OF_OTHERS

    folder = arguments.model
    if folder is None or not (folder / OF_OTHERS).is_file():
        return Translator(read_model(arguments), *search_settings(arguments), arguments.precision)
    from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator

    return CTranslate2Translator(folder, *search_settings(arguments), arguments.threads)


def declare_parse(parser: argparse.ArgumentParser) -> None:
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


def run_parse(arguments: argparse.Namespace) -> None:
    """parse sentences with a trained model (section 6.3)

    Prints a tree in Penn Treebank brackets for every SENTENCE (quote each one), or for every line
    of standard input. In a terminal, it asks for one sentence after the other until Ctrl-D. Output
    of the model that is not a tree over the words is repaired. With --constrained, the model can
    only write trees over the words, so that only tags of punctuation may be repaired. Sentences are
    split into words as in the WSJ: quotes become `` and '', brackets -LRB- and so on. For a parser
    of trees that have other forms, such as GUM's, split them yourself (--tokenized).

      aiayn parse --checkpoint average.pt --data-bin bin "The board met." "It isn't over."
      aiayn parse --model parser --pretty
      aiayn parse --model parser --tokenized < words.txt > trees.txt

    --model is a folder that aiayn export wrote, or a run. --data-bin is the data directory of the
    training, with dict.words.txt, dict.tree.txt and the model of the word pieces, pieces.model.
    fairseq is not needed. An invalid sentence ends the command, after the trees before it; with
    --skip-invalid, it has an empty line.
    """
    announce_loading()
    from fairseq_aiayn.inference.engine import Parser
    from fairseq_aiayn.treebank.trees import SYMBOLS, pretty, write_tree

    if arguments.checkpoint and arguments.data_bin and not arguments.bpe_codes:
        default = arguments.data_bin / "pieces.model"
        arguments.sentencepiece_model = arguments.sentencepiece_model or default
    parser = Parser(read_model(arguments), *search_settings(arguments), arguments.precision)
    engine: Engine[Any, Any, Parse] = parser.engine(arguments.beam, arguments.constrained)
    if arguments.tokenized:
        engine = replace(engine, read=lambda sentence: parser.read(SYMBOLS.findall(sentence)))
    for parse in outputs_of(engine, arguments.sentences, arguments.skip_invalid):
        text = ""
        if parse and parse.words and arguments.linearised:
            text = " ".join(parse.symbols)
        elif parse and parse.words:
            text = f"{pretty(parse.tree())}\n" if arguments.pretty else write_tree(parse.tree())
        print(text, flush=True)


def outputs_of(
    engine: Engine[Any, Any, Output], sentences: Sequence[str], skip_invalid: bool
) -> Iterator[Output | None]:
    """Yield the output of each sentence or, if there is none, of each line of standard input.

    An invalid sentence raises ValueError with its number, after all outputs before it. With
    `skip_invalid`, the error is printed on standard error and the output is None. A terminal is
    asked for one sentence after the other, and told the errors.
    """
    from fairseq_aiayn.inference.engine import AT_ONCE

    asks = not sentences and sys.stdin.isatty()
    where = "sentence " if sentences else "standard input:"
    lines = asked_for() if asks else input_lines()
    if sentences:
        lines = (sentence.encode() for sentence in sentences)
    of_lines = replace(engine, read=lambda line: engine.read(line.rstrip(b"\r\n").decode()))
    skipped = 0
    for number, output in enumerate(of_lines.outputs(lines, 1 if asks else AT_ONCE), start=1):
        if not isinstance(output, ValueError):
            yield output
        elif asks:
            print(output, file=sys.stderr)
        elif skip_invalid:
            print(f"skipped: {where}{number}: {output}", file=sys.stderr)
            skipped += 1
            yield None
        else:
            raise ValueError(f"{where}{number}: {output}") from output
    if skipped:
        print(f"skipped {skipped} invalid sentences", file=sys.stderr)


def input_lines() -> Iterator[bytes]:
    """Yield the lines of standard input without its byte order mark, and show progress in a
    terminal."""
    from tqdm import tqdm

    for number, line in enumerate(tqdm(sys.stdin.buffer, unit=" sentences", disable=None)):
        yield line if number else line.removeprefix(codecs.BOM_UTF8)


def asked_for() -> Iterator[bytes]:
    """Ask for sentences, with line editing and a history, until the terminal ends."""
    import readline  # noqa: F401  # `input` uses it

    print("A sentence a line; Ctrl-D ends.", file=sys.stderr)
    cast(TextIOWrapper, sys.stdin).reconfigure(errors="surrogateescape")
    prompt = "> " if sys.stdout.isatty() else ""  # it would go into a file, otherwise
    while True:
        try:
            yield input(prompt).encode(errors="surrogateescape")
        except EOFError:
            return print(file=sys.stderr)


def announce_loading() -> None:
    """Say in a terminal what the first seconds are for."""
    if sys.stderr.isatty():
        print("loading PyTorch and the model ...", file=sys.stderr)
