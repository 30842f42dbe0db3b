"""Do one task by the Moses scripts and by this project's Python, and count what differs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sacremoses import MosesDetokenizer, MosesPunctNormalizer
from sacremoses.corpus import Perluniprops

from fairseq_aiayn.evaluation.bleu import Bleu, paper_bleu, score

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recipes" / "lib"))

from clean_pairs import Settings, reason_to_drop

from fairseq_aiayn.text.moses import moses_tokenizer

Words = tuple[str, ...]

TOKENIZER = "scripts/tokenizer/tokenizer.perl"
SPLIT_COMPOUNDS = ("-ple", r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g")  # t2t's get_ende_bleu.sh
LONGEST, RATIO = 250, 1.5  # of the recipes for WMT
CLEAN = ("scripts/training/clean-corpus-n.perl", "-ratio", str(RATIO))
ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}  # above all no PERL_UNICODE
MARKS = ("&quot;", "&apos;", '"', "'")
LETTERS = frozenset(Perluniprops().chars("IsAlnum"))
WINDOW = 40  # characters of an example


@dataclass(frozen=True)
class Comparison:
    """A task done by perl commands and by a function, line by line."""

    name: str
    commands: tuple[Words, ...]
    ours: str
    convert: Callable[[str], str]
    prepare: tuple[Words, ...] = ()  # perl commands that make the input of plain text


@dataclass(frozen=True)
class Difference:
    """What was counted in one text."""

    lines: int
    categories: dict[str, int]  # lines that differ
    examples: dict[str, dict[str, str]]  # by category: a piece of Moses' result and of ours


def comparisons(language: str) -> list[Comparison]:
    """List what is compared line by line."""
    tokenize = (TOKENIZER, "-q", "-a", "-l", language)
    normalize = ("scripts/tokenizer/normalize-punctuation.perl", "-l", language)
    printable = ("scripts/tokenizer/remove-non-printing-char.perl",)
    detokenize = ("scripts/tokenizer/detokenizer.perl", "-q", "-l", language)
    detokenizer = MosesDetokenizer(language)

    def normalizer(perl_parity: bool) -> Callable[[str], str]:
        moses = MosesPunctNormalizer(language, perl_parity=perl_parity)
        return lambda line: moses.normalize(f"{line}\n")  # the script, too, sees the line's end

    def detokenized(line: str) -> str:
        return detokenizer.detokenize(line.split())

    tokens = moses_tokenizer(language, normalize=False)
    cleaned = moses_tokenizer(language, normalize=True)
    chain = (normalize, printable, tokenize)
    return [
        Comparison("tokenize", (tokenize,), "MosesTokenizer, aggressive_dash_splits", tokens),
        Comparison("normalize", (normalize,), "MosesPunctNormalizer", normalizer(False)),
        Comparison(
            "normalize, parity", (normalize,), "MosesPunctNormalizer, perl_parity", normalizer(True)
        ),
        Comparison("normalize, then tokenize", chain, "fairseq_aiayn/text/moses.py", cleaned),
        Comparison("detokenize", (detokenize,), "MosesDetokenizer", detokenized, (tokenize,)),
    ]


def compare(comparison: Comparison, moses: Path, text: Path, work: Path) -> Difference:
    """Count the lines of a text for which the results differ."""
    source = pipeline(moses, comparison.prepare, text, work / "source")
    result = pipeline(moses, comparison.commands, source, work / "result")
    lines, differ, examples = 0, Counter(), {}
    for line, theirs in zip(lines_of(source), lines_of(result), strict=True):
        ours = comparison.convert(line)
        lines += 1
        if ours != theirs:
            kind = category(line, theirs, ours)
            differ[kind] += 1
            start = max(0, len(os.path.commonprefix([theirs, ours])) - WINDOW // 2)
            pieces = (found[start : start + WINDOW] for found in (theirs, ours))
            examples.setdefault(kind, dict(zip(("Moses", "ours"), pieces)))
    return Difference(lines, dict(differ.most_common()), examples)


def category(line: str, theirs: str, ours: str) -> str:
    """Say in what two results for a line differ."""
    if theirs.strip() == ours.strip():
        return "white space at the ends"
    if theirs.removesuffix(" .") + "." == ours:
        return "full stop of the last word"
    solid = ["".join(text.split()) for text in (theirs, ours)]
    if solid[0] == solid[1]:
        unknown = any(c.isalnum() and c not in LETTERS for c in line)
        return "letters that sacremoses does not know" if unknown else "white space within"
    for mark in MARKS:
        solid = [text.replace(mark, "") for text in solid]
    return "quotation marks and apostrophes" if solid[0] == solid[1] else "several or other"


def clean(moses: Path, pair: Sequence[Path], work: Path) -> dict[str, int]:
    """Compare clean-corpus-n.perl with the rule of recipes/lib/clean_pairs.py."""
    for side, path in zip("st", pair):
        (work / f"pair.{side}").symlink_to(path)
    script, *ratio = CLEAN
    files = ("pair", "s", "t", "kept", "1", str(LONGEST), "kept.lines")
    perl((moses / script, *ratio, *files), Path(os.devnull), work / "printed")
    theirs = {int(line) for line in lines_of(work / "kept.lines")}
    written = zip(lines_of(work / "kept.s"), lines_of(work / "kept.t"), strict=True)
    settings = Settings(("s", "t"), "none", False, LONGEST, RATIO)
    counts = Counter({"pairs": 0, "kept by Moses": len(theirs)})
    for number, lines in enumerate(zip(*map(lines_of, pair), strict=True), start=1):
        words = [line.split() for line in lines]
        ours = reason_to_drop(*words, settings) is None
        counts["pairs"] += 1
        counts["kept by Moses only"] += number in theirs and not ours
        counts["kept by us only"] += ours and number not in theirs
        if number in theirs:
            counts["kept by Moses with other words"] += next(written) != tuple(map(" ".join, words))
    return dict(counts)


def bleu(moses: Path, language: str, text: Path, work: Path) -> dict[str, str]:
    """Score an edited text by multi-bleu.perl and in our two ways."""
    reference = list(lines_of(text))
    hypothesis = [edited(sentence, number) for number, sentence in enumerate(reference)]
    files, tokens = {}, {}
    for side, sentences in (("reference", reference), ("hypothesis", hypothesis)):
        plain = work / side
        plain.write_bytes("".join(f"{sentence}\n" for sentence in sentences).encode())
        made = pipeline(moses, [(TOKENIZER, "-q", "-l", language)], plain, work / f"{side}.tok")
        tokens[side] = list(lines_of(made))
        split = language == "de"
        files[side] = perl(SPLIT_COMPOUNDS, made, work / f"{side}.split") if split else made
    script = moses / "scripts/generic/multi-bleu.perl"
    printed = perl((script, files["reference"]), files["hypothesis"], work / "bleu")
    by_tokens = paper_bleu(tokens["hypothesis"], tokens["reference"], language)
    return {
        "multi-bleu.perl": printed.read_text(encoding="utf-8").strip(),
        "paper_bleu, the same tokens": _as_multi_bleu(by_tokens),
        "score, plain text": _as_multi_bleu(score(hypothesis, reference, language).paper),
    }


def edited(sentence: str, number: int) -> str:
    """Invent a translation: words left out and swapped, at times lower case or no full stop."""
    words = [word for place, word in enumerate(sentence.split(" "), number) if place % 7]
    words[1:3] = words[2:0:-1]
    text = " ".join(words)
    text = text.lower() if number % 5 == 0 else text
    return text.removesuffix(".") if number % 11 == 0 else text


def _as_multi_bleu(result: Bleu) -> str:
    precisions = "/".join(f"{precision:.1f}" for precision in result.precisions)
    return (
        f"BLEU = {result.score:.2f}, {precisions} (BP={result.brevity_penalty:.3f}, "
        f"ratio={result.length_ratio:.3f}, hyp_len={result.hypothesis_length}, "
        f"ref_len={result.reference_length})"
    )


def pipeline(moses: Path, commands: Sequence[Words], text: Path, result: Path) -> Path:
    """Run scripts of Moses one after the other and return where the last one's result is."""
    for number, (script, *options) in enumerate(commands):
        text = perl((moses / script, *options), text, result.with_name(f"{result.name}.{number}"))
    return text


def perl(words: Sequence[str | Path], source: Path, result: Path) -> Path:
    """Run perl beside `result`, where its output goes; raises OSError with its last words."""
    with source.open("rb") as given, result.open("wb") as printed:
        run = subprocess.run(
            ("perl", *map(str, words)),
            cwd=result.parent,
            env=ENVIRONMENT,
            stdin=given,
            stdout=printed,
            stderr=subprocess.PIPE,
            check=False,
        )
    if run.returncode:
        said = run.stderr.decode(errors="replace").strip().split("\n")
        raise OSError(f"{words[0]}: {said[-1]}")
    return result


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file without their ends; raises ValueError where it is not UTF-8."""
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.removesuffix("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: must be UTF-8, is not") from None
