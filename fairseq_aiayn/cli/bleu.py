"""score a translation with the paper's BLEU and with sacreBLEU

The paper's BLEU is cased and not smoothed. It is computed on Moses tokens. For German, as in the
authors' script, hyphenated compounds are split and quotes are ASCII: all in the reference, “ and ”
in the translation, so that its „ is an error. On both sides ’ becomes ' and … three dots.
sacreBLEU takes text as it is. It is another measure: a base model of the authors has 27.52 by
sacreBLEU and 29.02 by their script.
Files have one sentence per line, detokenized unless --tokenized is given.

  aiayn bleu --hypothesis test.hyp --reference test.de --target-lang de
  aiayn bleu --hypothesis test.hyp --reference test.de --target-lang de --json > bleu.json
  sacremoses -l fr detokenize < test.tok | aiayn bleu --hypothesis - --reference test.fr \\
      --target-lang fr
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

from fairseq_aiayn.text import read_parallel, require_text

if TYPE_CHECKING:
    from fairseq_aiayn.scores import Bleu


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn bleu`."""
    parser.add_argument(
        "--hypothesis", required=True, metavar="FILE", help="the translation, - for standard input"
    )
    parser.add_argument("--reference", required=True, metavar="FILE", help="the reference")
    parser.add_argument(
        "--target-lang", required=True, metavar="LANG", help="their language: de, fr, ..."
    )
    parser.add_argument(
        "--tokenized", action="store_true", help="the files are already in Moses tokens"
    )
    parser.add_argument(
        "--quotes",
        choices=("ascii", "keep"),
        help="what the paper's BLEU does with Unicode quotes (default: ascii for de, else keep)",
    )
    parser.add_argument(
        "--tokens",
        nargs=2,
        metavar=("HYPOTHESIS", "REFERENCE"),
        help="the same sentences in tokens of any kind: also print the BLEU of these tokens, which"
        " fairseq-generate prints and many papers report",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> None:
    """Print both scores of --hypothesis against --reference."""
    from fairseq_aiayn import scores

    hypothesis, reference = read_parallel(arguments.hypothesis, arguments.reference)
    require_text(arguments.reference, reference)
    options = arguments.target_lang, arguments.quotes, arguments.tokenized
    result = scores.score(hypothesis, reference, *options)
    if arguments.tokens:
        tokens = read_parallel(*arguments.tokens)
        if len(tokens[0]) != result.sentences:
            expected = f"expected the {result.sentences:,} sentences of --hypothesis"
            raise ValueError(f"--tokens: {expected}, got {len(tokens[0]):,}")
        result = dataclasses.replace(result, tokens=scores.token_bleu(*tokens))
    if arguments.json:
        content = dataclasses.asdict(result)
        print(json.dumps({key: part for key, part in content.items() if part}, indent=2))
        return
    print(f"{result.sentences:,} sentences")
    print(_describe("the paper's BLEU", result.paper))
    print(_describe("sacreBLEU", result.sacrebleu))
    if result.tokens:
        print(_describe("BLEU of tokens", result.tokens))


def _describe(name: str, result: Bleu) -> str:
    precisions = "/".join(f"{precision:.1f}" for precision in result.precisions)
    return (
        f"{name:16} {result.score:6.2f}  {precisions} (1- to 4-grams), "
        f"brevity penalty {result.brevity_penalty:.3f}, length ratio {result.length_ratio:.3f} "
        f"({result.hypothesis_length:,}/{result.reference_length:,})\n    {result.signature}"
    )
