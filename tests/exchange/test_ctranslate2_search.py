"""Translations with CTranslate2 are ours, in our order."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from ctranslate2_models import KINDS, LEARNED, SEARCH, SIZES, Kind, sentences, small_model, written

from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator
from fairseq_aiayn.inference.engine import Translator
from fairseq_aiayn.inference.folder import END, PADDING, SPECIAL, Model
from fairseq_aiayn.nn.transformer import create_transformer


@pytest.fixture(scope="module")
def trained() -> Model:
    """A model that has learned a little: every second number of a sequence, sorted."""
    sizes = replace(SIZES, N=1, d_model=32, d_ff=64, d_k=8, d_v=8, P_drop=0.0)
    model = small_model(Kind(sizes))
    torch.manual_seed(5)
    transformer = create_transformer(sizes, len(model.source), len(model.target), PADDING)
    optimizer = torch.optim.Adam(transformer.parameters(), 1e-2)
    end = torch.full((32, 1), END)
    for step in range(150):
        source = torch.randint(len(SPECIAL), len(model.source), (32, 1 + step % 7))
        target = torch.cat([source.sort(1).values[:, ::2], end], 1)
        logits = transformer(torch.cat([source, end], 1), target.roll(1, 1))
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return replace(model, transformer=transformer.eval())


@pytest.mark.parametrize(("beam", "alpha"), [(1, 0.0), (4, SEARCH.alpha)])
def test_the_outputs_are_ours_and_in_our_order(trained, beam, alpha, tmp_path):
    """With beam 1 only for α = 0: there, CTranslate2 never goes on after an end token."""
    texts = sentences(trained.source, [*range(1, 11)] * 5)
    ours = Translator(trained, "cpu").search(texts, beam, alpha, nbest=beam)
    directory = written(trained, tmp_path)
    theirs = list(CTranslate2Translator(directory, "cpu").stream(texts, beam, alpha, nbest=beam))
    assert [[one.pieces for one in outputs] for outputs in theirs] == [
        [one.pieces for one in outputs] for outputs in ours
    ]
    for mine, other in zip(ours, theirs, strict=True):
        for field in ("log_p", "score"):
            values = [[getattr(one, field) for one in outputs] for outputs in (mine, other)]
            assert values[1] == pytest.approx(values[0], abs=1e-5)
    assert len({len(outputs[0].pieces) for outputs in ours}) > 1


def test_ctranslate2_alone_would_rank_otherwise(trained, tmp_path):
    texts = sentences(trained.source, [*range(1, 11)] * 5)
    translator = CTranslate2Translator(written(trained, tmp_path), "cpu")
    own = translator.engine.translate_batch(
        [text.split() for text in texts], beam_size=4, length_penalty=SEARCH.alpha
    )
    ranked = list(translator.stream(texts))
    assert [one.hypotheses[0] for one in own] != [list(found[0].pieces) for found in ranked]


def preferring(tokens: list[int], model: Model) -> Model:
    """The same model, to which some tokens are always likely, the first one most."""
    changed = replace(model, transformer=create_transformer(SIZES, 34, 34, PADDING))
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in changed.transformer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
        decoder = changed.transformer.decoder
        decoder.layers[-1].feed_forward_norm.norm.bias.fill_(1.0)
        for place, token in enumerate(tokens):
            decoder.projection.weight[token] = 0.3 - 0.02 * place  # its logit grows by 16 times it
    changed.transformer.eval()
    return changed


@pytest.mark.parametrize("tokens", [[END], [PADDING], [PADDING, END], [len(SPECIAL)]])
@pytest.mark.parametrize("beam", [1, 4])
def test_no_output_is_empty_has_padding_or_exceeds_the_longest(tokens, beam, tmp_path):
    """And its log P is that of the model, whatever the search excluded."""
    model = preferring(tokens, small_model(KINDS["base"]))
    texts = sentences(model.source, [1, 2, 5])
    found = CTranslate2Translator(written(model, tmp_path), "cpu").stream(texts, beam)
    for text, (best,) in zip(texts, found, strict=True):
        assert 1 <= len(best.pieces) <= len(text.split()) + SEARCH.extra_length
        assert SPECIAL[PADDING] not in best.pieces
        (log_p_of_it,) = Translator(model, "cpu").score([text], [best.text])
        assert best.log_p == pytest.approx(log_p_of_it, abs=1e-4)


def test_a_stream_keeps_its_order_and_empty_sentences(trained, tmp_path):
    translator = CTranslate2Translator(written(trained, tmp_path), "cpu", batch_tokens=1)
    texts = ["", *sentences(trained.source, [5, 1, 3]), " "]
    together = list(translator.stream(texts, nbest=2))
    assert [found for text in texts for found in translator.stream([text], nbest=2)] == together
    assert list(translator.stream(texts, nbest=2, at_once=2)) == together
    assert [len(found) for found in together] == [1, 2, 2, 2, 1]
    assert together[0][0].text == together[-1][0].text == ""


def test_what_cannot_be_searched_is_refused(trained, tmp_path):
    directory = written(trained, tmp_path)
    translator = CTranslate2Translator(directory, "cpu")
    with pytest.raises(ValueError, match="sentence 2 must have at most 1,024 tokens, has 1,025"):
        list(translator.stream(["a1", "a1 " * 1025]))
    with pytest.raises(ValueError, match="beam size must be at least 1, got 0"):
        list(translator.stream(["a1"], beam=0))
    with pytest.raises(ValueError, match="batch_tokens must be at least 1, got 0"):
        CTranslate2Translator(directory, "cpu", batch_tokens=0)
    with pytest.raises(ValueError, match="unsupported device"):
        CTranslate2Translator(directory, "abacus")
    content = (directory / "model.bin").read_bytes()
    (directory / "model.bin").write_bytes(content[:-100])
    with pytest.raises(ValueError, match=str(directory)):
        CTranslate2Translator(directory, "cpu")


@pytest.mark.parametrize("kind", ["base", "two vocabularies"])
def test_no_beam_is_larger_than_the_target_vocabulary(kind, tmp_path):
    """CTranslate2 would silently search otherwise."""
    translator = CTranslate2Translator(written(small_model(KINDS[kind]), tmp_path), "cpu")
    with pytest.raises(ValueError, match="the beam size must be at most 34, the size of the"):
        list(translator.stream(["a1"], beam=35))


def test_outputs_end_with_the_learned_positions(tmp_path):
    """Breaks if an output may have input + extra pieces whatever positions there are."""
    model = small_model(KINDS["learned positions"], learned=[20, 10])
    theirs = CTranslate2Translator(written(model, tmp_path), "cpu")
    lines = sentences(model.source, [8, 3, 12])
    found = list(theirs.stream(lines, nbest=4))
    ours = Translator(model, "cpu").search(lines)
    assert max(len(one.pieces) for outputs in found for one in outputs) <= 9
    assert max(len(one.pieces) for (one, *_) in ours) <= 9


def test_learned_positions_end(tmp_path):
    model = small_model(KINDS["learned positions"])
    translator = CTranslate2Translator(written(model, tmp_path), "cpu")
    assert len(list(translator.stream(["a1 " * (LEARNED[0] - 1)]))) == 1
    with pytest.raises(ValueError, match="sentence 1 must have at most 19 tokens, has 20"):
        list(translator.stream(["a1 " * LEARNED[0]]))
