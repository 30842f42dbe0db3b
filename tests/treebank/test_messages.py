"""Messages of the treebank package quote at most about one terminal line of a user's text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faults import fault_of

from fairseq_aiayn.treebank.evalb import score_sentence
from fairseq_aiayn.treebank.linearization import MAX_OPEN, delinearize, normalize
from fairseq_aiayn.treebank.repair import repair
from fairseq_aiayn.treebank.trees import parse_trees

LONG = "x" * 10_000
NUL = "\0" * 10_000  # four times as long when written as '\x00'
TREE = "(TOP (S (NN rain)))"
LONGEST = 200  # characters


def require_short(message: str, begins: str) -> None:
    """Fail if a message is long, or if it is not the expected one."""
    assert len(message) < LONGEST
    assert message.startswith(begins)


@pytest.mark.parametrize("text", [LONG, NUL])
@pytest.mark.parametrize("gold", [True, False])
def test_text_outside_of_a_word_is_quoted_short(gold: bool, text: str) -> None:
    bad = f"(TOP (S (NN rain) {text}))"
    message = fault_of(score_sentence, *((bad, TREE) if gold else (TREE, bad)))
    require_short(message, f"{'gold' if gold else 'predicted'} tree: '")


@pytest.mark.parametrize("text", [LONG, NUL])
def test_other_words_than_golds_are_quoted_short(text: str) -> None:
    gold = TREE.replace("rain", f"{text}s")
    require_short(score_sentence(gold, TREE.replace("rain", text)).reason, "the word '")


@pytest.mark.parametrize(
    ("tokens", "begins"),
    [
        ([f"<{LONG}>"], "symbol 1: must be a bracket"),
        (["NN", LONG], "symbol 2: must be for one of 1 words"),
        (["(S"] * MAX_OPEN + [f"({LONG}"], f"symbol {MAX_OPEN + 1}: (xxx"),
        ([f"){LONG}"], "symbol 1: )xxx"),
        ([f"({LONG}", "NN", f"){LONG}s"], "symbol 3: must close xxx"),
        ([f"({LONG}", f"){LONG}"], "symbol 2: )xxx"),
        ([f"({LONG}", "NN"], "(xxx"),
    ],
)
def test_bad_symbols_of_a_sequence_are_quoted_short(tokens: list[str], begins: str) -> None:
    require_short(fault_of(delinearize, tokens, ["rain"]), begins)


@pytest.mark.parametrize("word", [f"{LONG}(", f"{NUL})"])
def test_words_that_cannot_stand_in_a_tree_are_quoted_short(word: str) -> None:
    for make in (delinearize, repair):
        require_short(fault_of(make, ["NN"], [word]), "a word must have no white space")


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (f"({LONG} {LONG})", "a.mrg:1: a word without a constituent"),
        (f"{LONG}", "a.mrg:1: text outside of brackets"),
        (f"(S ({LONG}))", "a.mrg:1: an empty bracket"),
        (f"(S ({LONG} (A b) c))", "a.mrg:1: a word and brackets"),
        (f"(S (A {LONG} (B c)))", "a.mrg:1: a word and brackets"),
        (f"(S (A {LONG} {LONG}))", "a.mrg:1: several words"),
        (f"(S (A {LONG}) (B", "a.mrg:1: the tree is not closed"),
        (f"({LONG} (-NONE- *))", "a tree must have a word besides traces"),
        (f"(S (<{LONG}> b))", "a tag must not look like"),
    ],
)
def test_bad_trees_are_quoted_short(text: str, begins: str) -> None:
    normalized = map(normalize, parse_trees([text.encode()], "a.mrg"))
    require_short(fault_of(list, normalized), begins)


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        (LONG, "unknown keyword 'xxx"),
        (f"DELETE_LABEL {LONG} {LONG}", "DELETE_LABEL takes 1 value"),
        (f"CUTOFF_LEN {LONG}", "CUTOFF_LEN takes a whole number"),
        (f"CUTOFF_LEN {'9' * 4_000}", "CUTOFF_LEN takes a whole number of at most 9 digits"),
        (f"LABELED {'9' * 10_000}", "LABELED takes a whole number of at most 9 digits"),
    ],
)
def test_bad_parameters_are_quoted_short(
    tmp_path: Path,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    begins: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.prm").write_text(f"{line}\n")
    Path("trees").write_text(f"{TREE}\n")
    message = refused("evalb", "trees", "trees", "-p", "rules.prm")
    require_short(message, f"aiayn evalb: rules.prm:1: {begins}")


@pytest.mark.parametrize("number", ["9" * 4_000, "9" * 10_000, f"-{'9' * 4_000}", LONG, ""])
def test_a_bad_number_of_errors_is_quoted_short(
    tmp_path: Path, refused: Callable[..., str], number: str
) -> None:
    (trees := tmp_path / "trees").write_text(f"{TREE}\n")
    message = refused("evalb", trees, trees, f"--max-errors={number}")
    require_short(message, "aiayn evalb: --max-errors must be a whole number")


def test_many_files_without_a_tree(
    tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.mrg").touch()
    message = refused("linearize", *["empty.mrg"] * 2_000)
    assert message == "aiayn linearize: empty.mrg and 1,999 more: must have a tree, has none"
