"""The commands that put sentences through a trained model."""

from __future__ import annotations

import argparse
import codecs
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fairseq_aiayn.cli.options import (
    FLOAT32,
    QUANTIZATIONS,
    add_model,
    add_search,
    find_model,
    options_of_model,
    read_model,
    search_settings,
)
from fairseq_aiayn.console import note
from fairseq_aiayn.inference.description import FOR_CTRANSLATE2, TextProcessing, read_config
from fairseq_aiayn.inference.engine import Engine
from fairseq_aiayn.inference.export import Checkpoint
from fairseq_aiayn.paper import PARSING_DECODING, TRANSLATION
from fairseq_aiayn.treebank.trees import pretty, symbols_of, write_tree

if TYPE_CHECKING:
    from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator
    from fairseq_aiayn.inference.pytorch import Translator

AUTO, AIAYN, CTRANSLATE2 = ENGINES = ("auto", "aiayn", "ctranslate2")

Written = TypeVar("Written")


def declare_translate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_model(parser, has_default=True)
    add_search(parser)
    add("--alpha", type=float, metavar="A", help="length penalty (default: the model's)")
    add("--nbest", type=int, default=1, metavar="N", help="lines per sentence (default: 1)")
    add("--scores", action="store_true", help="print score and log P before each output, with tabs")
    add(
        "--engine",
        choices=ENGINES,
        default=AUTO,
        help="aiayn is the search of this package, in PyTorch; ctranslate2 is faster; auto (the "
        "default) takes ctranslate2 where the folder has its files and its outputs are the same",
    )
    add(
        "--quantization",
        choices=QUANTIZATIONS,
        help="of the weights, with --engine ctranslate2; int8 is faster, and changes some outputs "
        "(default: as in the files)",
    )


def run_translate(arguments: argparse.Namespace) -> None:
    """translate raw text with a trained model

    Reads a sentence per line from standard input, or asks for one after the other in a terminal,
    and prints one translation per line, in the same order; an empty line stays empty. Text is
    tokenized and cut into pieces as in the model's training, and put together again. The beam
    search is the paper's (section 6.1). A FOLDER needs no fairseq. Without RUN and FOLDER, a small
    model that comes with the package translates sentences of software help to German.

    CTranslate2 (pip install 'fairseq-aiayn[ctranslate2]') searches by default on a CPU where
    FOLDER has its files, which `aiayn export` writes, and its outputs are the same: with a beam
    from 4 to 21, α up to 0.6, and not --nbest or --precision bfloat16.

    With --nbest N, every sentence has N lines, best first; if it has fewer outputs, the last of its
    lines are empty. An invalid line (not UTF-8, more than 1,024 tokens) ends the command with its
    number, after the translations before it; with --skip-invalid, it has empty lines instead.

    examples:
      echo "Select the cells." | aiayn translate
      aiayn translate demo-en-de < text.en > text.de
      aiayn translate demo-en-de --beam 1 --threads 4 < text.en
      aiayn translate demo-en-de --engine ctranslate2 --quantization int8 < text.en
      aiayn translate demo-en-de --nbest 3 --scores < text.en
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
    settings, given = search_settings(arguments), find_model(arguments)
    engine = arguments.engine
    if engine == AUTO:
        engine = CTRANSLATE2 if _is_for_ctranslate2(arguments, given) else AIAYN
    if arguments.quantization and engine != CTRANSLATE2:
        raise ValueError("--quantization: goes with --engine ctranslate2")
    if arguments.precision != FLOAT32 and engine == CTRANSLATE2:
        raise ValueError("--precision: goes with our own engine, CTranslate2 has --quantization")
    if engine == AIAYN:
        from fairseq_aiayn.inference.pytorch import Translator

        return Translator(read_model(given), *settings, arguments.precision)
    from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator

    if isinstance(given, Checkpoint):
        raise ValueError(
            "--engine ctranslate2: expected a model folder, which is made by: aiayn export"
            f" {options_of_model(arguments)} --output FOLDER"
        )
    translator = CTranslate2Translator(given, *settings, arguments.quantization)
    if arguments.engine == AUTO:
        note("translating with CTranslate2; --engine aiayn is PyTorch")
    return translator


def _is_for_ctranslate2(arguments: argparse.Namespace, given: Path | Checkpoint) -> bool:
    """Return whether a model has files for CTranslate2, which is there and would give the output of
    our own search; with a small beam or a large α, it ends earlier and would not
    (docs/export.md)."""
    if not isinstance(given, Path) or not (given / FOR_CTRANSLATE2).is_dir():
        return False
    search = read_config(given).search
    beam = search.beam if arguments.beam is None else arguments.beam
    alpha = search.alpha if arguments.alpha is None else arguments.alpha
    is_tried = TRANSLATION.beam <= beam <= PARSING_DECODING.beam and 0 <= alpha <= TRANSLATION.alpha
    is_usual = arguments.nbest == 1 and arguments.precision == FLOAT32
    if not (is_tried and is_usual and arguments.device in (None, "cpu")):
        return False
    try:
        import ctranslate2
    except ImportError:
        return False
    return arguments.device == "cpu" or not ctranslate2.get_cuda_device_count()


def declare_parse(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("sentences", type=os.fsencode, nargs="*", metavar="SENTENCE", help="a sentence to parse")
    add_model(parser, "--model")
    add_search(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--pretty", action="store_true", help="draw the trees")
    form.add_argument("--linearised", action="store_true", help="print outputs without repairs")
    add("--tokenized", action="store_true", help="white space already separates all words")
    add("--constrained", action="store_true", help="search only among trees over the words")


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
    A FOLDER needs no fairseq. An invalid sentence ends the command, after the trees before it; with
    --skip-invalid, it has an empty line.
    """
    from fairseq_aiayn.inference.pytorch import Parser

    if arguments.checkpoint and arguments.data_bin and not arguments.bpe_codes:
        default = TextProcessing("word_pieces").file_in(arguments.data_bin)
        arguments.sentencepiece_model = arguments.sentencepiece_model or default
    model = read_model(find_model(arguments))
    parser = Parser(model, *search_settings(arguments), arguments.precision)
    engine = parser.engine(arguments.beam, arguments.constrained)
    if arguments.tokenized:
        engine = replace(engine, read=lambda text: parser.read(symbols_of(cast(str, text))))
    for parse in outputs_of(engine, arguments.sentences, arguments.skip_invalid):
        text = ""
        if parse and parse.words and arguments.linearised:
            text = " ".join(parse.symbols)
        elif parse and parse.words:
            text = f"{pretty(parse.tree())}\n" if arguments.pretty else write_tree(parse.tree())
        print(text, flush=True)


def outputs_of(
    engine: Engine[Any, Any, Written], sentences: Sequence[bytes], skip_invalid: bool
) -> Iterator[Written | None]:
    """Yield the output of each sentence or, if there is none, of each line of standard input;
    raises ValueError with the number of an invalid one, after the outputs before it. With
    `skip_invalid`, its output is None. A terminal is asked for one sentence after the other, and
    told the errors."""
    asks = not sentences and sys.stdin.isatty()
    where = "sentence " if sentences else "standard input:"
    lines = sentences or (asked_for() if asks else input_lines())
    of_lines = replace(engine, read=lambda line: engine.read(line.rstrip(b"\r\n").decode()))
    skipped = 0
    outputs = of_lines.outputs(lines, at_once=1) if asks else of_lines.outputs(lines)
    for number, output in enumerate(outputs, start=1):
        if not isinstance(output, ValueError):
            yield output
        elif asks:
            note(str(output))
        elif skip_invalid:
            note(f"skipped: {where}{number}: {output}")
            skipped += 1
            yield None
        else:
            raise ValueError(f"{where}{number}: {output}") from output
    if skipped:
        note(f"skipped {skipped} invalid sentences")


def input_lines() -> Iterator[bytes]:
    """Yield the lines of standard input without its byte order mark, and show progress in a
    terminal."""
    from tqdm import tqdm

    for number, line in enumerate(tqdm(sys.stdin.buffer, unit=" sentences", disable=None)):
        yield line if number else line.removeprefix(codecs.BOM_UTF8)


def asked_for() -> Iterator[bytes]:
    """Ask for sentences, with line editing and a history, until the terminal ends."""
    with suppress(ImportError):  # a Python may have been built without it
        import readline  # noqa: F401  # `input` uses it

    print("A sentence a line; Ctrl-D ends.", file=sys.stderr)
    cast(TextIOWrapper, sys.stdin).reconfigure(errors="surrogateescape")
    prompt = "> " if sys.stdout.isatty() else ""  # it would go into a file, otherwise
    while True:
        try:
            yield input(prompt).encode(errors="surrogateescape")
        except EOFError:
            return print(file=sys.stderr)
