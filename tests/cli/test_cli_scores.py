"""`aiayn bleu`, `linearize`, `delinearize` and `evalb` on good and bad input."""

import gzip
import json
import math
import os
import subprocess
from pathlib import Path

import pytest

from fairseq_aiayn.treebank.repair import REPAIRS

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
TREE = "(TOP (S (NP (NN rain)) (VP (VBD fell)) (. .)))\n"
GOLD, PREDICTED = TREE * 3, TREE + TREE.replace("VP", "PP") + "\n"  # one label is wrong, no tree
SKIPPED = "p:3: skipped: no words to score\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"hyp": "Das ist ein Haus.\n\n", "ref": "Das ist ein Haus.\nNein.\n"}
    files |= {"hyp.tok": "a-b c,d e f\n\n", "ref.tok": "a-b c,d e g f\n\n"}
    files |= {"a.mrg": TREES, "a.tree": LINEARIZED, "a.words": WORDS, "g": GOLD, "p": PREDICTED}
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_trees_become_sequences_and_these_trees(aiayn, end):
    for name in os.listdir():
        Path(name).write_bytes(Path(name).read_bytes().replace(b"\n", end.encode()))
    assert aiayn("linearize", "a.mrg", "--words", "w", "--trees", "t") == (0, LINEARIZED, "")
    assert (Path("w").read_text("utf-8"), Path("t").read_text("utf-8")) == (WORDS, NORMALIZED)
    assert aiayn("linearize", "t") == (0, LINEARIZED, "")
    report = "2 sentences, 2 well-formed (100.00%)\n"
    assert aiayn("delinearize", "a.tree", "--words", "a.words") == (0, NORMALIZED, report)


def test_linearize_has_options_and_reads_standard_input_and_directories(aiayn, give):
    without_tags = "(S (NP (NP XX XX )NP )NP (VP XX )VP XX )S\n"
    assert aiayn("linearize", "a.mrg", "--tags", "XX")[1].startswith(without_tags)
    collapsed = "(S (NP DT NN )NP (VP VBD )VP . )S\n"
    assert aiayn("linearize", "a.mrg", "--collapse-unary")[1].startswith(collapsed)
    give(TREES)
    assert aiayn("linearize", "a.mrg", "-", ".") == (0, LINEARIZED * 3, "")


def test_linearize_leaves_out_what_a_parser_failed_on(aiayn):
    lines = ["(TOP (NN a))", "(())", "", "(TOP (NN b)", "(S (-NONE- *))", "(TOP (NP (NN c)))"]
    Path("silver").write_text("".join(f"{line}\n" for line in lines))
    status, printed, errors = aiayn("linearize", "--skip", "silver", "--words", "w")
    assert (status, printed, Path("w").read_text()) == (0, "NN\n(NP NN )NP\n", "a\nc\n")
    *reasons, total = errors.splitlines()
    assert [reason.split(": ")[0] for reason in reasons] == [f"silver:{n}" for n in (2, 3, 4, 5)]
    assert total == "left out: 4 lines that are no tree"
    assert aiayn("linearize", "silver")[0] == 2


def test_an_output_beside_the_trees_is_not_read(aiayn):
    """While it is written, it is a file in a folder of the directory; words alone are no tree."""
    Path("a.mrg").rename("!.mrg").write_text(TREES * 1000)  # read first, so that words are there
    assert aiayn("linearize", ".", "--words", "all.mrg") == (0, LINEARIZED * 1000, "")


def test_delinearize_repairs_and_says_so(aiayn, give):
    give("(S (NP XX XX )NP XX XX\n\n")  # the second sequence is empty
    status, printed, report = aiayn("delinearize", "--words", "a.words", "--report", "r.json")
    trees = "(TOP (S (NP (XX The) (XX board)) (XX met) (. .)))\n(TOP (XX 10\u00a0000) (XX -RRB-))\n"
    assert (status, printed) == (0, trees)
    assert report.startswith("2 sentences, 0 well-formed (0.00%)\nmissing words  ")
    content = json.loads(Path("r.json").read_text())
    assert (content["sentences"], list(content["repairs"])) == (2, list(REPAIRS))


def test_evalb_reads_gzip_and_standard_input_and_prints_the_table_before_the_summary(aiayn, give):
    status, summary, errors = aiayn("evalb", "g", "p")
    assert (status, errors) == (0, SKIPPED)
    assert summary.count("Bracketing FMeasure       =  83.33\n") == 2
    Path("g.gz").write_bytes(gzip.compress(GOLD.encode()))
    give(PREDICTED)
    errors = SKIPPED.replace("p:", "standard input:")
    assert aiayn("evalb", "g.gz", "-") == (0, summary, errors)
    printed = aiayn("evalb", "g", "p", "--per-sentence")[1]
    lines = printed.removesuffix(summary).splitlines()
    assert [line.split()[2] for line in lines[-5:-2]] == ["0", "0", "2"]  # each one's status
    assert lines[-1].split()[:2] == ["83.33", "83.33"]


def test_evalbs_json_has_the_figures_of_the_table(aiayn):
    Path("p").write_text(PREDICTED[:-1] + TREE.replace(")))", "))"))
    content = json.loads(aiayn("evalb", "g", "p", "--json", "--per-sentence")[1])
    right, wrong, unbalanced = content.pop("sentences")
    assert content == json.loads(aiayn("evalb", "g", "p", "--json")[1])
    assert list(content) == ["all", "short", "cutoff", "parameters", "labels"]
    assert (content["all"]["f1"], content["parameters"]) == (pytest.approx(500 / 6), "COLLINS")
    assert content["labels"]["VP"] == {"gold": 2, "predicted": 1, "matched": 1}
    assert right == (
        {"number": 1, "status": "valid", "crossing": 0, "words": 2, "correct_tags": 2}
        | dict.fromkeys(("length", "matched", "gold", "predicted"), 3)
        | dict.fromkeys(("recall", "precision", "tagging_accuracy"), 100.0)
    )
    assert (wrong["number"], wrong["matched"], wrong["recall"]) == (2, 2, pytest.approx(200 / 3))
    assert (unbalanced["status"], unbalanced["words"], unbalanced["gold"]) == ("error", 2, 3)
    assert unbalanced["reason"] == "brackets that this line does not close: 1"


def test_evalb_lists_the_first_ten_that_do_not_count(aiayn):
    """Of trees over several lines, only what happens to be a whole tree would be scored."""
    Path("g").write_text(TREE * 1500)
    Path("p").write_text(TREE + TREE.replace("rain", "snow") * 1499)
    lines = aiayn("evalb", "g", "p")[2].splitlines()
    assert lines[0] == "p:2: error: the word 'snow' where gold has 'rain'"
    assert (len(lines), lines[10]) == (11, "p: 1,499 sentences do not count")
    Path("p").write_text(TREE + TREE.replace(" (VP", "\n (VP") * 2)
    errors = aiayn("evalb", "p", "p")[2]
    assert "warning: 4 lines are no whole tree" in errors
    assert "aiayn linearize FILE --trees OUT > /dev/null" in errors


@pytest.mark.parametrize("root", ["", "ROOT", "S1"])
def test_another_root_is_warned_of_if_it_counts(aiayn, root):
    Path("g").write_text(TREE.replace("TOP", root))
    Path("p").write_text(TREE)
    for pair in (("g", "p"), ("p", "g")):
        _, printed, errors = aiayn("evalb", *pair)
        assert "FMeasure       =  85.71" in printed and errors.startswith("warning: the root is")
        assert "TOP in " in errors and f"{root or 'no label'} in " in errors
    assert aiayn("evalb", "g", "g")[2] == aiayn("evalb", "p", "p")[2] == ""
    Path("g").write_text(TREE.removeprefix("(TOP ").replace(")))\n", "))\n"))
    assert aiayn("evalb", "g", "p")[2] == "", "without a root nothing else is counted"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("linearize bad --words w --trees t", "bad:2: the tree is not closed"),
        ("linearize traces --trees t", "traces: tree 1: a tree must have a word"),
        ("linearize bad.gz", "bad.gz:1: "),
        ("linearize a.mrg --words /dev/full", "No space left on device"),
        ("delinearize a.tree --words bad --report r", "bad:1: a word must have no white space"),
        ("evalb g empty", "empty: expected as many lines as in g, got 0"),
        ("evalb g p -p absent.prm", "absent.prm: No such file"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_file(aiayn, command, message):
    Path("bad").write_text("(S (A b))\n(S (A b)\n")
    Path("traces").write_text("(S (-NONE- *))\n")
    Path("empty").touch()
    Path("bad.gz").write_text("(S (A b))\n")
    before = {name: Path(name).read_bytes() for name in os.listdir()}
    status, _, errors = aiayn(*command.split())
    assert status == 2 and errors.count("\n") == 1
    assert message in errors.partition(": ")[2]
    assert {name: Path(name).read_bytes() for name in os.listdir()} == before


def test_a_treebank_is_not_replaced_by_an_output(aiayn):
    for command in (
        "linearize - a.mrg --words a.mrg",
        "delinearize a.tree --words a.words --report a.words",
    ):
        status, _, errors = aiayn(*command.split())
        assert status == 2 and "is also an input" in errors
    assert (Path("a.mrg").read_text("utf-8"), Path("a.words").read_text("utf-8")) == (TREES, WORDS)
    errors = aiayn("linearize", "a.mrg", "--words", "o", "--trees", "o")[2]
    assert "expected different files" in errors


COMMAND = ("bleu", "--hypothesis", "hyp", "--reference", "ref", "--target-lang", "de")


def test_both_scores_are_printed(aiayn, give):
    printed = aiayn(*COMMAND)[1]
    score = 100 * math.exp(1 - 7 / 5)
    assert f"the paper's BLEU  {score:.2f}  100.0/100.0/100.0/100.0" in printed
    assert "brevity penalty 0.670, length ratio 0.714 (5/7)" in printed
    assert "tok:13a" in printed and "compounds:split" in printed
    for units in ("Moses tokens", "words and punctuation", "n-grams of characters"):
        assert f"    of {units}: nrefs" in printed
    give(Path("hyp").read_bytes())
    assert aiayn(*COMMAND, "--hypothesis", "-") == (0, printed, "")
    chinese = aiayn(*COMMAND, "--target-lang", "zh")[1]
    assert "the paper's BLEU is left out" in chinese and "brevity penalty" in chinese
    content = json.loads(aiayn(*COMMAND, "--json")[1])
    assert list(content) == ["sentences", "paper", "sacrebleu", "chrf"]
    assert [content[part]["score"] for part in ("paper", "sacrebleu")] == [pytest.approx(score)] * 2


def test_options_say_what_is_done_with_quotes_and_tokens(aiayn):
    """Breaks if given tokens are tokenized again, or compounds are split in them."""
    Path("hyp").write_text('Das ist ein "Haus" hier.\n\n')
    Path("ref").write_text("Das ist ein „Haus“ hier.\nx\n", encoding="utf-8")

    def paper(*options: str) -> dict:
        return json.loads(aiayn(*COMMAND, "--json", *options)[1])["paper"]

    assert paper() == paper("--quotes", "ascii")
    assert paper()["precisions"][0] == pytest.approx(100)
    assert paper("--quotes", "keep")["precisions"][0] == pytest.approx(75)  # „ and “ are missed
    tokenized = paper("--tokenized", "--hypothesis", "ref.tok")
    assert tokenized["hypothesis_length"] == 7  # a ##AT##-##AT## b c,d e g f
    tokens = json.loads(aiayn(*COMMAND, "--json", "--tokens", "hyp.tok", "ref.tok")[1])["tokens"]
    assert (tokens["hypothesis_length"], tokens["reference_length"]) == (4, 5)
    assert tokens["precisions"] == pytest.approx([100, 200 / 3, 50, 0])


def test_several_references_and_lower_case(aiayn, give):
    """Breaks if a reference is left out, or if standard input is read twice."""
    Path("ref.2").write_text("x y z\nNEIN.\n")
    give("Das ist ein haus.\nNein.\n")
    both = (*COMMAND, "--hypothesis", "-", "--reference", "ref", "ref.2", "--json")
    content = json.loads(aiayn(*both)[1])
    measures = [content[name] for name in ("paper", "sacrebleu", "chrf")]
    assert all("nrefs:2|case:mixed" in each["signature"] for each in measures)
    assert content["paper"]["precisions"][0] == pytest.approx(100 * 6 / 7)
    give("Das ist ein haus.\nNein.\n")
    tokens = ("--tokens", "hyp.tok", "hyp.tok")
    for name, lowered in json.loads(aiayn(*both, "-lc", *tokens)[1]).items():
        if name != "sentences":
            assert lowered["score"] == pytest.approx(100) and "case:lc" in lowered["signature"]


def test_what_makes_scores_doubtful_is_said_on_standard_error(aiayn):
    Path("hyp").write_text("Sie sagte : &quot; Ja &quot; .\nNein .\n")
    Path("ref").write_text('Sie sagte: "Ja".\nNein.\n')
    status, printed, errors = aiayn(*COMMAND, "--json")
    assert status == 0 and json.loads(printed)["paper"]["score"] == pytest.approx(100)
    first, second = errors.splitlines()
    assert first == "note: hyp: entities such as &quot; were undone in 1 of 2 sentences"
    assert second.startswith("note: only hyp looks tokenized; sacremoses -l de detokenize")
    assert "note: ref: not in Moses tokens" in aiayn(*COMMAND, "--tokenized")[2]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("short", b"x\n", ("--reference", "ref", "short"), "short: expected as many lines as in"),
        ("one", b"", ("--reference", "-", "-"), "expected at most one file from standard input"),
        ("ref", b"\x01\n\x01\n", (), "expected at least one token in the reference"),
        ("hyp", b"ja\n\n", ("--target-lang", "deutsch"), "target language: expected a code such"),
        ("one", b"x\n", ("--tokens", "one", "one"), "--tokens: expected the 2 sentences"),
    ],
)
def test_bad_input_is_one_line(refused, name, content, options, message):
    Path(name).write_bytes(content)
    assert refused(*COMMAND, *options).startswith(f"aiayn bleu: {message}")


def test_output_of_fairseq_generate_is_refused_with_the_command_that_extracts_it(refused):
    """Whole or in part; the numbers of its lines do not matter. The command works as it is."""
    parts = ("S-{}\ta b", "T-{}\tJa .", "H-{}\t-0.1\tJa .", "D-{}\t-0.1\tJa.", "P-{}\t-0.1 -0.1")
    log = [part.format(number) for number in (1, 0) for part in parts]
    head = ["2026-01-01 | INFO | fairseq_cli.generate | x"] * 9  # longer than the other side
    last = "Generate test with beam=4: BLEU4 = 1.0\n"
    Path("raw it").write_text("\n".join([*head, *log, last]))
    Path("grepped").write_text("".join(f"{line}\n" for line in log if line.startswith("H")))
    second = [f"D-{number}\t-0.2\tNein." for number in (1, 0)]
    Path("nbest").write_text("\n".join([*log, *second, ""]))
    Path("quiet").write_text(last)
    assert "expected sentences, got what" in refused(*COMMAND, "--hypothesis", "quiet")
    for option, name, text in (
        ("--hypothesis", "raw it", "Ja."),
        ("--hypothesis", "nbest", "Ja."),
        ("--hypothesis", "grepped", "Ja ."),
        ("--reference", "raw it", "Ja ."),
        ("--tokens", "raw it", "Ja ."),
    ):
        line = refused(*COMMAND, option, name, *(["ref.tok"] if option == "--tokens" else []))
        assert ": expected sentences, got " in line
        _, _, command = line.partition("; try ")
        subprocess.run(command, shell=True, check=True)
        assert Path(command.split()[-1]).read_text() == f"{text}\n" * 2


def test_marks_of_subwords_are_warned_of_on_standard_error(aiayn):
    for text, marked in (
        ("Das i@@ st ein Haus.\nNe@@\n", 2),
        ("▁Das ▁ist\nNein\n", 1),
        ("a@@b\nx@@y.z\n", 0),  # inside a word they are none
    ):
        Path("hyp").write_text(text, encoding="utf-8")
        status, printed, errors = aiayn(*COMMAND)
        assert status == 0 and "sacreBLEU" in printed
        assert errors.count("\n") == bool(marked)
        assert not marked or f"warning: hyp: {marked} sentences have marks" in errors
