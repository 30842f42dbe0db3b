"""`aiayn linearize` and `aiayn delinearize` on good and bad input."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.treebank.linearization import EITHER, TAG_OF
from fairseq_aiayn.treebank.repair import REPAIRS

Aiayn = Callable[..., tuple[int, str, str]]

TREES = """( (S (NP-SBJ (NP (DT The) (NN board))) (VP (VBD met)
      (NP-TMP (-NONE- *T*-1))) (. .) ))
(ROOT (NP (CD 10\u00a0000) (-RRB- -RRB-)))
"""
LINEARIZED = "(S (NP (NP DT NN )NP )NP (VP VBD )VP . )S\n(NP CD -RRB- )NP\n"
WORDS = "The board met .\n10\u00a0000 -RRB-\n"
NORMALIZED = (
    "(TOP (S (NP (NP (DT The) (NN board))) (VP (VBD met)) (. .)))\n"
    "(TOP (NP (CD 10\u00a0000) (-RRB- -RRB-)))\n"
)
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory to work in, with a small treebank and what becomes of it."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("a.mrg", TREES), ("a.tree", LINEARIZED), ("a.words", WORDS)):
        Path(name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_trees_become_sequences_and_these_trees(aiayn: Aiayn, end: str) -> None:
    for name in os.listdir():
        Path(name).write_bytes(Path(name).read_bytes().replace(b"\n", end.encode()))
    assert aiayn("linearize", "a.mrg", "--words", "w", "--trees", "t") == (0, LINEARIZED, "")
    assert (Path("w").read_text("utf-8"), Path("t").read_text("utf-8")) == (WORDS, NORMALIZED)
    assert aiayn("linearize", "t") == (0, LINEARIZED, "")
    status, printed, report = aiayn("delinearize", "a.tree", "--words", "a.words")
    assert (status, printed) == (0, NORMALIZED)
    assert report == "2 sentences, 2 well-formed (100.00%)\n"


def test_linearize_has_options_for_words_and_unary_brackets(aiayn: Aiayn) -> None:
    without_tags = "(S (NP (NP XX XX )NP )NP (VP XX )VP XX )S\n"
    assert aiayn("linearize", "a.mrg", "--tags", "XX")[1].startswith(without_tags)
    collapsed = "(S (NP DT NN )NP (VP VBD )VP . )S\n"
    assert aiayn("linearize", "a.mrg", "--collapse-unary")[1].startswith(collapsed)


def test_linearize_reads_standard_input_and_directories(
    aiayn: Aiayn, give: Callable[..., None]
) -> None:
    give(TREES)
    assert aiayn("linearize") == (0, LINEARIZED, "")
    give(TREES)
    assert aiayn("linearize", "a.mrg", "-", ".") == (0, LINEARIZED * 3, "")


def test_linearize_leaves_out_what_a_parser_failed_on(aiayn: Aiayn) -> None:
    lines = ["(TOP (NN a))", "(())", "", "(TOP (NN b)", "(S (-NONE- *))", "(TOP (NP (NN c)))"]
    Path("silver").write_text("".join(f"{line}\n" for line in lines))
    status, printed, errors = aiayn("linearize", "--skip", "silver", "--words", "w")
    assert (status, printed, Path("w").read_text()) == (0, "NN\n(NP NN )NP\n", "a\nc\n")
    *reasons, total = errors.splitlines()
    assert [reason.split(": ")[0] for reason in reasons] == [f"silver:{n}" for n in (2, 3, 4, 5)]
    assert total == "left out: 4 lines that are no tree"
    assert aiayn("linearize", "silver")[0] == 2


def test_delinearize_repairs_and_says_so(aiayn: Aiayn, give: Callable[..., None]) -> None:
    give("(S (NP XX XX )NP XX XX\n\n")  # the second sequence is empty
    status, printed, report = aiayn("delinearize", "--words", "a.words", "--report", "r.json")
    trees = "(TOP (S (NP (XX The) (XX board)) (XX met) (. .)))\n(TOP (XX 10\u00a0000) (XX -RRB-))\n"
    assert (status, printed) == (0, trees)
    assert report.startswith("2 sentences, 0 well-formed (0.00%)\nmissing words  ")
    content = json.loads(Path("r.json").read_text())
    assert (content["sentences"], list(content["repairs"])) == (2, list(REPAIRS))
    assert (content["repairs"]["missing words"], content["sentences_with"]["unclosed"]) == (2, 1)


def test_the_help_of_delinearize_names_every_mark(capsys: pytest.CaptureFixture[str]) -> None:
    """In ASCII, as not every terminal prints more; this breaks if one is added or taken away."""
    with pytest.raises(SystemExit):
        main(["delinearize", "--help"])
    printed = capsys.readouterr().out
    named = re.search(r"the marks (.*?) gets", printed)
    assert printed.isascii() and named
    of_unicode = {"…", "•", "“", "”", "‘", "––"}
    assert {*named[1].split(), *of_unicode} == TAG_OF.keys() - EITHER
    assert {"--", "–", "—"} == TAG_OF.keys() & EITHER


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("linearize bad --words w --trees t", "bad:2: the tree is not closed"),
        ("linearize traces --trees t", "traces: tree 1: a tree must have a word"),
        ("linearize empty", "empty: expected a tree"),
        ("linearize a.mrg absent", "absent: No such file or directory"),
        ("linearize . --words a.mrg", "--words a.mrg: is also an input"),
        ("linearize a.mrg --words w --trees ./w", "--words and --trees: "),
        ("linearize bad.gz", "bad.gz:1: "),
        ("delinearize a.tree --words bad --report r", "bad:1: a word must have no white space"),
        ("delinearize a.tree --words empty --report r", "empty: expected as many lines"),
        ("delinearize empty --words empty", "empty: "),
        ("delinearize --words -", "expected at most one of two files from standard input"),
        ("delinearize a.tree --words a.words --report absent/r", "absent"),
        ("delinearize a.tree --words a.words --report a.words", "a.words: is also an input"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_file(aiayn: Aiayn, command: str, message: str) -> None:
    Path("bad").write_text("(S (A b))\n(S (A b)\n")
    Path("traces").write_text("(S (-NONE- *))\n")
    Path("empty").touch()
    Path("bad.gz").write_text("(S (A b))\n")
    before = {name: Path(name).read_bytes() for name in os.listdir()}
    status, _, errors = aiayn(*command.split())
    assert status == 2 and errors.count("\n") == 1
    assert message in errors.partition(": ")[2]
    assert {name: Path(name).read_bytes() for name in os.listdir()} == before


@FULL
@pytest.mark.parametrize(
    "command",
    ["linearize a.mrg --words w --trees t", "delinearize a.tree --words a.words --report r"],
)
def test_no_file_is_written_beside_an_output_that_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(command.split()) == 2
    assert "No space left on device\n" in capsys.readouterr().err
    assert sorted(os.listdir()) == ["a.mrg", "a.tree", "a.words"]


@FULL
def test_linearize_writes_both_files_or_none(aiayn: Aiayn) -> None:
    status, _, errors = aiayn("linearize", "a.mrg", "--words", "/dev/full", "--trees", "t")
    assert (status, errors) == (2, "aiayn linearize: No space left on device\n")
    assert not Path("t").exists()
