"""`aiayn bleu` on good and bad input."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.scores import Bleu


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A hypothesis with an empty line and its reference."""
    hypothesis, reference = tmp_path / "test.hyp", tmp_path / "test.de"
    hypothesis.write_text("Das ist ein Haus.\n\n", encoding="utf-8")
    reference.write_text("Das ist ein Haus.\nNein.\n", encoding="utf-8")
    return hypothesis, reference


def command(hypothesis: Path | str, reference: Path | str, *options: str) -> list[str]:
    paths = ["--hypothesis", str(hypothesis), "--reference", str(reference)]
    return ["bleu", *paths, "--target-lang", "de", *options]


def run(*words: Path | str) -> int:
    return main(command(*words))


def test_command_prints_both_scores(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*files) == 0
    printed = capsys.readouterr().out
    expected = 100 * math.exp(1 - 7 / 5)
    assert f"the paper's BLEU  {expected:.2f}  100.0/100.0/100.0/100.0" in printed
    assert "brevity penalty 0.670, length ratio 0.714 (5/7)" in printed
    assert "tok:13a" in printed and "compounds:split" in printed


def test_command_prints_json(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*files, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"sentences", "paper", "sacrebleu"}
    for part in ("paper", "sacrebleu"):
        assert set(printed[part]) == set(Bleu.__dataclass_fields__)
        assert printed[part]["score"] == pytest.approx(100 * math.exp(1 - 7 / 5))
        assert len(printed[part]["precisions"]) == 4


def test_command_has_ascii_quotes_unless_they_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hypothesis, reference = tmp_path / "test.hyp", tmp_path / "test.de"
    hypothesis.write_text('Das ist ein "Haus" hier.\n', encoding="utf-8")
    reference.write_text("Das ist ein „Haus“ hier.\n", encoding="utf-8")
    found = {}
    for options in ((), ("--quotes", "ascii"), ("--quotes", "keep")):
        assert run(hypothesis, reference, "--json", *options) == 0
        found[options] = json.loads(capsys.readouterr().out)
    by_default, replaced, kept = found.values()
    assert by_default == replaced
    assert by_default["paper"]["score"] == pytest.approx(100)
    assert kept["paper"]["precisions"][0] == pytest.approx(100 * 6 / 8)  # „ and “ are missed
    assert kept["sacrebleu"] == replaced["sacrebleu"]


def test_command_takes_tokens_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens"
    path.write_text("a.b c,d e f\n")  # Moses would make more tokens of it
    run(path, path, "--tokenized", "--json")
    assert json.loads(capsys.readouterr().out)["paper"]["reference_length"] == 4


def test_bleu_of_given_tokens_stands_beside_the_others(
    files: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    refused: Callable[..., str],
) -> None:
    """Breaks if they are tokenized again, or compounds are split in them."""
    tokens = tmp_path / "hyp.tok", tmp_path / "ref.tok"
    for path, line in zip(tokens, ("a-b c,d e f", "a-b c,d e g f"), strict=True):
        path.write_text(f"{line}\n\n")
    assert run(*files, "--json", "--tokens", *map(str, tokens)) == 0
    found = json.loads(capsys.readouterr().out)["tokens"]
    assert (found["hypothesis_length"], found["reference_length"]) == (4, 5)
    assert found["precisions"] == pytest.approx([100, 200 / 3, 50, 0])
    assert run(*files, "--tokens", *map(str, tokens)) == 0
    assert "BLEU of tokens" in capsys.readouterr().out
    for path in tokens:
        path.write_text("a\nb\nc\n")
    line = refused(*command(*files, "--tokens", *map(str, tokens)))
    assert "must be of the 2 sentences of --hypothesis, are of 3" in line


def test_command_reads_standard_input(
    files: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    give: Callable[..., None],
) -> None:
    hypothesis, reference = files
    assert run(hypothesis, reference) == 0
    from_file = capsys.readouterr().out
    give(hypothesis.read_bytes())
    assert run("-", reference) == 0
    assert capsys.readouterr().out == from_file


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "test.de",
            b"Das ist ein Haus.\n\n",
            "{folder}/test.de:2: expected a sentence, got an empty line",
        ),
        ("test.de", b"", "{folder}/test.de: empty, expected one sentence per line"),
        ("test.de", b"\x01\n\x01\n", "the reference must have at least one token, has none"),
        ("test.hyp", b"", "{folder}/test.hyp: empty, expected one sentence per line"),
        ("test.hyp", b"ja\nf\xfcr\n", "{folder}/test.hyp:2: byte 2 (0xfc) is not UTF-8"),
        (
            "test.hyp",
            b"ja\n",
            "line counts differ: {folder}/test.hyp has 1, {folder}/test.de has 2",
        ),
    ],
)
def test_command_refuses_bad_text_in_one_line(
    files: tuple[Path, Path], refused: Callable[..., str], name: str, content: bytes, message: str
) -> None:
    folder = files[0].parent
    (folder / name).write_bytes(content)
    assert refused(*command(*files)) == f"aiayn bleu: {message.format(folder=folder)}"


def test_command_names_a_missing_file(
    files: tuple[Path, Path], refused: Callable[..., str]
) -> None:
    files[1].unlink()
    assert refused(*command(*files)) == f"aiayn bleu: {files[1]}: No such file or directory"


def test_command_refuses_an_unknown_language(
    files: tuple[Path, Path], refused: Callable[..., str]
) -> None:
    line = refused(*command(*files, "--target-lang", "deutsch"))
    assert line.startswith("aiayn bleu: target language: Moses has no rules for 'deutsch'")


def test_command_asks_for_the_language(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bleu", "--hypothesis", str(files[0]), "--reference", str(files[1])])
    assert stopped.value.code == 2
    assert "required: --target-lang" in capsys.readouterr().err
