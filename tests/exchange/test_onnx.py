"""A model as ONNX graphs: the probabilities of every step, and the greedy search of its card."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import torch
from onnxruntime import InferenceSession
from random_models import BASE, LINES, cut_text, random_model, readme_code

from fairseq_aiayn.inference.engine import Translator
from fairseq_aiayn.inference.folder import BYTE_PAIRS, PADDING, Model, TextProcessing
from fairseq_aiayn.inference.onnx import to_onnx
from fairseq_aiayn.paper import PARSING_DECODING


@pytest.fixture(autouse=True)
def one_seed() -> None:
    torch.manual_seed(1)


@pytest.fixture(
    scope="module",
    params=[("none", None), ("target", (64, 8))],
    ids=["no embeddings shared", "learned positions"],
)
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Model, Path]:
    """A model of text in byte pairs, and its directory."""
    torch.manual_seed(11)  # of LINES, some outputs end and others reach the maximum length
    sharing, learned = request.param
    directory = tmp_path_factory.mktemp("model")
    file, types = cut_text(BYTE_PAIRS, directory)
    text, sizes = TextProcessing(BYTE_PAIRS, lowercase=True), replace(BASE, d_k=3, d_v=5)
    options = {"text": text, "types": types, "pieces_file": file, "learned_lengths": learned}
    model = random_model(sizes, sharing, **options)
    to_onnx(model, {"licence": "MIT"}, directory / "onnx")
    return model, directory / "onnx"


def test_every_step_is_ours(exported: tuple[Model, Path]) -> None:
    """Breaks if a size of the traced example stays in a graph, or the state misses a position."""
    model, folder = exported
    encoder, decoder = (InferenceSession(folder / f"{one}coder.onnx") for one in ("en", "de"))
    longest = model.config.learned_lengths or (20, 15)
    for B, S, T in ((1, 1, 1), (2, longest[0], 3), (5, 4, longest[1])):
        source = torch.randint(4, len(model.source), (B, S))
        source[0, : S // 3], source[-1, S - S // 4 :] = PADDING, PADDING
        target = torch.randint(4, len(model.target), (B, T))
        with torch.no_grad():
            ours = model.transformer(source, target).log_softmax(-1).numpy()
        given = {"source": source.numpy()}
        given["memory_K"], given["memory_V"] = encoder.run(None, given)
        state = [numpy.zeros((2, B, 4, 0, size), numpy.float32) for size in (3, 5)]
        for t in range(T):
            own = {"tokens": target[:, t].numpy(), "self_K": state[0], "self_V": state[1]}
            log_p, *state = decoder.run(None, given | own)
            numpy.testing.assert_allclose(log_p, ours[:, t], rtol=0, atol=2e-5)


def test_the_code_in_the_readme_translates(exported: tuple[Model, Path]) -> None:
    """Greedily, as `aiayn translate --beam 1` does, also where learned positions end."""
    model, folder = exported
    assert "licence: MIT" in (folder / "README.md").read_text(encoding="utf-8")
    translate = readme_code(folder)["translate"]
    assert [translate(line) for line in LINES] == Translator(model, "cpu").translate(LINES)


def test_a_parser_and_a_missing_package_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = random_model()
    parser = replace(model.config, task="parsing", search=PARSING_DECODING)
    with pytest.raises(ValueError, match="^ONNX: the model must be a translation model"):
        to_onnx(replace(model, config=parser), {}, tmp_path / "onnx")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ValueError, match="pip install onnx onnxscript$"):
        to_onnx(model, {}, tmp_path / "onnx")
    assert not any(tmp_path.iterdir())
