"""CTranslate2 computes our log P of an exported model; its translations are ours, in our order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ctranslate2
import pytest
import torch
import torch.nn.functional as F
from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES
from random_models import (
    COMMON,
    LEARNED,
    LINES,
    ODD,
    SEARCH,
    SIZES,
    Kind,
    cut_text,
    preferring,
    random_model,
    sentences,
)

from fairseq_aiayn.cli.export import QUANTIZATIONS
from fairseq_aiayn.inference.ctranslate2 import CTranslate2Translator, write_ctranslate2
from fairseq_aiayn.inference.engine import LONGEST, Translator
from fairseq_aiayn.inference.folder import BYTE_PAIRS, END, PADDING, SPECIAL, Model
from fairseq_aiayn.nn.transformer import create_transformer

KINDS = COMMON | LEARNED | ODD


def written(model: Model, path: Path, quantization: str = "float32") -> Path:
    """The model for CTranslate2, in a new directory."""
    write_ctranslate2(model, quantization, path / quantization)
    return path / quantization


def log_p(directory: Path, sources: list[str], targets: list[str]) -> torch.Tensor:
    """CTranslate2's log P of each target."""
    pieces = [[sentence.split() for sentence in side] for side in (sources, targets)]
    results = ctranslate2.Translator(str(directory)).score_batch(*pieces, max_input_length=0)
    return torch.tensor([sum(result.log_probs) for result in results])


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_log_p_is_ours(kind: Kind, tmp_path: Path) -> None:
    model = random_model(kind)
    sources = [*sentences(model.source, [1, 3, 8, 11]), "w1 never w2"]
    targets = [*sentences(model.target, [5, 1, 7, 4], seed=3), "w3 seen"]
    ours = torch.tensor(Translator(model, "cpu").score(sources, targets))
    theirs = log_p(written(model, tmp_path), sources, targets)
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-5)


@pytest.mark.parametrize("quantization", ["int8", "int16", "bfloat16"])
def test_every_type_of_weights_is_near(quantization: str, tmp_path: Path) -> None:
    model = random_model(KINDS["d_k < d_v"])
    before = [parameter.clone() for parameter in model.transformer.parameters()]
    sources, targets = sentences(model.source, [9] * 4), sentences(model.target, [7] * 4, seed=3)
    ours = torch.tensor(Translator(model, "cpu").score(sources, targets))
    theirs = log_p(written(model, tmp_path, quantization), sources, targets)
    # Products of whole numbers are coarser on a CPU with AVX2 only: 7% in one of these sentences.
    torch.testing.assert_close(theirs, ours, rtol=0.1 if "int" in quantization else 0.02, atol=0)
    assert all(map(torch.equal, before, model.transformer.parameters()))
    assert set(QUANTIZATIONS) == set(ACCEPTED_MODEL_TYPES)


def test_positions_reach_as_far_as_our_longest_translation(tmp_path: Path) -> None:
    directory = written(random_model(), tmp_path)
    longest = LONGEST + SEARCH.extra_length
    log_p(directory, ["w1 " * LONGEST], ["w1 " * longest])
    with pytest.raises(RuntimeError, match="position"):
        log_p(directory, ["w1"], ["w1 " * (longest + 1)])


@pytest.fixture(scope="module")
def trained() -> Model:
    """A model that has learned a little: every second number of a sequence, sorted."""
    sizes = replace(SIZES, N=1, d_model=32, d_ff=64, d_k=8, d_v=8, P_drop=0.0)
    model = random_model(Kind(sizes))
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
def test_the_outputs_are_ours_and_in_our_order(
    trained: Model, beam: int, alpha: float, tmp_path: Path
) -> None:
    """With beam 1 only for α = 0: there, CTranslate2 never goes on after an end token. An empty
    sentence has one empty output."""
    texts = ["", *sentences(trained.source, [*range(1, 11)] * 5), " "]
    ours = Translator(trained, "cpu").search(texts, beam, alpha, nbest=beam)
    translator = CTranslate2Translator(written(trained, tmp_path), "cpu", batch_tokens=40)
    for at_once in (7, 2000):
        theirs = [*translator.engine(beam, alpha, beam).stream(texts, at_once)]
        for mine, other in zip(ours, theirs, strict=True):
            assert [output.pieces for output in mine] == [output.pieces for output in other]
            for field in ("log_p", "score"):
                values = [[getattr(one, field) for one in outputs] for outputs in (mine, other)]
                assert values[1] == pytest.approx(values[0], abs=1e-5)
    assert len({len(outputs[0].pieces) for outputs in ours}) > 2


@pytest.mark.parametrize("tokens", [[END], [PADDING, END], [len(SPECIAL)]])
@pytest.mark.parametrize("beam", [1, 4])
def test_no_output_is_empty_has_padding_or_exceeds_the_longest(
    tokens: list[int], beam: int, tmp_path: Path
) -> None:
    """And its log P is that of the model, whatever the search excluded."""
    model = preferring(random_model(), tokens, 4.8)
    texts = sentences(model.source, [1, 2, 5])
    outputs = CTranslate2Translator(written(model, tmp_path), "cpu").engine(beam)(texts)
    for text, (best,) in zip(texts, outputs, strict=True):
        assert 1 <= len(best.pieces) <= len(text.split()) + SEARCH.extra_length
        assert SPECIAL[PADDING] not in best.pieces
        (log_p_of_it,) = Translator(model, "cpu").score([text], [best.text])
        assert best.log_p == pytest.approx(log_p_of_it, abs=1e-4)


def test_learned_positions_end(tmp_path: Path) -> None:
    model = random_model(Kind(learned=(20, 10)))
    translator = CTranslate2Translator(written(model, tmp_path), "cpu")
    outputs = translator.engine(nbest=4)(sentences(model.source, [8, 3, 12, 19]))
    assert max(len(output.pieces) for found in outputs for output in found) <= 9
    with pytest.raises(ValueError, match="sentence 1: .* at most 19 tokens, got 20"):
        translator.engine()(["w1 " * 20])


def test_what_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    model = random_model(KINDS["two vocabularies"])
    directory = written(model, tmp_path)
    with pytest.raises(ValueError, match="unsupported device"):
        CTranslate2Translator(directory, "abacus")
    (directory / "model.bin").write_bytes((directory / "model.bin").read_bytes()[:-100])
    with pytest.raises(ValueError, match=str(directory)):
        CTranslate2Translator(directory, "cpu")
    parser = replace(model, config=replace(model.config, task="parsing"))
    write_ctranslate2(parser, "float32", tmp_path / "parser")  # for ctranslate2.Translator
    with pytest.raises(ValueError, match="expected a translation model, got a parser"):
        CTranslate2Translator(tmp_path / "parser")


def test_text_goes_in_and_out_of_the_command(
    tmp_path: Path,
    aiayn: Callable[..., tuple[int, str, str]],
    refused: Callable[..., str],
    give: Callable[..., None],
) -> None:
    """From byte pairs, which must be those of the training, whole."""
    codes, words = cut_text(BYTE_PAIRS, tmp_path)
    model = random_model(text=BYTE_PAIRS, words=words, pieces_file=codes)
    directory = written(model, tmp_path)
    give("".join(f"{line}\n" for line in LINES))
    status, out, _ = aiayn("translate", directory, "--cpu", "--threads", 1, "--beam", 4)
    assert (status, out.splitlines()) == (0, Translator(model, "cpu").translate(LINES))
    (directory / "codes").write_text("#version: 0.2\n")
    assert f"{directory / 'codes'}: changed" in refused("translate", directory)
