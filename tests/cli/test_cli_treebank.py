"""`aiayn linearize` and `aiayn delinearize` on good and bad input."""

from __future__ import annotations

import gzip
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
LINEARISED = ["(S (NP (NP DT NN )NP )NP (VP VBD )VP . )S", "(NP CD -RRB- )NP"]
WORDS = ["The board met .", "10\u00a0000 -RRB-"]
NORMALIZED = [
    "(TOP (S (NP (NP (DT The) (NN board))) (VP (VBD met)) (. .)))",
    "(TOP (NP (CD 10\u00a0000) (-RRB- -RRB-)))",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to work in, with a small treebank and what becomes of it."""
    monkeypatch.chdir(tmp_path)
    Path("a.mrg").write_text(TREES, encoding="utf-8")
    Path("a.tree").write_text("".join(f"{line}\n" for line in LINEARISED), encoding="utf-8")
    Path("a.words").write_text("".join(f"{line}\n" for line in WORDS), encoding="utf-8")
    return tmp_path


def lines(text: str) -> list[str]:
    """The lines of an output, each of which must have ended."""
    assert not text or text.endswith("\n")
    return text.split("\n")[:-1]


def test_linearize_writes_words_and_trees_line_for_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["linearize", "a.mrg", "--words", "w", "--trees", "t"]) == 0
    assert lines(capsys.readouterr().out) == LINEARISED
    assert lines(Path("w").read_text(encoding="utf-8")) == WORDS
    assert lines(Path("t").read_text(encoding="utf-8")) == NORMALIZED


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (["--tags", "pos"], LINEARISED[0]),
        (["--tags", "XX"], "(S (NP (NP XX XX )NP )NP (VP XX )VP XX )S"),
        (["--collapse-unary"], "(S (NP DT NN )NP (VP VBD )VP . )S"),
    ],
)
def test_linearize_has_options_for_words_and_unary_brackets(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], first: str
) -> None:
    assert main(["linearize", "a.mrg", *options]) == 0
    assert lines(capsys.readouterr().out)[0] == first


def test_linearize_reads_standard_input_files_and_directories(
    folder: Path, capsys: pytest.CaptureFixture[str], give: Callable[..., None]
) -> None:
    Path("wsj/02").mkdir(parents=True)
    Path("wsj/02/b.mrg.gz").write_bytes(gzip.compress(TREES.encode()))
    give(TREES)
    assert main(["linearize"]) == 0
    assert lines(capsys.readouterr().out) == LINEARISED
    give(TREES)
    assert main(["linearize", "a.mrg", "-", "wsj"]) == 0
    assert lines(capsys.readouterr().out) == LINEARISED * 3


def test_normalized_trees_linearise_to_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["linearize", "a.mrg", "--trees", "t"])
    capsys.readouterr()
    assert main(["linearize", "t", "--trees", "again"]) == 0
    assert lines(capsys.readouterr().out) == LINEARISED
    assert Path("again").read_bytes() == Path("t").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.mrg: must have a tree, has none"),
        ("(S (A b))\n(S (A b)", "a.mrg:2: the tree is not closed at the end"),
        (
            "(S (A b))\n(S (-NONE- *))",
            "a.mrg: tree 2: a tree must have a word besides traces, has none: (S (-NONE- *))",
        ),
        (
            "(S (A b))\n(S (<unk> b))",
            "a.mrg: tree 2: a tag must not look like fairseq's own symbols, got <unk>",
        ),
    ],
)
def test_linearize_refuses_bad_trees_and_leaves_no_half_of_a_file(
    folder: Path, aiayn: Aiayn, content: str, message: str
) -> None:
    Path("a.mrg").write_text(content)
    status, _, said = aiayn("linearize", "a.mrg", "--words", "w", "--trees", "t")
    assert (status, said) == (2, f"aiayn linearize: {message}\n")
    assert sorted(os.listdir()) == ["a.mrg", "a.tree", "a.words"]


def test_linearize_does_not_write_words_and_trees_to_one_file(
    folder: Path, refused: Callable[..., str]
) -> None:
    before = Path("a.words").read_bytes()
    line = refused("linearize", "a.mrg", "--words", "a.words", "--trees", folder / "a.words")
    message = f"--words and --trees must be two files, both are {folder}/a.words"
    assert line == f"aiayn linearize: {message}"
    assert Path("a.words").read_bytes() == before


def test_linearize_names_a_missing_file(folder: Path, aiayn: Aiayn) -> None:
    status, _, said = aiayn("linearize", "a.mrg", "absent")
    assert (status, said) == (2, "aiayn linearize: absent: No such file or directory\n")


def test_delinearize_gives_the_trees_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["delinearize", "a.tree", "--words", "a.words"]) == 0
    printed = capsys.readouterr()
    assert lines(printed.out) == NORMALIZED
    assert printed.err == "2 sentences, 2 well-formed (100.00%)\n"
    assert sorted(os.listdir()) == ["a.mrg", "a.tree", "a.words"]


def test_delinearize_repairs_and_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str], give: Callable[..., None]
) -> None:
    give("(S (NP XX XX )NP XX XX\n\n")  # the second sequence is empty
    assert main(["delinearize", "--words", "a.words", "--report", "r.json"]) == 0
    printed = capsys.readouterr()
    assert lines(printed.out) == [
        "(TOP (S (NP (XX The) (XX board)) (XX met) (. .)))",
        "(TOP (XX 10\u00a0000) (XX -RRB-))",
    ]
    assert lines(printed.err) == [
        "2 sentences, 0 well-formed (0.00%)",
        "missing words              2 in 1 sentences",
        "unclosed                   1 in 1 sentences",
    ]
    none = dict.fromkeys(REPAIRS, 0)
    assert json.loads(Path("r.json").read_text()) == {
        "sentences": 2,
        "well_formed": 0,
        "repairs": {**none, "missing words": 2, "unclosed": 1},
        "sentences_with": {**none, "missing words": 1, "unclosed": 1},
    }


@pytest.mark.parametrize(
    ("tagged", "printed", "counted"),
    [
        ("(NN ?)", "(. ?)", 1),
        ("(: ,)", "(: ,)", 0),
        ("(HYPH ––)", "(: ––)", 1),
        ("(, board)", "(XX board)", 1),
        ("('' 's)", "(XX 's)", 1),
        ("(. $)", "(XX $)", 1),  # no mark that a treebank deletes
        ("(NN board)", "(NN board)", 0),
        ("(XX ?)", "(. ?)", 0),
        ("(XX —)", "(: —)", 0),
        ("(XX board)", "(XX board)", 0),
        ("(XX ')", "(XX ')", 0),
        ("(HYPH —)", "(HYPH —)", 0),
        ("(: -)", "(: -)", 0),
        ("('' ’)", "('' ’)", 0),
    ],
)
def test_delinearize_changes_the_tags_of_well_formed_sequences_that_its_help_names(
    folder: Path, capsys: pytest.CaptureFixture[str], tagged: str, printed: str, counted: int
) -> None:
    tag, form = tagged[1:-1].split(" ")
    Path("a.tree").write_text(f"(S (NP DT {tag} )NP VBD )S\n")
    Path("a.words").write_text(f"the {form} met\n", encoding="utf-8")
    assert main(["delinearize", "a.tree", "--words", "a.words", "--report", "r.json"]) == 0
    assert capsys.readouterr().out == f"(TOP (S (NP (DT the) {printed}) (VBD met)))\n"
    report = json.loads(Path("r.json").read_text())
    assert (report["well_formed"], report["repairs"]["punctuation tags"]) == (1, counted)


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
    ("name", "content", "message"),
    [
        ("a.words", "The board met .\n", "line counts differ: a.tree has 2, a.words has 1"),
        ("a.tree", "XX\nXX\nXX\nXX\n", "line counts differ: a.tree has 4, a.words has 2"),
        ("a.tree", "", "line counts differ: a.tree has 0, a.words has 2"),
        (
            "a.words",
            "The board met .\n\n",
            "a.words:2: a tree must have at least one word, got none",
        ),
        (
            "a.words",
            "The (board met\n10\n",
            "a.words:1: a word must have no white space, '(' or ')' in it, got '(board'",
        ),
        ("a.words", b"The\nf\xfcr\n", "a.words:2: byte 2 (0xfc) is not UTF-8"),
    ],
)
def test_delinearize_refuses_what_does_not_belong_together(
    folder: Path, aiayn: Aiayn, name: str, content: str | bytes, message: str
) -> None:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    status, _, said = aiayn("delinearize", "a.tree", "--words", "a.words", "--report", "r.json")
    assert (status, said) == (2, f"aiayn delinearize: {message}\n")
    assert not Path("r.json").exists()


def test_delinearize_refuses_empty_input(folder: Path, refused: Callable[..., str]) -> None:
    Path("empty").touch()
    line = refused("delinearize", "empty", "--words", "empty")
    assert line == "aiayn delinearize: empty: must have a sequence, has none"


def test_delinearize_reads_standard_input_once(folder: Path, refused: Callable[..., str]) -> None:
    line = refused("delinearize", "--words", "-")
    assert line == "aiayn delinearize: LINEARISED and --words must not both be standard input"


def test_linearize_leaves_out_what_a_parser_failed_on_and_counts_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silver = tmp_path / "silver.trees"
    lines = ["(TOP (NN a))", "(())", "", "(TOP (NN b)", "(S (-NONE- *))", "(TOP (NP (NN c)))"]
    silver.write_text("".join(f"{line}\n" for line in lines))
    words = tmp_path / "words"
    assert main(["linearize", "--skip", str(silver), "--words", str(words)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "NN\n(NP NN )NP\n"
    assert words.read_text() == "a\nc\n"
    *reasons, total = printed.err.splitlines()
    assert [reason.split(": ")[0] for reason in reasons] == [f"{silver}:{n}" for n in (2, 3, 4, 5)]
    assert total == "left out: 4 lines that are no tree"
    assert main(["linearize", str(silver)]) == 2, "without --skip it ends"


@pytest.mark.parametrize(
    "command",
    [
        ["linearize", ""],
        ["linearize", "--skip", ""],
        ["delinearize", "", "--words", "a.words"],
        ["delinearize", "a.tree", "--words", ""],
        ["evalb", "", "a.mrg"],
        ["evalb", "a.mrg", ""],
    ],
)
def test_an_empty_name_is_no_file_and_not_the_directory(
    folder: Path, refused: Callable[..., str], command: list[str]
) -> None:
    """As of a shell's variable without a value: linearize "$TREES" must not read what lies here."""
    assert refused(*command).startswith(f"aiayn {command[0]}: ")


def test_linearize_does_not_replace_a_file_of_the_directory_that_it_reads(
    folder: Path, refused: Callable[..., str]
) -> None:
    before = Path("a.mrg").read_bytes()
    for option in ("--words", "--trees"):
        message = f"aiayn linearize: {option} a.mrg: is also an input, and would be replaced"
        assert refused("linearize", ".", option, "a.mrg") == message
    assert Path("a.mrg").read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "command",
    [
        ["linearize", "a.mrg", "--words", "w", "--trees", "t"],
        ["delinearize", "a.tree", "--words", "a.words", "--report", "r.json"],
    ],
)
def test_no_file_is_written_beside_an_output_that_failed(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(command) == 2
    assert f"aiayn {command[0]}: No space left on device\n" in capsys.readouterr().err
    assert sorted(os.listdir()) == ["a.mrg", "a.tree", "a.words"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_linearize_writes_both_files_or_none(folder: Path, aiayn: Aiayn) -> None:
    status, _, said = aiayn("linearize", "a.mrg", "--words", "/dev/full", "--trees", "t")
    assert (status, said) == (2, "aiayn linearize: No space left on device\n")
    assert not Path("t").exists()


def test_delinearize_says_at_once_that_the_report_cannot_be_written(
    folder: Path, refused: Callable[..., str]
) -> None:
    for name in ("absent/r.json", "."):
        line = refused("delinearize", "a.tree", "--words", "a.words", "--report", name)
        assert line.startswith("aiayn delinearize: ")


@pytest.mark.parametrize("command", ["linearize", "delinearize", "evalb"])
@pytest.mark.parametrize("damage", ["cut short", "not gzip", "changed"])
def test_broken_gzip_is_named(folder: Path, aiayn: Aiayn, command: str, damage: str) -> None:
    text = {"linearize": TREES, "delinearize": "XX\n" * 2, "evalb": "(A (B c))\n" * 2}[command]
    packed = bytearray(gzip.compress(text.encode(), mtime=0))
    packed[-6] ^= damage == "changed"  # a byte of the checksum
    Path("a.gz").write_bytes({"cut short": packed[:-9], "not gzip": b"(A b)"}.get(damage, packed))
    more = {"linearize": [], "delinearize": ["--words", "a.words"], "evalb": ["a.gz"]}[command]
    message = rf"aiayn {command}: a\.gz:\d+: cut short or not gzip\n"
    status, _, said = aiayn(command, "a.gz", *more)
    assert status == 2 and re.fullmatch(message, said)


def test_depth_has_no_end_but_the_rule(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    depth = 100_000
    Path("deep").write_text("(S " * depth + "(NN a)" + ")" * depth + "\n")
    Path("deep.tree").write_text("(S " * depth + "NN" + " )S" * depth + "\n")
    Path("deep.words").write_text("a\n")
    assert main(["linearize", "deep"]) == 2
    assert capsys.readouterr().err == "aiayn linearize: deep:1: deeper than 400 brackets\n"
    assert main(["evalb", "deep", "deep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["all"]["matched_constituents"] == depth
    assert main(["delinearize", "deep.tree", "--words", "deep.words"]) == 0
    assert "too deep              99,602 in 1 sentences" in capsys.readouterr().err


def test_line_ends_of_windows_are_white_space(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.mrg", "a.tree", "a.words"):
        Path(name).write_bytes(Path(name).read_bytes().replace(b"\n", b"\r\n"))
    assert main(["linearize", "a.mrg"]) == 0
    assert lines(capsys.readouterr().out) == LINEARISED
    assert main(["delinearize", "a.tree", "--words", "a.words"]) == 0
    assert lines(capsys.readouterr().out) == NORMALIZED
