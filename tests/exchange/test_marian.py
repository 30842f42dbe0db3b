"""A model in transformers' MarianMTModel: the same probabilities, the same search and text."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from full_disk import full_disk
from random_models import (
    COMMON,
    LEARNED,
    LINES,
    ODD,
    SIZES,
    WORDS,
    Kind,
    cut_text,
    random_model,
)
from transformers import MarianMTModel, MarianTokenizer

from fairseq_aiayn.inference.folder import BYTE_PAIRS, NONE, PADDING, WORD_PIECES
from fairseq_aiayn.inference.marian import load, write_marian
from fairseq_aiayn.inference.pytorch import Translator
from fairseq_aiayn.paper import Decoding


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers must find all it needs in the directory."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("kind", COMMON.values(), ids=COMMON)
def test_log_probabilities_are_ours(kind: Kind, tmp_path: Path) -> None:
    """As transformers loads the model, but for ε; breaks if a component, a head or a vocabulary is
    in another place."""
    model = random_model(kind)
    write_marian(model, tmp_path / "marian")
    source = torch.randint(4, len(model.source), (3, 40))
    source[1, 25:], source[2, 1:] = PADDING, PADDING
    target = torch.randint(4, len(model.target), (3, 30))
    ours = model.transformer.double()(source, target).log_softmax(-1)

    def difference(theirs: MarianMTModel) -> float:
        logits = theirs.double()(source, source.ne(PADDING), decoder_input_ids=target).logits
        return (logits.log_softmax(-1) - ours).abs().max().item()

    loaded = difference(MarianMTModel.from_pretrained(tmp_path / "marian").eval())
    assert difference(load(tmp_path / "marian").model) < min(1e-7, loaded / 100)


def test_the_search_is_ours(tmp_path: Path) -> None:
    """But for outputs of the maximum length, where transformers takes the end token as certain.
    Breaks if outputs may be empty or hold padding, or if the length penalty is another."""
    model = random_model(search=Decoding(beam=4, alpha=0.6, extra_length=20), ends=1.5)
    padding = model.transformer.decoder.projection.weight[PADDING]
    model.transformer.decoder.layers[-1].feed_forward_norm.norm.bias.data += 2 * padding
    write_marian(model, tmp_path / "marian")
    theirs = load(tmp_path / "marian")
    sentences = [" ".join(WORDS[start : start + 5]) for start in range(26)]
    ours = [best for (best,) in Translator(model, "cpu").search(sentences)]
    texts = theirs.translate(sentences)
    numbers = torch.tensor([model.source.numbers(sentence.split()) for sentence in sentences])
    scored = {"return_dict_in_generate": True, "output_scores": True}
    scores = theirs.model.generate(numbers, max_new_tokens=26, **scored).sequences_scores
    ended = [index for index, text in enumerate(texts) if len(text.split()) < 25]
    assert len(ended) > 15 and len({len(texts[index].split()) for index in ended}) > 1
    for index in ended:
        assert texts[index] == ours[index].text
        assert float(scores[index]) == pytest.approx(ours[index].score, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "sharing"),
    [(BYTE_PAIRS, "all"), (NONE, "target"), (WORD_PIECES, "all"), (WORD_PIECES, "target")],
)
def test_text_goes_in_and_out_as_ours(text: str, sharing: str, tmp_path: Path) -> None:
    """By the three lines of the card."""
    file, words = cut_text(text, tmp_path)
    greedy = Decoding(beam=1, alpha=0.0, extra_length=6)
    kind = Kind(sharing=sharing)
    model = random_model(kind, greedy, text, words, file if text != NONE else None, ends=1.5)
    model = replace(model, config=replace(model.config, told={"licence": "MIT"}))
    write_marian(model, tmp_path / "marian")
    card = (tmp_path / "marian" / "README.md").read_text(encoding="utf-8")
    assert "licence: MIT" in card
    code = "\n".join(re.findall(r"(?m)^    (.*)$", card)[:2])
    names: dict = {}
    exec(code.replace("THIS_FOLDER", str(tmp_path / "marian")), names)  # noqa: S102
    translate = names["translator"].translate
    ours = Translator(model, "cpu").translate(LINES)
    assert [translate([line])[0] for line in LINES] == ours
    for output, alone in zip(translate(LINES), ours, strict=True):
        assert output.startswith(alone)  # the maximum length is that of the longest
    if text == WORD_PIECES:
        tokenizer = MarianTokenizer.from_pretrained(tmp_path / "marian")
        tokens = [*map(Translator(model, "cpu").source_tokens, LINES)]
        assert tokenizer(LINES).input_ids == tokens


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (LEARNED["learned positions"], "expected sinusoids"),
        (ODD["odd sizes"], "at most d_model/h, a whole number"),
        (Kind(replace(SIZES, d_v=16)), "d_k 4, d_v 16"),
    ],
)
def test_what_marian_cannot_be_is_refused(kind: Kind, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^Marian: .*{message}"):
        write_marian(random_model(kind), tmp_path / "marian")
    assert not any(tmp_path.iterdir())


def test_the_directory_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with full_disk(5_000), pytest.raises(Exception, match="File too large"):
        write_marian(random_model(), tmp_path / "marian")
    assert not any(tmp_path.iterdir())
    write_marian(random_model(), tmp_path / "marian")
    assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("*/*")} == {0o644}
