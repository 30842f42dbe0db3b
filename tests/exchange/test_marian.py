"""A model in transformers' MarianMTModel: the same probabilities, the same search and text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from full_disk import full_disk
from random_models import BASE, LINES, WORDS, cut_text, random_model, readme_code

from fairseq_aiayn.cli import main as cli
from fairseq_aiayn.inference import marian
from fairseq_aiayn.inference.engine import Translator
from fairseq_aiayn.inference.folder import (
    BYTE_PAIRS,
    END,
    NONE,
    PADDING,
    WORD_PIECES,
    Files,
    TextProcessing,
    write_folder,
)
from fairseq_aiayn.inference.marian import to_marian
from fairseq_aiayn.paper import PARSING_DECODING, TRANSLATION, Decoding

LIKE_ROWS = {
    "base": BASE,
    "a_h1": replace(BASE, h=1, d_k=32, d_v=32),
    "b_dk16": replace(BASE, d_k=2),
    "smaller values": replace(BASE, d_k=7, d_v=3),
}


@pytest.fixture(autouse=True)
def no_network_and_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers must find all it needs in the directory."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    torch.manual_seed(1)


@pytest.mark.parametrize("sharing", ["all", "target", "none"])
@pytest.mark.parametrize("row", LIKE_ROWS)
def test_log_probabilities_are_ours(row: str, sharing: str, tmp_path: Path) -> None:
    """Within what ε = 1e-5 in Marian's layer norms does; with ours, to the accuracy of float32
    sinusoids. Breaks if a component, a head or a vocabulary is in another place."""
    model = random_model(LIKE_ROWS[row], sharing)
    to_marian(model, {}, tmp_path / "marian")
    source = torch.randint(4, len(model.source), (3, 40))
    source[1, 25:], source[2, 1:] = PADDING, PADDING
    target = torch.randint(4, len(model.target), (3, 30))
    ours = model.transformer.double()(source, target).log_softmax(-1)

    from transformers import MarianMTModel

    theirs = MarianMTModel.from_pretrained(tmp_path / "marian").eval().double()

    def difference() -> float:
        found = theirs(source, source.ne(PADDING), decoder_input_ids=target).logits
        return (found.log_softmax(-1) - ours).abs().max().item()

    assert 1e-6 < difference() < 5e-5
    for module in theirs.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    assert difference() < 1e-6


def test_the_search_is_ours(tmp_path: Path) -> None:
    """But for outputs of the maximum length, where transformers takes the end token as certain.
    Breaks if outputs may be empty, hold padding, start from another token, or if transformers
    computes its length penalty otherwise."""
    model = random_model(search=Decoding(beam=4, alpha=0.6, extra_length=20))
    decoder = model.transformer.decoder
    padding, end = decoder.projection.weight[[PADDING, END]]
    decoder.layers[-1].feed_forward_norm.norm.bias.add_(2 * padding + end)  # both are probable
    to_marian(model, {}, tmp_path / "marian")
    theirs = readme_code(tmp_path / "marian")
    sentences = [" ".join(WORDS[start : start + 5]) for start in range(26)]
    ours = [found[0] for found in Translator(model, "cpu").search(sentences)]
    texts = theirs["translate"](sentences)
    numbers = torch.tensor([model.source.numbers(one.split()) for one in sentences])
    scored = {"return_dict_in_generate": True, "output_scores": True}
    scores = theirs["model"].generate(numbers, max_new_tokens=26, **scored).sequences_scores
    ended = [place for place, text in enumerate(texts) if len(text.split()) < 25]
    assert len(ended) > 15 and len({len(texts[place].split()) for place in ended}) > 2
    for place in ended:
        assert texts[place] == ours[place].text
        assert float(scores[place]) == pytest.approx(ours[place].score, abs=1e-5)


@pytest.mark.parametrize("sharing", ["all", "target"])
@pytest.mark.parametrize("kind", [BYTE_PAIRS, WORD_PIECES, NONE])
def test_the_code_in_the_readme_translates(kind: str, sharing: str, tmp_path: Path) -> None:
    """The same text as `aiayn translate` writes, from the same text; in a batch, a short sentence
    may have a longer output."""
    file, types = cut_text(kind, tmp_path)
    text = TextProcessing(kind, lowercase=True)
    model = random_model(sharing=sharing, text=text, types=types, pieces_file=file)
    to_marian(model, {"licence": "MIT"}, tmp_path / "marian")
    assert "licence: MIT" in (tmp_path / "marian" / "README.md").read_text(encoding="utf-8")
    translate = readme_code(tmp_path / "marian")["translate"]
    ours = Translator(model, "cpu").translate(LINES)
    assert [translate([line])[0] for line in LINES] == ours
    for one, alone in zip(translate(LINES), ours, strict=True):
        assert one.startswith(alone)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learned_lengths": [64, 64]}, "positions must be sinusoids, .* they are learned"),
        ({"task": "parsing", "search": PARSING_DECODING}, "must be a translation model"),
        ({"sizes": replace(BASE, d_k=9)}, "d_k and d_v must be at most d_model/h.* d_k 9, d_v 8"),
        ({"sizes": replace(BASE, d_v=16)}, "d_k and d_v must be at most d_model/h"),
        ({"sizes": replace(BASE, h=3)}, "a whole number.* d_model is 32, h 3"),
    ],
)
def test_what_marian_cannot_be_is_refused(change: dict, message: str, tmp_path: Path) -> None:
    model = random_model(search=TRANSLATION)
    model = replace(model, config=replace(model.config, **change))
    with pytest.raises(ValueError, match=f"^Marian: .*{message}"):
        to_marian(model, {}, tmp_path / "marian")
    assert not any(tmp_path.iterdir())


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match="pip install transformers$"):
        to_marian(random_model(), {}, tmp_path / "marian")
    assert not any(tmp_path.iterdir())


def test_the_directory_is_written_whole_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as broken, pytest.raises(OSError, match="no space"):
        broken.setattr(marian, "_write_text_files", fail)
        to_marian(random_model(), {}, tmp_path / "marian")
    with full_disk(20_000), pytest.raises(OSError, match="File too large"):
        to_marian(random_model(), {}, tmp_path / "marian")
    assert not any(tmp_path.iterdir())
    to_marian(random_model(), {}, tmp_path / "marian")
    assert [one.stat().st_mode & 0o777 for one in tmp_path.iterdir()] == [0o755]
    assert {one.stat().st_mode & 0o777 for one in tmp_path.glob("*/*")} == {0o644}
    with pytest.raises(ValueError, match="must not exist yet"):
        to_marian(random_model(), {}, tmp_path / "marian")


def test_the_command(tmp_path: Path, refused: Callable[..., str]) -> None:
    """From a folder, with what its model card told."""
    words = tmp_path / "words.txt"
    words.write_text("".join(f"{word} 1\n" for word in WORDS))
    model = random_model()
    config = replace(model.config, told={"data": "invented"})
    write_folder(config, model.transformer, Files(words, words, None), tmp_path / "folder")
    command = ["export", str(tmp_path / "folder"), "--to", "marian", "--output"]
    line = refused(*command, tmp_path / "no", "--precision", "float16")
    assert "--precision: is of a model folder" in line
    assert cli.main([*command, str(tmp_path / "yes"), "--scores", "BLEU 1"]) == 0
    card = (tmp_path / "yes" / "README.md").read_text(encoding="utf-8")
    assert "data: invented" in card and "scores: BLEU 1" in card
    assert readme_code(tmp_path / "yes")["translate"](["w1 w2"]) == Translator(
        model, "cpu"
    ).translate(["w1 w2"])
    assert not (tmp_path / "no").exists()
