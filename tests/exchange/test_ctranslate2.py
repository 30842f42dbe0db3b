"""CTranslate2 computes our log P of an exported model."""

from __future__ import annotations

import ctranslate2
import pytest
import torch
from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES
from ctranslate2_models import KINDS, SEARCH, sentences, small_model, written

from fairseq_aiayn.cli.export import QUANTIZATIONS
from fairseq_aiayn.inference.ctranslate2 import longest_sequence
from fairseq_aiayn.inference.engine import LONGEST, Translator


def log_p(engine: ctranslate2.Translator, sources: list[str], targets: list[str]) -> torch.Tensor:
    """CTranslate2's log P of each target."""
    pieces = [[sentence.split() for sentence in side] for side in (sources, targets)]
    found = engine.score_batch(*pieces, max_input_length=0)
    return torch.tensor([sum(one.log_probs) for one in found])


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_log_p_is_ours(kind, tmp_path):
    model = small_model(kind)
    sources = sentences(model.source, [1, 3, 8, 11])
    targets = sentences(model.target, [5, 1, 7, 4], seed=3)
    ours = torch.tensor(Translator(model, "cpu").score(sources, targets))
    theirs = log_p(ctranslate2.Translator(str(written(model, tmp_path))), sources, targets)
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-5)


def test_unknown_pieces_are_unknown_there_too(tmp_path):
    model = small_model(KINDS["base"])
    ours = torch.tensor(Translator(model, "cpu").score(["a1 never a2"], ["a3 seen"]))
    theirs = log_p(
        ctranslate2.Translator(str(written(model, tmp_path))), ["a1 never a2"], ["a3 seen"]
    )
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-5)


def test_positions_reach_as_far_as_our_longest_translation(tmp_path):
    model = small_model(KINDS["base"])
    longest = longest_sequence(model.config)
    assert longest == LONGEST + SEARCH.extra_length + 1  # the end token comes on top
    engine = ctranslate2.Translator(str(written(model, tmp_path)))
    (source,) = sentences(model.source, [LONGEST])
    (target,) = sentences(model.target, [LONGEST], seed=3)
    (ours,) = Translator(model, "cpu").score([source], [target])
    assert log_p(engine, [source], [target]).item() == pytest.approx(ours, rel=1e-6)
    log_p(engine, ["a1"], ["a1 " * (longest - 1)])
    with pytest.raises(RuntimeError, match="position"):
        log_p(engine, ["a1"], ["a1 " * longest])


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_every_type_of_weights_is_near(quantization, tmp_path):
    model = small_model(KINDS["d_k < d_v"])
    before = [parameter.clone() for parameter in model.transformer.parameters()]
    engine = ctranslate2.Translator(str(written(model, tmp_path, quantization)))
    sources, targets = sentences(model.source, [9] * 4), sentences(model.target, [7] * 4, seed=3)
    ours = torch.tensor(Translator(model, "cpu").score(sources, targets))
    theirs = log_p(engine, sources, targets)
    # Products of whole numbers are coarser on a CPU with AVX2 only: 7% in one of these sentences.
    torch.testing.assert_close(theirs, ours, rtol=0.1 if "int" in quantization else 0.02, atol=0)
    assert all(
        torch.equal(*pair) for pair in zip(before, model.transformer.parameters(), strict=True)
    )


def test_the_types_of_weights_are_all_that_ctranslate2_has():
    assert set(QUANTIZATIONS) == set(ACCEPTED_MODEL_TYPES)
