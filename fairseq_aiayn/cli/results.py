"""The commands of what a training left: checkpoints, scores, runs."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_aiayn.configuration import as_typed
from fairseq_aiayn.console import note, one_line
from fairseq_aiayn.corpus.pieces import MARK
from fairseq_aiayn.files import STANDARD_INPUT, read_lines, source_name
from fairseq_aiayn.paper import OWN, find_row

if TYPE_CHECKING:
    from fairseq_aiayn.diagnosis.diagnosis import Diagnosis
    from fairseq_aiayn.scores import Scores

HEADINGS = {
    "LARGE": "costs or gains 1 BLEU or more",
    "MEDIUM": "costs or gains 0.3 to 1 BLEU",
    "UNKNOWN": "effect not measured",
    "SMALL": "less than 0.3 BLEU",
    "NONE": "no effect",
}


def declare_average(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--last", type=int, metavar="N", help="how many checkpoints to average")
    add("--dir", type=Path, metavar="DIR", help="the run's --save-dir")
    add("--inputs", type=Path, nargs="+", metavar="FILE", help="the checkpoints to average")
    add("--output", type=Path, required=True, metavar="FILE", help="where to write the average")


def run_average(arguments: argparse.Namespace) -> None:
    """average the last checkpoints of a run into one, or those that are named

    The last checkpoints are those with the most updates. If the run wrote checkpoints of
    --save-interval-updates (checkpoint_EPOCH_UPDATES.pt), these are averaged, otherwise those of
    whole epochs (checkpointEPOCH.pt). The average can translate, validate and start fine-tuning
    like any other checkpoint; it has no optimizer state. Checkpoints of stock fairseq work, too.

      aiayn average --last 5 --dir checkpoints --output checkpoints/average.pt
      fairseq-generate DATA --user-dir $(aiayn user-dir) --task aiayn_translation \\
          --path checkpoints/average.pt
      aiayn average --inputs checkpoints/checkpoint.best_* --output checkpoints/best.pt

    Section 6.1 averages 5 checkpoints for the base model and 20 for the big one, ten minutes apart.
    """
    from fairseq_aiayn.checkpoints import average, by_updates, last_checkpoints

    given = [value is not None for value in (arguments.last, arguments.dir, arguments.inputs)]
    if given not in ([True, True, False], [False, False, True]):
        raise ValueError("expected either --last N --dir DIR or --inputs FILE ...")
    if arguments.inputs:
        paths = by_updates(arguments.inputs)
    else:
        paths = last_checkpoints(arguments.dir, arguments.last)
    average(paths, arguments.output)
    print(one_line(f"{arguments.output}: the mean of {', '.join(path.name for path in paths)}"))


def declare_bleu(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--hypothesis", type=str, required=True, metavar="FILE", help="translation, - for stdin")
    add("--reference", nargs="+", required=True, metavar="FILE", help="one or several references")
    add("--target-lang", required=True, metavar="LANG", help="their language: de, tr, pt_BR, ...")
    add("--tokenized", action="store_true", help="the files are already in Moses tokens")
    add("-lc", "--lowercase", action="store_true", help="lower-case all text")
    add(
        "--quotes",
        choices=("ascii", "keep"),
        help="what the paper's BLEU does with Unicode quotes (default: ascii for de, else keep)",
    )
    add(
        "--tokens",
        type=str,
        nargs=2,
        metavar=("HYPOTHESIS", "REFERENCE"),
        help="the same sentences in tokens of any kind: also print the BLEU of these tokens, which"
        " fairseq-generate prints and many papers report",
    )
    add("--json", action="store_true", help="print JSON")


def run_bleu(arguments: argparse.Namespace) -> None:
    """score a translation with the paper's BLEU, sacreBLEU and chrF

    The paper's BLEU is cased and not smoothed. It is computed on Moses tokens. For German, as in
    the authors' script, hyphenated compounds are split and quotes are ASCII: all in the reference,
    “ and ” in the translation, so that its „ is an error. On both sides ’ becomes ' and … three
    dots. sacreBLEU takes text as it is. It is another measure: a base model of the authors has
    27.52 by sacreBLEU and 29.02 by their script. For Korean, and where words are not separated
    (Chinese, Thai), it takes its tokens for the language, else characters, and the paper's BLEU is
    left out. Files have one sentence per line, detokenized unless --tokenized is given; entities
    (&quot;) are undone.

      aiayn bleu --hypothesis test.hyp --reference test.de --target-lang de
      aiayn bleu --hypothesis test.hyp --reference test.de --target-lang de --json > bleu.json
      sacremoses -l fr detokenize < test.tok | aiayn bleu --hypothesis - --reference test.fr \\
          --target-lang fr
      aiayn bleu --hypothesis test.hyp --reference test.1.tr test.2.tr --target-lang tr
      aiayn bleu --hypothesis test.hyp --reference test.de --target-lang de --lowercase
    """
    from fairseq_aiayn import scores

    paths = arguments.hypothesis, *arguments.reference
    sides = _sentences(*paths)
    for path, lines in zip(paths, sides, strict=True):
        if left := sum(bool(MARK.search(line)) for line in lines):
            marks = "marks of subwords, @@ or ▁, and are scored with them"
            note(f"aiayn bleu: warning: {source_name(path)}: {left:,} sentences have {marks}")
    options = arguments.target_lang, arguments.quotes, arguments.tokenized
    both, others, lowercase = (sides[0], sides[1]), sides[2:], arguments.lowercase
    result = scores.score(*both, *options, others=others, lowercase=lowercase)
    names = [source_name(path) for path in paths]
    for remark in scores.remarks(names, sides, arguments.target_lang, arguments.tokenized):
        note(f"note: {remark}")
    if arguments.tokens:
        tokens = _sentences(*arguments.tokens, kind="H")
        if len(tokens[0]) != result.sentences:
            expected = f"expected the {result.sentences:,} sentences of --hypothesis"
            raise ValueError(f"--tokens: {expected}, got {len(tokens[0]):,}")
        result = dataclasses.replace(result, tokens=scores.token_bleu(*tokens, lowercase=lowercase))
    if arguments.json:
        content = dataclasses.asdict(result)
        print(json.dumps({key: part for key, part in content.items() if part}, indent=2))
    else:
        print(*_score_lines(result), sep="\n")


def _score_lines(result: Scores) -> Iterator[str]:
    from fairseq_aiayn.scores import UNITS, tokenizer_in

    yield f"{result.sentences:,} sentences"
    if not result.paper:
        yield "the paper's BLEU is left out: it has Moses tokens, sacreBLEU others for this text"
    measures = {
        "the paper's BLEU": (result.paper, "Moses tokens"),
        "sacreBLEU": (result.sacrebleu, UNITS[tokenizer_in(result.sacrebleu.signature)]),
        "BLEU of tokens": (result.tokens, "the tokens as given"),
    }
    for name, (bleu, units) in measures.items():
        if bleu:
            precisions = "/".join(f"{precision:.1f}" for precision in bleu.precisions)
            yield (
                f"{name:16} {bleu.score:6.2f}  {precisions} (1- to 4-grams), brevity penalty "
                f"{bleu.brevity_penalty:.3f}, length ratio {bleu.length_ratio:.3f} "
                f"({bleu.hypothesis_length:,}/{bleu.reference_length:,})"
            )
            yield f"    of {units}: {bleu.signature}"
    if chrf := result.chrf:
        yield f"{'chrF':16} {chrf.score:6.2f}"
        yield f"    of n-grams of characters: {chrf.signature}"


def _sentences(*paths: str, kind: str = "D") -> list[list[str]]:
    """Return the lines of a hypothesis and its references, and refuse those of fairseq-generate
    before their numbers differ."""
    from fairseq_aiayn.scores import require_sentence

    if paths.count(STANDARD_INPUT) > 1:
        raise ValueError("expected at most one file from standard input, got more")
    sides = [read_lines(path) for path in paths]
    roles = [("hypothesis", kind), *[("reference", "T")] * len(sides[1:])]
    for path, lines, (name, extracted) in zip(paths, sides, roles, strict=True):
        for line in lines:
            require_sentence(name, line, path, extracted)
    for path, lines in zip(paths, sides, strict=True):
        if len(lines) != len(sides[0]):
            expected = f"expected as many lines as in {source_name(paths[0])} ({len(sides[0]):,})"
            raise ValueError(f"{source_name(path)}: {expected}, got {len(lines):,}")
    return sides


def declare_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="a run's directory")
    add("--output", required=True, type=Path, metavar="DIR", help="where the files go")
    add("--examples", type=int, default=5, metavar="N", help="sentences to show (default: 5)")


def run_compare(arguments: argparse.Namespace) -> None:
    """set runs side by side: a table, and a page with curves, significance and differences

    Reads run directories as the recipes leave them, of translation models (RUN) or of parsers
    (RUN/PART), any systems, rows and seeds, of one test set. Prints a table of cost and quality,
    with the paper's figures where it prints any of a run's row and corpus. In --output it leaves

      report.html   one file, to look at offline: the table, a paired bootstrap against the first
                    run, what was done differently, learning curves, translated sentences, how
                    each run was made
      table.md      the same without pictures
      table.json    all figures of it

    examples:
      aiayn compare exp/demo/aiayn-demo-1 exp/demo/stock-demo-1 --output exp/demo/table
      aiayn compare exp/wsj_parsing/gum/*-1/test --output exp/wsj_parsing/gum/table
    """
    from fairseq_aiayn.report.pages import write_page
    from fairseq_aiayn.report.results import read_report

    if arguments.examples < 0:
        raise ValueError(f"--examples: expected at least 0, got {arguments.examples}")
    report = read_report(arguments.runs, arguments.examples)
    print(write_page(report, arguments.output, "table"), end="")


def declare_diagnose(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", type=Path, metavar="CHECKPOINT|LOG|DIR", help="what to read")
    add("--row", help="compare with this row (default: the one with its sizes)")
    add("--generate", type=Path, metavar="LOG", help="output of fairseq-generate with the model")
    add("--bleu", metavar="SIGNATURE", help="signature of the score")
    add("--training", type=int, metavar="N", help="of several in a log (default: the last)")
    add("--json", action="store_true", help="print JSON")


def run_diagnose(arguments: argparse.Namespace) -> None:
    """say what happened in a training, where it differs from the paper, and what to type instead

    Reads any training of fairseq, stock or of this plugin: a checkpoint, a log of fairseq-train or
    fairseq-hydra-train, a --save-dir, or a run directory of the recipes. Says first what happened,
    with the line of the log; then compares text, batch, schedule, regularization, model, search and
    BLEU with a row of the paper. What costs most comes first. Where no measurement of an effect is
    known, it says so. A file is read as data, nothing in it is executed.

    A checkpoint does not say how the model was evaluated, nor whether it is an average: add the
    output of fairseq-generate (--generate) and the signature of the score (--bleu).

    examples:
      aiayn diagnose checkpoints/checkpoint_best.pt
      aiayn diagnose train.log --row big --generate generate.log --bleu "BLEU|case:mixed|tok:13a"
      aiayn diagnose exp/wmt14_en_de/stock-base-1 --json
    """
    from fairseq_aiayn.diagnosis.diagnosis import as_json, diagnose
    from fairseq_aiayn.diagnosis.evidence import read_evidence

    row = find_row(arguments.row) if arguments.row else None
    run = read_evidence(arguments.path, arguments.generate, arguments.bleu, arguments.training)
    diagnosis = diagnose(run, row)
    if arguments.json:
        print(json.dumps(as_json(diagnosis), indent=2, ensure_ascii=False))
    else:
        print(*map(one_line, _diagnosis_lines(diagnosis)), sep="\n")


def _diagnosis_lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"{diagnosis.name}: {diagnosis.arch}, compared with row {diagnosis.row.name}"
    if diagnosis.events:
        yield from ("", "what happened")
    for event in diagnosis.events:
        yield f"  {event.text}" + f" (line {event.line:,})" * bool(event.line)
        if event.change:
            yield f"    change: {event.change}"
    names = {command: f"{name}, below" for name, command in diagnosis.commands.items()}
    whose = "row" if diagnosis.row in OWN else "paper"
    differing = {name: each for name, each in diagnosis.findings.items() if each.differs}
    for weight, group in groupby(differing.items(), key=lambda item: item[1].weight):
        yield from ("", HEADINGS[weight.name])
        for name, finding in group:
            yield f"  {name}: {finding.here} ({whose}: {finding.paper})"
            if weight:
                change = names.get(finding.change, finding.change)
                yield f"    {finding.effect}" + f"; change: {change}" * bool(change)
    same = [name for name in diagnosis.findings if name not in differing]
    yield from ("", f"as in the {whose}: {', '.join(same) or 'nothing'}")
    if diagnosis.not_known:
        yield f"not known: {', '.join(diagnosis.not_known)}"
    if diagnosis.other_options:
        options = diagnosis.other_options.items()
        set_too = ", ".join(f"{name} {as_typed(value)}" for name, value in options)
        yield f"also set, and not judged: {set_too}"
    yield "options go at the end of fairseq-train's command, with another --save-dir"
    for name, command in diagnosis.commands.items():
        yield f"{name}: {command}"
