"""`aiayn evalb` on good and bad input."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.treebank.evalb import Summary

TREE = "(TOP (S (NP (NN rain)) (VP (VBD fell)) (. .)))\n"
WRONG = TREE.replace("VP", "PP")
GOLD, PREDICTED = TREE * 3, TREE + WRONG + "\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Three gold trees, and predictions: right, one label wrong, none."""
    gold, predicted = tmp_path / "gold.trees", tmp_path / "predicted.trees"
    gold.write_text(GOLD)
    predicted.write_text(PREDICTED)
    return gold, predicted


def run(gold: Path | str, predicted: Path | str, *options: str) -> int:
    return main(["evalb", str(gold), str(predicted), *options])


def test_command_prints_both_summaries(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*files) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(
        "=== Summary ===\n\n-- All --\nNumber of sentence        =      3\n"
    )
    assert printed.out.count("Bracketing FMeasure       =  83.33\n") == 2
    assert printed.out.endswith("Tagging accuracy          = 100.00\n")
    assert printed.err == f"{files[1]}:3: skipped: no words to score\n"


def test_command_prints_a_line_a_sentence(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run(*files)
    summary = capsys.readouterr().out
    assert run(*files, "--per-sentence") == 0
    table = capsys.readouterr().out.removesuffix(summary)
    assert table == (
        "  Sent.                        Matched  Bracket   Cross        Correct Tag\n"
        " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy\n"
        "============================================================================\n"
        "   1    3    0  100.00 100.00     3      3    3      0      2     2   100.00\n"
        "   2    3    0   66.67  66.67     2      3    3      0      2     2   100.00\n"
        "   3    3    2    0.00   0.00     0      0    0      0      0     0     0.00\n"
        "============================================================================\n"
        "                 83.33  83.33      5     6     6      0      4     4   100.00\n"
    )


def test_command_prints_json(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*files, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["all", "short", "cutoff", "parameters", "labels"]
    assert set(printed["all"]) == set(printed["short"]) == set(Summary.__dataclass_fields__)
    assert printed["all"]["f1"] == pytest.approx(500 / 6)
    assert (printed["cutoff"], printed["parameters"]) == (40, "COLLINS")
    assert printed["labels"] == {
        "NP": {"gold": 2, "predicted": 2, "matched": 2},
        "PP": {"gold": 0, "predicted": 1, "matched": 0},
        "S": {"gold": 2, "predicted": 2, "matched": 2},
        "VP": {"gold": 2, "predicted": 1, "matched": 1},
    }


def test_command_takes_parameters(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parameters = tmp_path / "no_rules.prm"
    parameters.write_text("CUTOFF_LEN 2\n")
    assert run(*files, "--json", "--parameters", str(parameters)) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["cutoff"], printed["parameters"]) == (2, "no_rules.prm")
    assert (printed["all"]["words"], printed["short"]["sentences"]) == (6, 0)
    assert printed["labels"]["TOP"] == {"gold": 2, "predicted": 2, "matched": 2}


def test_command_reads_gzip_and_standard_input(
    files: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    give: Callable[..., None],
) -> None:
    run(*files)
    expected = capsys.readouterr()
    packed = files[0].with_suffix(".gz")
    packed.write_bytes(gzip.compress(GOLD.encode()))
    give(PREDICTED)
    assert run(packed, "-") == 0
    printed = capsys.readouterr()
    assert printed.out == expected.out
    assert printed.err == "standard input:3: skipped: no words to score\n"


def test_only_line_feeds_end_a_line_and_a_byte_order_mark_is_dropped(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for path in files:
        path.write_bytes(b"\xef\xbb\xbf" + TREE.replace("rain", "r\u2028\u00a0n").encode()[:-1])
    assert run(*files, "--json") == 0
    summary = json.loads(capsys.readouterr().out)["all"]
    assert (summary["sentences"], summary["f1"]) == (1, 100.0)


def test_command_lists_the_first_ten_that_do_not_count(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    files[0].write_text(TREE * 1500)
    files[1].write_text(TREE + TREE.replace("rain", "snow") * 1499)
    assert run(*files) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[0] == f"{files[1]}:2: error: the word 'snow' where gold has 'rain'"
    assert lines[10] == f"{files[1]}: 1,499 sentences do not count"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gold.trees", b"", "{folder}/gold.trees: empty, must have one tree per line"),
        ("predicted.trees", b"", "{folder}/predicted.trees: empty, must have one tree per line"),
        (
            "predicted.trees",
            TREE.encode() * 2,
            "{folder}/predicted.trees: must have the 3 lines of {folder}/gold.trees, has 2",
        ),
        (
            "predicted.trees",
            TREE.encode() * 5000,
            "{folder}/predicted.trees: must have the 3 lines of {folder}/gold.trees, has 5,000",
        ),
        (
            "predicted.trees",
            TREE.encode() * 2 + b"(S it rains)\n",
            "{folder}/predicted.trees:3: 'it' must be in brackets of its own, (TAG word)",
        ),
        (
            "gold.trees",
            TREE.encode() + TREE.encode("utf-16"),
            "{folder}/gold.trees:2: byte 1 (0xff) is not UTF-8",
        ),
    ],
)
def test_command_refuses_bad_text_in_one_line(
    files: tuple[Path, Path], refused: Callable[..., str], name: str, content: bytes, message: str
) -> None:
    folder = files[0].parent
    (folder / name).write_bytes(content)
    assert refused("evalb", *files) == f"aiayn evalb: {message.format(folder=folder)}"


def test_command_refuses_two_empty_files(
    files: tuple[Path, Path], refused: Callable[..., str]
) -> None:
    for path in files:
        path.write_text("")
    message = f"aiayn evalb: {files[0]}: empty, must have one tree per line"
    assert refused("evalb", *files) == message


def test_command_names_a_missing_file(
    files: tuple[Path, Path], refused: Callable[..., str]
) -> None:
    files[1].unlink()
    message = f"aiayn evalb: {files[1]}: No such file or directory"
    assert refused("evalb", *files, "--per-sentence") == message


def test_command_cannot_read_both_from_standard_input(refused: Callable[..., str]) -> None:
    message = "gold and predicted trees must not both come from standard input"
    assert refused("evalb", "-", "-") == f"aiayn evalb: {message}"


def test_json_has_every_sentence_if_asked(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*files, "--json") == 0
    without = capsys.readouterr()
    assert run(*files, "--json", "--per-sentence") == 0
    printed = capsys.readouterr()
    content = json.loads(printed.out)
    sentences = content.pop("sentences")
    assert content == json.loads(without.out)
    assert printed.err == without.err
    right = {
        "number": 1,
        "status": "valid",
        "length": 3,
        "recall": 100.0,
        "precision": 100.0,
        "matched": 3,
        "gold": 3,
        "predicted": 3,
        "crossing": 0,
        "words": 2,
        "correct_tags": 2,
        "tagging_accuracy": 100.0,
    }
    wrong = {"number": 2, "recall": 200 / 3, "precision": 200 / 3, "matched": 2}
    figures = [name for name in right if name not in ("number", "status", "length")]
    skipped = {"number": 3, "status": "skipped", **dict.fromkeys(figures, 0)}
    assert sentences[0] == right
    assert sentences[1] == pytest.approx({**right, **wrong})
    assert sentences[2] == {**right, **skipped, "reason": "no words to score"}


def test_json_says_what_is_an_error_and_has_the_figures_of_the_table(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence whose brackets do not balance has figures, which count nowhere."""
    files[1].write_text(TREE.replace("rain", "snow") + TREE.replace(")))", "))") + WRONG)
    assert run(*files, "--json", "--per-sentence") == 0
    content = json.loads(capsys.readouterr().out)
    other, unbalanced, valid = content["sentences"]
    assert (other["status"], other["words"]) == ("error", 0)
    assert other["reason"] == "the word 'snow' where gold has 'rain'"
    assert unbalanced["status"] == "error"
    assert unbalanced["reason"] == "brackets that this line does not close: 1"
    assert (unbalanced["words"], unbalanced["gold"]) == (2, 3)
    assert "reason" not in valid
    assert content["all"]["words"] == valid["words"] == 2


def test_json_of_a_failure_is_not_begun(
    files: tuple[Path, Path], refused: Callable[..., str]
) -> None:
    files[1].write_text(TREE * 2 + "(S it rains)\n")
    refused("evalb", *files, "--json", "--per-sentence")


def test_an_empty_root_beside_top_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A perfect parse would score less than 100, and nobody would know why."""
    gold, predicted = tmp_path / "gold.trees", tmp_path / "predicted.trees"
    gold.write_text(TREE.replace("(TOP", "(") * 2)
    predicted.write_text(TREE * 2)
    assert run(gold, predicted) == 0
    printed = capsys.readouterr()
    assert "Bracketing FMeasure       =  85.71" in printed.out
    assert "count: gold has 2, the prediction 0; write TOP in both" in printed.err
    assert run(gold, gold) == 0
    assert "warning" not in capsys.readouterr().err


def test_trees_over_several_lines_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What happens to be a whole tree on one line would be all that is scored."""
    path = tmp_path / "treebank.mrg"
    path.write_text(TREE + TREE.replace(" (VP", "\n (VP") * 2)
    assert run(path, path) == 0
    assert "warning: 4 lines are no whole tree" in capsys.readouterr().err


def test_a_word_about_brackets_is_none(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """That two trees have other words is no reason to say that a line is no whole tree."""
    files[1].write_text(TREE.replace("rain", "brackets") * 3)
    assert run(*files) == 0
    assert "warning" not in capsys.readouterr().err


def test_errors_can_end_it_as_in_evalb(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    files[1].write_text(TREE.replace("rain", "snow") * 3)
    assert run(*files) == 0
    capsys.readouterr()
    assert run(*files, "-e", "2") == 2
    assert "predicted.trees:2: error number 2, as --max-errors allows" in capsys.readouterr().err
    assert run(*files, "-e", "0") == 2
    assert "from 1 to 1,000,000,000, got 0\n" in capsys.readouterr().err


def test_evalbs_parameters_have_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1 is a root to new.prm alone; a file of that name wins."""
    path = tmp_path / "s1.trees"
    path.write_text(TREE.replace("TOP", "S1"))
    counted = {}
    for name in ("COLLINS", "COLLINS.prm", "new", "new.prm"):
        assert run(path, path, "-p", name, "--json") == 0
        counted[name] = json.loads(capsys.readouterr().out)["all"]["gold_constituents"]
    assert counted == {"COLLINS": 4, "COLLINS.prm": 4, "new": 3, "new.prm": 3}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").write_text("DELETE_LABEL VP\n")
    assert run(path, path, "--parameters", "new", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["parameters"], "VP" in found["labels"]) == ("new", False)
