"""Measure how far this project's text processing agrees with the Moses scripts in Perl.

DIR is a checkout of mosesdecoder. Texts have one plain sentence a line and go by their file names
in the result. --json adds it to OUT, in the place of an earlier one of that language and commit.

    python benchmarks/moses_agreement.py --moses mosesdecoder --language de \\
        --text multi30k.de --pair multi30k.en multi30k.de --json moses_agreement.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import moses_comparisons
from moses_comparisons import CLEAN, LONGEST, SPLIT_COMPOUNDS, TOKENIZER, Comparison, comparisons


def measure_lines(comparison: Comparison, moses: Path, texts: Sequence[Path]) -> dict[str, object]:
    """Return what differs in each text, and an example of each category."""
    by_text, examples = {}, {}
    for text in texts:
        with TemporaryDirectory() as work:
            found = moses_comparisons.compare(comparison, moses, text, Path(work))
        differ = sum(found.categories.values())
        share = round(100 * differ / max(found.lines, 1), 3)
        counts = {"lines": found.lines, "differ": differ, "per cent": share}
        by_text[text.name] = {**counts, "categories": found.categories}
        examples = {**found.examples, **examples}
        print(f"{comparison.name:26}{text.name:24}{found.lines:8,}{differ:8,}{share:9.3f}%")
        for kind, lines in found.categories.items():
            print(f"{'':50}{lines:16,}  {kind}")
    commands = " | ".join(" ".join(words) for words in comparison.commands)
    return {"perl": commands, "ours": comparison.ours, "texts": by_text, "examples": examples}


def measure_clean(moses: Path, pairs: Sequence[Sequence[Path]]) -> dict[str, object]:
    """Return what both rules keep of each pair of texts."""
    by_pair = {}
    for pair in pairs:
        with TemporaryDirectory() as work:
            counts = moses_comparisons.clean(moses, pair, Path(work))
        name = " ".join(path.name for path in pair)
        by_pair[name] = counts
        print(f"{'clean':26}{name}: {', '.join(f'{k} {n:,}' for k, n in counts.items())}")
    command = f"{' '.join(CLEAN)} SOURCE TARGET 1 {LONGEST}"
    return {"perl": command, "ours": "recipes/lib/clean_pairs.py", "pairs": by_pair}


def measure_bleu(moses: Path, language: str, texts: Sequence[Path]) -> dict[str, object]:
    """Return the scores of an edited text against itself."""
    by_text = {}
    for text in texts:
        with TemporaryDirectory() as work:
            by_text[text.name] = moses_comparisons.bleu(moses, language, text, Path(work))
        for way, printed in by_text[text.name].items():
            print(f"{'bleu':26}{text.name:24}{way:30}{printed}")
    split = f" | perl {SPLIT_COMPOUNDS[0]} '{SPLIT_COMPOUNDS[1]}'" if language == "de" else ""
    command = f"{TOKENIZER} -q -l {language}{split} | scripts/generic/multi-bleu.perl"
    return {"perl": command, "ours": "fairseq_aiayn/evaluation/bleu.py", "texts": by_text}


def measure(
    moses: Path, language: str, texts: Sequence[Path], pairs: Sequence[Sequence[Path]]
) -> dict[str, object]:
    """Make every comparison, print it and return all as JSON has it."""
    perl = subprocess.check_output(("perl", "-e", "print $^V"), text=True)
    packages = {name: version(name) for name in ("sacremoses", "sacrebleu")}
    names = ["--text", *(text.name for text in texts)]
    for pair in pairs:
        names += ["--pair", *(path.name for path in pair)]
    return {
        "language": language,
        "moses": commit(moses),
        "command": " ".join(
            ("python benchmarks/moses_agreement.py --moses DIR --language", language, *names)
        ),
        "versions": {"perl": perl, "python": platform.python_version(), **packages},
        "lines": {c.name: measure_lines(c, moses, texts) for c in comparisons(language)},
        "clean": measure_clean(moses, pairs),
        "bleu": measure_bleu(moses, language, texts),
    }


def commit(moses: Path) -> str:
    """Return the commit of a checkout and its date, or that there is none."""
    if not (moses / ".git").exists():
        return "no checkout"
    command = ("git", "-C", str(moses), "log", "-1", "--format=%H %cs")
    return subprocess.check_output(command, text=True).strip()


def add_result(path: Path, result: dict[str, object]) -> None:
    """Write a result among those that the file has, in the place of an earlier one like it."""
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    same = [all(old[key] == result[key] for key in ("language", "moses")) for old in results]
    results = [old for old, replaced in zip(results, same) if not replaced] + [result]
    results.sort(key=lambda entry: (entry["moses"].split()[-1], entry["language"]))
    part = path.with_name(f"{path.name}.part")
    part.write_text(f"{json.dumps(results, indent=2, ensure_ascii=False)}\n", encoding="utf-8")
    os.replace(part, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = {"type": lambda name: Path(name).absolute(), "metavar": "FILE"}
    parser.add_argument("--moses", type=Path, required=True, metavar="DIR")
    parser.add_argument("--language", required=True, metavar="LANG")
    parser.add_argument("--text", nargs="+", required=True, **path)
    parser.add_argument("--pair", nargs=2, action="append", default=[], **path)
    parser.add_argument("--json", type=Path, metavar="OUT")
    given = parser.parse_args()
    moses = given.moses.absolute()
    if not (moses / TOKENIZER).is_file():
        print(f"moses_agreement: {given.moses}: must have {TOKENIZER}, has not", file=sys.stderr)
        raise SystemExit(2)
    try:
        result = measure(moses, given.language, given.text, given.pair)
        if given.json:
            add_result(given.json, result)
    except (OSError, ValueError) as error:
        raise SystemExit(f"moses_agreement: {error}") from None


if __name__ == "__main__":
    main()
