"""translate raw text with a model folder

Reads a sentence per line from standard input, or asks for one after the other in a terminal, and
prints one translation per line, in the same order; an empty line stays empty. Text is tokenized and
cut into pieces as in the model's training, and put together again. The beam search is the paper's
(section 6.1). fairseq is not needed. FOLDER may also be what `aiayn export --to ctranslate2` wrote;
outputs are ranked in the same way.

examples:
  aiayn translate demo-en-de < text.en > text.de
  aiayn translate demo-en-de --beam 1 --threads 4 < text.en
  aiayn translate demo-en-de --precision bfloat16 < text.en
  aiayn translate demo-en-de --nbest 3 --scores < text.en
  aiayn translate demo-en-de-int8 < text.en
  aiayn translate demo-en-de
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_aiayn.cli.precision_option import add_precision
from fairseq_aiayn.text import STANDARD_INPUT, decode_lines, optional, source_name, stream_lines

if TYPE_CHECKING:
    from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator
    from fairseq_aiayn.inference.engine import Translation, Translator
    from fairseq_aiayn.inference.folder import Config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn translate`."""
    parser.add_argument("model", type=Path, metavar="FOLDER", help="what aiayn export wrote")
    parser.add_argument("--beam", type=int, metavar="N", help="beam size (default: the model's)")
    parser.add_argument(
        "--alpha", type=float, metavar="A", help="length penalty (default: the model's)"
    )
    parser.add_argument(
        "--nbest",
        type=int,
        default=1,
        metavar="N",
        help="at most N outputs per sentence, one per line; an empty line has one (default: 1)",
    )
    parser.add_argument(
        "--scores", action="store_true", help="print score and log P before each output, with tabs"
    )
    parser.add_argument(
        "--batch-tokens",
        type=int,
        metavar="N",
        help="source tokens per batch, with padding (default: 4096)",
    )
    add_precision(parser)
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the search")
    parser.add_argument("--device", help="cpu or cuda (default: a GPU if there is one)")


def run(arguments: argparse.Namespace) -> None:
    """Print the translations of standard input; in a terminal, report a bad line and go on."""
    with optional("tqdm"):
        from tqdm import tqdm

    translator = _load(arguments)
    options = (arguments.beam, arguments.alpha, arguments.nbest)
    if not sys.stdin.isatty():
        lines = tqdm(stream_lines(STANDARD_INPUT), unit=" sentences", disable=None)
        for outputs in translator.stream((line.removesuffix("\n") for line in lines), *options):
            _print(outputs, arguments.scores)
        return
    for line in _asked_for():
        try:
            text = decode_lines([line.removesuffix(b"\n")], source_name(STANDARD_INPUT))
            found = translator.stream(text, *options)
            _print(next(found), arguments.scores)
        except ValueError as error:
            print(error, file=sys.stderr)


def _load(arguments: argparse.Namespace) -> Translator | CTranslate2Translator:
    """Load the model; raises OSError or ValueError for one that cannot be used."""
    import torch

    from fairseq_aiayn.inference.engine import BATCH_TOKENS, Translator
    from fairseq_aiayn.inference.folder import OF_CTRANSLATE2, read_folder

    threads = arguments.threads
    if threads is not None and threads < 1:
        raise ValueError(f"--threads must be at least 1, got {threads}")
    batch_tokens = BATCH_TOKENS if arguments.batch_tokens is None else arguments.batch_tokens
    if (arguments.model / OF_CTRANSLATE2).is_file():
        if arguments.precision != "float32":
            raise ValueError(
                f"--precision {arguments.precision}: a model for CTranslate2 has the precision that"
                " aiayn export gave it"
            )
        with optional("ctranslate2"):
            from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator
        translator = CTranslate2Translator(arguments.model, arguments.device, batch_tokens, threads)
        _require_translation(arguments.model, translator.config)
        return translator
    if threads:
        torch.set_num_threads(threads)
    model = read_folder(arguments.model)
    _require_translation(arguments.model, model.config)
    return Translator(model, arguments.device, batch_tokens, arguments.precision)


def _require_translation(path: Path, config: Config) -> None:
    if config.task != "translation":
        raise ValueError(f"{path}: must translate, is for {config.task}")


def _print(outputs: list[Translation], scores: bool) -> None:
    for one in outputs:
        numbers = f"{one.score:.4f}\t{one.log_p:.4f}\t" if scores else ""
        print(f"{numbers}{one.text}", flush=sys.stdin.isatty())


def _asked_for() -> Iterator[bytes]:
    """Ask for sentences on the terminal until it ends."""
    print("A sentence a line; Ctrl-D ends.", file=sys.stderr)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            print(file=sys.stderr)
            return
        yield line
