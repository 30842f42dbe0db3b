"""The commands of treebanks (section 6.3)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TextIO, get_args

from fairseq_aiayn.console import note
from fairseq_aiayn.files import (
    read_line_pairs,
    require_not_among,
    source_name,
    whole_file,
)
from fairseq_aiayn.treebank.evalb import (
    find_parameters,
    remarks,
    score_files,
    scores_as_json,
    scores_as_text,
    summarize,
)
from fairseq_aiayn.treebank.linearization import (
    Tags,
    linearize,
    normalized_lines,
    normalized_trees,
    source_text,
)
from fairseq_aiayn.treebank.repair import RepairReport, repair
from fairseq_aiayn.treebank.trees import Constituent, input_files, symbols_of, words_of, write_tree

LISTED = 10  # lines that are no tree; of all, the number is said
OUTPUTS = ("words", "trees", "source")  # of linearize, beside the sequences


def declare_linearize(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trees_in", type=str, nargs="*", default=["-"], metavar="TREES", help="trees to read")
    add("--tags", choices=get_args(Tags), default="pos", help="symbol of a word (default: pos)")
    add("--collapse-unary", action="store_true", help="merge an NP over a single NP into one NP")
    add("--skip", action="store_true", help="skip and count lines that are not a tree")
    add("--words", type=Path, metavar="FILE", help="write the words here")
    add("--trees", type=Path, metavar="FILE", help="write normalized trees here")
    add("--source", type=Path, metavar="FILE", help="write a parser's input here")
    add("--longest", type=int, metavar="SYMBOLS", help="leave out longer trees")


def run_linearize(arguments: argparse.Namespace) -> None:
    """write trees as sequences, one sentence per line

    Reads trees in Penn Treebank brackets, removes function tags and traces, and prints each tree
    depth first: "(LABEL" and ")LABEL" for its brackets and, for each word, its tag (--tags pos) or
    XX (--tags XX). The words themselves are not printed; --words writes them to a file.

      aiayn linearize wsj/22 --words valid.words --trees valid.trees > valid.tree
      aiayn linearize wsj_0001.mrg wsj_0002.mrg.gz --tags XX > train.tree
      aiayn parse --checkpoint average.pt ... < sentences | aiayn linearize --collapse-unary

    TREES is a file, a .gz file, a directory (all *.mrg, *.ptb, *.mrg.gz and *.ptb.gz below it) or -
    for standard input. Line N of --words, --trees and --source belongs to line N of the output;
    --source has the words as a parser's word pieces are learned from them. With
    --skip, the input has one tree per line, as parsers write it; lines that are not a tree are
    skipped and counted.
    """
    paths = {option: getattr(arguments, option) for option in OUTPUTS}
    outputs = [path.resolve() for path in paths.values() if path]
    if len(set(outputs)) < len(outputs):
        raise ValueError("--words, --trees and --source: expected different files, got one twice")
    # Listed before an output appears among them
    inputs = [file for path in arguments.trees_in for file in input_files(path)]
    for option, path in paths.items():
        require_not_among(f"--{option}", path, inputs)
    with ExitStack() as opened:
        files = {
            option: opened.enter_context(whole_file(path)) for option, path in paths.items() if path
        }
        if not _write_trees(_read_trees(inputs, arguments), files, arguments):
            raise ValueError(f"{source_name(arguments.trees_in[0])}: expected a tree, got none")
        for output in (sys.stdout, *files.values()):
            output.flush()  # no file appears if another cannot be written


def _write_trees(
    trees: Iterator[Constituent], files: Mapping[str, TextIO], arguments: argparse.Namespace
) -> int:
    """Print the sequences, and write words, trees and sources to the files; return their number."""
    count = too_long = 0
    for tree in trees:
        symbols = linearize(tree, arguments.tags)
        if arguments.longest is not None and len(symbols) > arguments.longest:
            too_long += 1
            continue
        count += 1
        words = [word.form for word in words_of(tree)]
        print(" ".join(symbols))
        lines = " ".join(words), write_tree(tree), source_text(words)
        for option, line in zip(OUTPUTS, lines, strict=True):
            if option in files:
                print(line, file=files[option])
    if arguments.longest is not None:
        print(f"{count:,} trees; {too_long:,} left out as too long", file=sys.stderr)
    return count


def _read_trees(
    inputs: Sequence[str | Path], arguments: argparse.Namespace
) -> Iterator[Constituent]:
    """Yield the normalized trees; with --skip, print how many lines were left out, and why."""
    refused: list[str] = []
    for path in inputs:
        if arguments.skip:
            yield from normalized_lines(path, arguments.collapse_unary, refused)
        else:
            yield from normalized_trees(path, arguments.collapse_unary)
    for reason in refused[:LISTED]:
        note(reason)
    if refused:
        print(f"left out: {len(refused):,} lines that are no tree", file=sys.stderr)


def declare_delinearize(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("linearized", type=str, nargs="?", default="-", metavar="LINEARISED", help="sequences")
    add("--words", type=str, required=True, metavar="FILE", help="the words of each line")
    add("--report", type=Path, metavar="FILE", help="write the repairs as JSON")
    add("--keep-tags", action="store_true", help="change no tag and no XX, in any language")


def run_delinearize(arguments: argparse.Namespace) -> None:
    """turn sequences back into trees, one per line

    This reverses `aiayn linearize`. LINEARISED holds a model's output (- for standard input);
    --words holds the words of each line, separated by spaces. A sequence that is not a tree over
    exactly these words is repaired. Standard error says how many sequences needed which repair;
    --report writes the same as JSON. The output is trees in Penn Treebank brackets under TOP, which
    `aiayn evalb` scores.

    EVALB does not count words tagged , . : `` or ''. If all tags of a sequence are those of the
    Penn Treebank, some change, even in well-formed ones, so that exactly the punctuation has these
    five: (NN ?) becomes (. ?), and (, board) becomes (XX board). These are "punctuation tags" in
    the counts. Hyphens, dashes and apostrophes keep any tag. XX, which is no tag, becomes that of a
    mark or a dash. Brackets, other tags and those of other treebanks, such as $. or PU, stay.
    (--keep-tags also keeps XX, which is taken for English.)

      aiayn delinearize predicted.tree --words valid.words > predicted.trees
      aiayn delinearize --words valid.words --report repairs.json < predicted.tree > predicted.trees
    """
    require_not_among("--report", arguments.report, (arguments.linearized, arguments.words))
    report = RepairReport()
    with whole_file(arguments.report) if arguments.report else nullcontext() as file:
        for lines in read_line_pairs(arguments.linearized, arguments.words):
            symbols, words = map(symbols_of, lines)
            try:
                repaired = repair(symbols, words, arguments.keep_tags)
            except ValueError as error:
                where = f"{source_name(arguments.words)}:{report.sentences + 1}"
                raise ValueError(f"{where}: {error}") from error
            report.add(repaired)
            print(write_tree(repaired.tree))
        sys.stdout.flush()  # no report if the trees cannot be written
        if file:
            file.write(json.dumps(report.as_json(), indent=2) + "\n")
    print(*report.lines(), sep="\n", file=sys.stderr)


def declare_evalb(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("gold", type=str, metavar="GOLD", help="the correct trees, - for stdin")
    add("predicted", type=str, metavar="PREDICTED", help="the trees to score")
    add(
        *("-p", "--parameters"),
        type=str,
        default="COLLINS",
        metavar="NAME",
        help="EVALB's parameters: COLLINS, new, or a .prm file (default: %(default)s)",
    )
    add("--json", action="store_true", help="print JSON, with counts per label")
    add(
        "--per-sentence",
        action="store_true",
        help='print one line per sentence before the summary; with --json, add "sentences"',
    )


def run_evalb(arguments: argparse.Namespace) -> None:
    """score constituency trees as EVALB does, with the parameters of COLLINS.prm

    Both files have one tree per line, in brackets: (TOP (NP (DT the) (NN board))). Treebank files
    spread a tree over several lines: `aiayn linearize FILE --trees OUT > /dev/null` puts each tree
    on one line. Both files may have traces and function tags. For balanced trees within the limits
    of the C program EVALB, the output is the same to the last digit. Two kinds of sentences do not
    count: errors (words that differ from gold, unbalanced brackets) and skipped sentences (no
    words). The first of these are listed on standard error.

      aiayn evalb gold.trees predicted.trees
      aiayn evalb gold.trees predicted.trees --per-sentence > evalb.txt
      aiayn evalb gold.trees.gz - -p new --json < predicted.trees

    With --json --per-sentence, the JSON also has a list "sentences" of one object per sentence:
    "number" (from 1), "status" (valid, error or skipped; if not valid, "reason" says why),
    "length", "recall", "precision", "matched", "gold", "predicted", "crossing", "words",
    "correct_tags" and "tagging_accuracy". "recall", "precision" and "tagging_accuracy" are in per
    cent, the other numbers are counts. This prints the ten sentences with the lowest recall:

      aiayn evalb gold.trees predicted.trees --json --per-sentence > evalb.json
      jq -c '[.sentences[] | select(.status == "valid")] | sort_by(.recall)[:10][]' evalb.json
    """
    parameters = find_parameters(arguments.parameters)
    sentences = [*score_files(arguments.gold, arguments.predicted, parameters)]
    scores = summarize(sentences, parameters)
    for remark in remarks(sentences, parameters, source_name(arguments.predicted)):
        note(remark)
    listed = sentences if arguments.per_sentence else []
    if arguments.json:
        print(json.dumps(scores_as_json(scores, listed), indent=2, ensure_ascii=False))
    else:
        print(*scores_as_text(scores, listed), sep="\n")
