"""translate raw text with a trained model

Reads a sentence per line from standard input, or asks for one after the other in a terminal, and
prints one translation per line, in the same order; an empty line stays empty. Text is tokenized and
cut into pieces as in the model's training, and put together again. The beam search is the paper's
(section 6.1). fairseq is not needed. FOLDER may also be what `aiayn export --to ctranslate2` wrote;
outputs are ranked in the same way.

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

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fairseq_aiayn.cli.options import add_model, add_search, read_model, search_settings
from fairseq_aiayn.cli.sentences import outputs_of
from fairseq_aiayn.text import optional

if TYPE_CHECKING:
    from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator
    from fairseq_aiayn.inference.engine import Translation, Translator


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(arguments: argparse.Namespace) -> None:
    """Print the translations of standard input; in a terminal, report a bad line and go on."""
    engine = _translator(arguments).engine(arguments.beam, arguments.alpha, arguments.nbest)
    for translations in outputs_of(engine, (), arguments.skip_invalid):
        lines = [_line(translation, arguments.scores) for translation in translations or ()]
        lines += [""] * (arguments.nbest - len(lines))
        print(*lines, sep="\n", flush=sys.stdin.isatty())


def _translator(arguments: argparse.Namespace) -> Translator | CTranslate2Translator:
    """Load the model; raises OSError or ValueError for one that cannot be used."""
    from fairseq_aiayn.inference.engine import Translator
    from fairseq_aiayn.inference.folder import OF_OTHERS

    folder = arguments.model
    if folder is None or not (folder / OF_OTHERS).is_file():
        return Translator(read_model(arguments), *search_settings(arguments), arguments.precision)
    if arguments.precision != "float32":
        raise ValueError(
            f"--precision {arguments.precision}: a model for CTranslate2 has the precision that"
            " aiayn export gave it"
        )
    with optional("ctranslate2"):
        from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator
    return CTranslate2Translator(folder, *search_settings(arguments), arguments.threads)


def _line(translation: Translation, scores: bool) -> str:
    numbers = f"{translation.score:.4f}\t{translation.log_p:.4f}\t" if scores else ""
    return f"{numbers}{translation.text}"
