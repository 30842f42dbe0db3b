"""CTranslate2 computes our log P of an exported model; its translations are ours, in our order."""

import random
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import ctranslate2
import pytest
import torch
from small_models import KINDS, SHARED, small_model

from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator
from fairseq_aiayn.inference.description import END, LONGEST, PADDING, SPECIAL, Model, Vocabulary
from fairseq_aiayn.inference.folder import write_folder
from fairseq_aiayn.inference.pytorch import Translator
from fairseq_aiayn.paper import Decoding

SEARCH = Decoding(beam=4, alpha=0.6, extra_length=5)
SIZES = {  # of models; that the smaller of d_k and d_v is filled up, no other sizes show
    "d_k < d_v": {"d_k": 2},
    "int8": {"d_k": 2},
    "one head, d_k > d_v": {"encoder_attention_heads": 1, "d_k": 16, "d_v": 9},
    "odd sizes": {"encoder_layers": 1, "encoder_embed_dim": 10, "encoder_ffn_embed_dim": 7}
    | {"encoder_attention_heads": 3, "d_k": 2, "d_v": 5},
}
CASES = [*SIZES, *(kind for kind in KINDS if kind != "parser"), "small values"]


def random_model(root: Path, case=SHARED, search: Decoding = SEARCH, ends=0.0) -> Model:
    """A model of random parameters; with `ends`, near the initial ones, and outputs end early."""
    kind = case if case in KINDS else SHARED
    model = small_model(root / "exp", kind, **SIZES.get(case, {})).read("none")
    torch.manual_seed(1)
    transformer = model.transformer
    with torch.no_grad():
        transformer.decoder.projection.weight /= 3.0  # less sharp again
        for parameter in transformer.parameters():
            noise = torch.randn_like(parameter)
            parameter.copy_(parameter + noise * 0.1 if ends else noise * 0.5)
        if case == "small values":  # the layer norm's ε matters
            transformer.encoder.embedding.weight *= 1e-3
        if ends:
            norm = transformer.decoder.layers[-1].feed_forward_norm.norm
            norm.bias += ends * transformer.decoder.projection.weight[END]
    return replace(model, config=replace(model.config, search=search))


def preferring(model: Model, tokens: list[int], logit: float) -> Model:
    """The same model, to which some tokens are always likely, the first one most."""
    decoder = model.transformer.decoder
    with torch.no_grad():
        decoder.layers[-1].feed_forward_norm.norm.bias.fill_(1.0)
        for place, token in enumerate(tokens):
            weight = decoder.projection.weight
            weight[token] = (logit - place / 3) / weight.size(1)
    return model


def sentences(vocabulary: Vocabulary, lengths: list[int], seed: int = 2) -> list[str]:
    draw, types = random.Random(seed), vocabulary.types[len(SPECIAL) :]
    return [" ".join(draw.choices(types, k=length)) for length in lengths]


def written(model: Model, path: Path) -> Path:
    write_folder(model, path / "folder", True)
    return path / "folder"


def log_p(folder: Path, sources, targets, quantization: str = "default") -> torch.Tensor:
    pieces = [[sentence.split() for sentence in side] for side in (sources, targets)]
    theirs = ctranslate2.Translator(str(folder / "ctranslate2"), compute_type=quantization)
    results = theirs.score_batch(*pieces, max_input_length=0)
    return torch.tensor([sum(result.log_probs) for result in results])


@pytest.mark.parametrize("case", CASES)
def test_log_p_is_ours(case, tmp_path):
    model = random_model(tmp_path, case)
    before = [parameter.clone() for parameter in model.transformer.parameters()]
    sources = [*sentences(model.source, [1, 3, 8, 11]), "the never a"]
    targets = [*sentences(model.target, [5, 1, 7, 4], seed=3), "the seen"]
    ours = torch.tensor(Translator(model, "cpu").score(sources, targets))
    quantization = "int8" if case == "int8" else "float32"
    theirs = log_p(written(model, tmp_path), sources, targets, quantization)
    # With AVX2 only, sums of int8 products saturate: by 7 to 16% in one of these sentences
    near = 0.3 if quantization == "int8" else 0.0
    torch.testing.assert_close(theirs, ours, rtol=near, atol=1e-5)
    assert all(map(torch.equal, before, model.transformer.parameters()))


def test_positions_reach_as_far_as_our_longest_translation(tmp_path):
    directory = written(random_model(tmp_path), tmp_path)
    longest = LONGEST + SEARCH.extra_length
    log_p(directory, ["the " * LONGEST], ["the " * longest])
    with pytest.raises(RuntimeError, match="position"):
        log_p(directory, ["the"], ["the " * (longest + 1)])


@pytest.mark.parametrize(("beam", "alpha", "longer"), [(1, 0.0, 20), (4, 0.6, 20), (4, 0.6, 2)])
def test_the_outputs_are_ours_and_in_our_order(beam, alpha, longer, tmp_path):
    """With beam 1 only for α = 0: there, CTranslate2 never goes on after an end token."""
    nbest = 4 if beam == 4 and longer == 20 else 1
    model = random_model(tmp_path, search=Decoding(4, 0.6, extra_length=longer), ends=0.5)
    weight = model.transformer.decoder.projection.weight.data
    weight[PADDING] = -weight[END]  # CTranslate2's beam would hold padding, which ours never does
    texts = ["", *sentences(model.source, [*range(1, 11)] * 5), " "]
    ours = Translator(model, "cpu").search(texts, beam, alpha, nbest)
    translator = CTranslate2Translator(written(model, tmp_path), "cpu", batch_tokens=40)
    for at_once in (7, 2000):
        theirs = [*translator.engine(beam, alpha, nbest).stream(texts, at_once)]
        for mine, other in zip(ours, theirs, strict=True):
            assert [output.pieces for output in mine] == [output.pieces for output in other]
            for field in ("log_p", "score"):
                values = [[getattr(one, field) for one in outputs] for outputs in (mine, other)]
                assert values[1] == pytest.approx(values[0], abs=1e-4)
    lengths = [len(best.pieces) - len(text.split()) for text, (best, *_) in zip(texts, ours)]
    assert min(lengths) < longer == max(lengths)


@pytest.mark.parametrize("tokens", [[END], [PADDING, END], [len(SPECIAL)]])
@pytest.mark.parametrize("beam", [1, 4])
def test_no_output_is_empty_has_padding_or_exceeds_the_longest(tokens, beam, tmp_path):
    model = preferring(random_model(tmp_path), tokens, 4.8)
    texts = sentences(model.source, [1, 2, 5])
    outputs = CTranslate2Translator(written(model, tmp_path), "cpu").engine(beam)(texts)
    for text, (best,) in zip(texts, outputs, strict=True):
        assert 1 <= len(best.pieces) <= len(text.split()) + SEARCH.extra_length
        assert SPECIAL[PADDING] not in best.pieces
        (log_p_of_it,) = Translator(model, "cpu").score([text], [best.text])
        assert best.log_p == pytest.approx(log_p_of_it, abs=1e-4)


def test_learned_positions_end(tmp_path):
    """Of 80 and 85 positions, the end token takes one."""
    model = random_model(tmp_path, "learned positions", Decoding(4, 0.6, extra_length=50))
    translator = CTranslate2Translator(written(model, tmp_path), "cpu")
    outputs = translator.engine(nbest=4)(sentences(model.source, [8, 70, 79]))
    assert max(len(output.pieces) for found in outputs for output in found) == 84
    with pytest.raises(ValueError, match="sentence 1: .* at most 79 tokens, got 80"):
        translator.engine()(["the " * 80])


def test_what_cannot_be_searched_is_refused(tmp_path, monkeypatch):
    model = random_model(tmp_path, "target embeddings shared")
    directory = written(model, tmp_path)
    with pytest.raises(ValueError, match="unsupported device"):
        CTranslate2Translator(directory, "abacus")
    for weight in model.transformer.decoder.layers[-1].feed_forward.children():
        weight.weight.data.fill_(3e38)  # finite, but no output is
    with pytest.raises(ValueError, match="not a number"):
        CTranslate2Translator(written(model, tmp_path / "nan"), "cpu").engine()(["the cat"])
    monkeypatch.setattr(ctranslate2, "Translator", Mock(side_effect=RuntimeError("too new")))
    with pytest.raises(ValueError, match=f"{directory}/ctranslate2: too new"):
        CTranslate2Translator(directory)
