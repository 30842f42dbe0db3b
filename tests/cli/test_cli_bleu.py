"""`aiayn bleu` on good and bad input; the scores are tested in scores/."""

import json
import math
import subprocess
from pathlib import Path

import pytest

COMMAND = ("bleu", "--hypothesis", "hyp", "--reference", "ref", "--target-lang", "de")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A hypothesis with an empty line, its reference, and tokens."""
    monkeypatch.chdir(tmp_path)
    Path("hyp").write_text("Das ist ein Haus.\n\n")
    Path("ref").write_text("Das ist ein Haus.\nNein.\n")
    Path("hyp.tok").write_text("a-b c,d e f\n\n")
    Path("ref.tok").write_text("a-b c,d e g f\n\n")


def test_both_scores_are_printed(aiayn, give):
    printed = aiayn(*COMMAND)[1]
    score = 100 * math.exp(1 - 7 / 5)
    assert f"the paper's BLEU  {score:.2f}  100.0/100.0/100.0/100.0" in printed
    assert "brevity penalty 0.670, length ratio 0.714 (5/7)" in printed
    assert "tok:13a" in printed and "compounds:split" in printed
    give(Path("hyp").read_bytes())
    assert aiayn(*COMMAND, "--hypothesis", "-") == (0, printed, "")
    chinese = aiayn(*COMMAND, "--target-lang", "zh")[1]
    assert "the paper's BLEU is left out" in chinese and "brevity penalty" in chinese
    content = json.loads(aiayn(*COMMAND, "--json")[1])
    assert list(content) == ["sentences", "paper", "sacrebleu"]
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


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("ref", b"\x01\n\x01\n", (), "expected at least one token in the reference"),
        ("hyp", b"ja\n\n", ("--target-lang", "deutsch"), "target language: Moses has no rules"),
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
    Path("raw it").write_text("\n".join([*log, "Generate test with beam=4: BLEU4 = 1.0", ""]))
    Path("grepped").write_text("".join(f"{line}\n" for line in log if line.startswith("H")))
    second = [f"D-{number}\t-0.2\tNein." for number in (1, 0)]
    Path("nbest").write_text("\n".join([*log, *second, ""]))
    Path("quiet").write_text("Generate test with beam=4: BLEU4 = 1.0\n")
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
