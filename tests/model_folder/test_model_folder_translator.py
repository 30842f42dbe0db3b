"""A model folder in use: search, scores, encoder outputs and attention are those of the plugin's
model, in order, and without fairseq."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
from fairseq.data import data_utils
from small_models import SENTENCES, Small, small_model

import fairseq_aiayn
from fairseq_aiayn.attention_maps.weights import all_attention_weights
from fairseq_aiayn.cli.precision_option import PRECISIONS
from fairseq_aiayn.inference.engine import Translator, load
from fairseq_aiayn.inference.folder import read_folder
from fairseq_aiayn.nn.cpu_kernels import PRODUCT_TYPES

CLOSE = {"abs": 1e-4, "rel": 1e-5}
ROOT = Path(fairseq_aiayn.__file__).parents[1]
MODELS = (
    "all embeddings shared",
    "no embeddings shared",
    "learned positions",
    "keys unlike values",
)


@pytest.fixture(scope="module", params=MODELS)
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Small:
    return small_model(tmp_path_factory.mktemp("model"), request.param)


@pytest.fixture(scope="module")
def folder(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.export(tmp_path_factory.mktemp("folder") / "folder")


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return load(folder, "cpu")


def tokens_of(small: Small, translator: Translator, sentence: str) -> torch.Tensor:
    """A sentence as fairseq numbers its pieces."""
    pieces = " ".join(translator.cut_source(sentence))
    encode = small.task.source_dictionary.encode_line
    return encode(pieces, add_if_not_exist=False, append_eos=True).long()


@pytest.mark.parametrize(("beam", "alpha", "nbest"), [(1, 0.0, 1), (4, 0.6, 3), (4, 2.0, 4)])
def test_the_search_is_the_plugins(small, translator, beam, alpha, nbest):
    """All sentences in one batch, padded by fairseq's own function."""
    rows = [tokens_of(small, translator, sentence) for sentence in SENTENCES]
    source = data_utils.collate_tokens(rows, pad_idx=1, left_pad=True)
    generator = small.task.build_generator(
        [small.model], Namespace(beam=beam, lenpen=alpha, nbest=nbest)
    )
    expected = generator.generate([small.model], {"net_input": {"src_tokens": source}})
    found = translator.search(SENTENCES, beam, alpha, nbest)
    target = small.task.target_dictionary
    for mine, theirs in zip(found, expected, strict=True):
        assert len(mine) == len(theirs) == nbest
        for one, other in zip(mine, theirs, strict=True):
            assert list(one.pieces) == target.string(other["tokens"]).split()
            assert one.score == pytest.approx(other["score"].item(), **CLOSE)
            assert one.log_p == pytest.approx(other["positional_scores"].sum().item(), **CLOSE)
            assert one.text == translator.join(list(one.pieces))


def test_the_search_in_bfloat16_is_the_plugins(small, folder, translator):
    """Breaks if the folder's search has another precision than --search-precision.

    One sentence at a time, because rounding depends on the padding of a batch.
    """
    rounded = load(folder, "cpu", "bfloat16")
    config = replace(small.task.cfg, search_precision="bfloat16")
    task = type(small.task)(config, small.task.source_dictionary, small.task.target_dictionary)
    generator = task.build_generator([small.model], Namespace())
    for sentence in SENTENCES:
        source = tokens_of(small, translator, sentence)[None]
        ((best, *_),) = generator.generate([small.model], {"net_input": {"src_tokens": source}})
        (found,) = rounded.search([sentence])
        assert found[0].score == pytest.approx(best["score"].item(), **CLOSE)
    assert rounded.search(SENTENCES) != translator.search(SENTENCES)


def test_an_unknown_precision_is_refused(folder):
    with pytest.raises(ValueError, match="precision must be one of float32, bfloat16, got int8"):
        load(folder, "cpu", "int8")
    assert tuple(PRODUCT_TYPES) == PRECISIONS


def test_defaults_are_the_papers(translator):
    assert translator.search(SENTENCES) == translator.search(SENTENCES, beam=4, alpha=0.6)
    assert translator.translate(SENTENCES) == [
        outputs[0].text for outputs in translator.search(SENTENCES)
    ]


def test_scores_are_those_of_the_full_forward(small, translator):
    targets = [*SENTENCES[1:], SENTENCES[0]]
    target_dictionary = small.task.target_dictionary
    for source, target, score in zip(
        SENTENCES, targets, translator.score(SENTENCES, targets), strict=True
    ):
        pieces = " ".join(translator.cut_target(target))
        y = target_dictionary.encode_line(pieces, add_if_not_exist=False).long()
        x = tokens_of(small, translator, source)
        with torch.no_grad():
            logits, _ = small.model(x[None], None, y.roll(1)[None])
        log_p = logits[0].log_softmax(-1).gather(1, y[:, None])
        assert score == pytest.approx(log_p.sum().item(), **CLOSE)


def test_encoder_outputs_are_the_plugins_in_any_batch(small, translator):
    found = translator.encode(["", *SENTENCES])
    assert found[0].shape == (0, 16)
    for sentence, rows in zip(SENTENCES, found[1:], strict=True):
        source = tokens_of(small, translator, sentence)
        with torch.no_grad():
            memory = small.model.transformer.encode(source[None], None)
        torch.testing.assert_close(rows, memory[0], atol=1e-5, rtol=1e-5)


def test_attention_is_that_of_the_plugins_model(small, translator):
    source, target = SENTENCES[0], SENTENCES[3]
    shifted = torch.tensor([2, *translator.target.numbers(translator.cut_target(target))[:-1]])
    expected = all_attention_weights(
        small.model.transformer, tokens_of(small, translator, source), shifted
    )
    found = translator.attention(source, target)
    for kind, weights in expected.items():
        torch.testing.assert_close(found[kind], weights)
    assert found["cross"].shape[:3] == (2, 2, len(shifted))


def test_attention_of_a_sentence_is_that_of_its_translation(translator):
    translation = translator.translate([SENTENCES[3]])[0]
    assert translation
    found, expected = (translator.attention(SENTENCES[3], target) for target in (None, translation))
    assert all(torch.equal(found[kind], expected[kind]) for kind in expected)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for what does not depend on the kind of model."""
    root = tmp_path_factory.mktemp("shared")
    return small_model(root / "model").export(root / "folder")


def test_batches_change_neither_order_nor_outputs(shared):
    """Breaks if sorting by length is not undone, or if an empty line shifts the others."""
    lines = ["", *SENTENCES[2:], " ", SENTENCES[4], "", SENTENCES[3]]
    alone = load(shared, "cpu")
    expected = [alone.search([line], nbest=2)[0] for line in lines]
    for batch_tokens in (1, 40, 4096):
        translator = Translator(read_folder(shared), "cpu", batch_tokens)
        whole = translator.search(lines, nbest=2)
        for found in (whole, [*translator.stream(lines, nbest=2, at_once=4)]):
            for mine, theirs in zip(found, expected, strict=True):
                assert [one.pieces for one in mine] == [one.pieces for one in theirs]
                assert [one.score for one in mine] == pytest.approx(
                    [one.score for one in theirs], **CLOSE
                )
    assert [[one.text for one in outputs] for outputs in whole if len(outputs) == 1] == [[""]] * 3


def test_a_stream_reads_no_further_than_it_must(shared):
    taken = count()

    def lines() -> Iterator[str]:
        for sentence in SENTENCES:
            next(taken)
            yield sentence

    found = load(shared, "cpu").stream(lines(), at_once=2)
    next(found)
    assert next(taken) == 2


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda t: t.translate(["a b", "a " * 1025]), "sentence 2 must have at most 1,024 tokens"),
        (lambda t: t.translate(["a"], beam=0), "the beam size must be at least 1, got 0"),
        (lambda t: t.translate(["a"], beam=10**6), "the beam size must be at most"),
        (lambda t: t.translate(["a"], alpha=float("nan")), "α must be a number from 0 to 8"),
        (lambda t: t.search(["a"], beam=2, nbest=3), "nbest must be between 1 and the beam size 2"),
        (lambda t: t.score(["a", "b"], ["a"]), "as many targets as sources, got 1 and 2"),
        (lambda t: t.score(["a", "b"], ["a", ""]), "pair 2: neither sentence may be empty"),
        (lambda t: t.attention(""), "neither sentence may be empty"),
        (lambda t: Translator(t, batch_tokens=0), "batch_tokens must be at least 1, got 0"),
    ],
)
def test_values_out_of_range_are_named(shared, use, message):
    with pytest.raises(ValueError, match=message):
        use(load(shared, "cpu"))


def test_a_stream_counts_its_sentences_from_the_beginning(shared):
    lines = ["the cat", "the hat", "", "the cat", "a " * 1025]
    with pytest.raises(ValueError, match="^sentence 5 must have at most 1,024 tokens, has 1,025$"):
        list(load(shared, "cpu").stream(lines, at_once=2))


def test_learned_positions_limit_sentences_and_outputs(tmp_path):
    """80 source positions are 79 tokens and the end token; outputs end at 84 of 85."""
    translator = load(small_model(tmp_path, "learned positions").export(tmp_path / "folder"), "cpu")
    (outputs,) = translator.search(["the " * 79], beam=1)
    assert len(outputs[0].pieces) <= 84
    with pytest.raises(ValueError, match="sentence 1 must have at most 79 tokens, has 80"):
        translator.translate(["the " * 80])
    with pytest.raises(ValueError, match="sentence 1 must have at most 84 tokens, has 85"):
        translator.score(["the"], ["the " * 85])


@pytest.mark.parametrize("device", ["cuda", "nowhere", "meta", "cuda:99"])
def test_a_device_that_is_not_there_is_named(shared, device):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=f"^device {device}: "):
        load(shared, device)


def test_neither_fairseq_nor_compilers_are_loaded(shared):
    """PyTorch's compiler alone would take longer to import than everything else."""
    script = (
        "import sys, fairseq_aiayn, fairseq_aiayn.inference.engine\n"
        "translator = fairseq_aiayn.load(sys.argv[1], 'cpu')\n"
        "print(translator.translate([sys.argv[2]])[0])\n"
        "roots = {name.partition('.')[0] for name in sys.modules} | set(sys.modules)\n"
        "print(*sorted(roots & {'fairseq', 'omegaconf', 'sentencepiece', 'torch._dynamo'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, shared, SENTENCES[0]],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    expected = load(shared, "cpu").translate([SENTENCES[0]])[0]
    assert done.stdout == f"{expected}\n\n"
