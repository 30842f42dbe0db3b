"""The attention of a stock Transformer, run in fairseq, is Equation 1's of its own projections."""

from __future__ import annotations

import math
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from building import dictionary
from checkpoint_states import state_of
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from fairseq_aiayn.inference.folder import NONE, TextProcessing
from fairseq_aiayn.plugin.stock_models import StockTranslator, stock_attention_weights

WORDS = [f"w{i}" for i in range(12)]
SOURCE, TARGET = torch.tensor([7, 4, 9, 5, 2]), torch.tensor([2, 5, 6])
N, H, D_MODEL = 2, 4, 32


@pytest.fixture(scope="module")
def args() -> Namespace:
    sides = {"layers": N, "attention_heads": H, "embed_dim": D_MODEL, "ffn_embed_dim": 48}
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in sides.items()}
    args = Namespace(arch="transformer", task="translation", **sizes)
    args.source_lang, args.target_lang, args.attention_dropout = "en", "de", 0.3
    base_architecture(args)
    return args


@pytest.fixture(scope="module")
def model(args: Namespace) -> TransformerModel:
    """A model that fairseq builds, in evaluation mode, whose attention is far from even."""
    torch.manual_seed(1)
    task = TranslationTask(TranslationConfig(), dictionary(WORDS), dictionary(WORDS))
    model = TransformerModel.build_model(args, task).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "q_proj.weight" in name:
                weight *= 6
    return model


def equation_1(module: torch.nn.Module, x: Tensor, memory: Tensor, causal: bool) -> Tensor:
    """softmax(QKᵀ/√d_k) of every head: x [Q, d_model], memory [K, d_model] → [h, Q, K]."""
    Q, K = module.q_proj(x), module.k_proj(memory)
    heads = zip(Q.chunk(H, dim=-1), K.chunk(H, dim=-1), strict=True)
    scores = torch.stack([q @ k.T for q, k in heads]) / math.sqrt(D_MODEL // H)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), -math.inf)
    return scores.softmax(dim=-1)


@torch.no_grad()
def test_weights_are_those_of_the_equation_in_every_layer_and_head(model) -> None:
    """Breaks if heads are averaged, kinds or layers change places, or the causal mask is lost."""
    inputs = {}
    modules = [
        *(layer.self_attn for layer in (*model.encoder.layers, *model.decoder.layers)),
        *(layer.encoder_attn for layer in model.decoder.layers),
    ]
    before = model(SOURCE[None], torch.tensor([5]), TARGET[None])[0]
    for module in modules:
        module.register_forward_pre_hook(
            lambda module, _, kwargs: inputs.update({module: (kwargs["query"], kwargs["key"])}),
            with_kwargs=True,
        )
    found = stock_attention_weights(model, SOURCE, TARGET)
    layers = {"encoder": model.encoder.layers, "decoder": model.decoder.layers}
    layers["cross"] = model.decoder.layers
    for kind, (queries, keys) in {"encoder": (5, 5), "decoder": (3, 3), "cross": (3, 5)}.items():
        assert found[kind].shape == (N, H, queries, keys)
        torch.testing.assert_close(found[kind].sum(dim=-1), torch.ones(N, H, queries))
        for n, layer in enumerate(layers[kind]):
            module = layer.encoder_attn if kind == "cross" else layer.self_attn
            x, memory = (side[:, 0] for side in inputs[module])
            expected = equation_1(module, x, memory, causal=kind == "decoder")
            torch.testing.assert_close(found[kind][n], expected, atol=1e-6, rtol=1e-4)
    after = model(SOURCE[None], torch.tensor([5]), TARGET[None])[0]
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_a_checkpoint_is_translated_and_looked_at(model, args, aiayn, tmp_path: Path) -> None:
    for language in ("en", "de"):
        dictionary(WORDS).save(str(tmp_path / f"dict.{language}.txt"))
    checkpoint, page = tmp_path / "checkpoint.pt", tmp_path / "page.html"
    torch.save(state_of(model.state_dict(), 7, args=args), checkpoint)
    stock = StockTranslator(checkpoint, tmp_path, TextProcessing(NONE), None)
    ((best,),) = stock.search(["w3 w0 w5 w1"])
    numbers = stock.target.numbers(best.pieces)
    found = stock.attention_of(SOURCE.tolist(), numbers)
    expected = stock_attention_weights(model, SOURCE, torch.tensor([2, *numbers[:-1]]))
    assert best.pieces and stock.source.numbers(stock.cut_source("w3 w0")) == [7, 4, 2]
    for kind, weights in expected.items():
        torch.testing.assert_close(found[kind], weights, rtol=0, atol=0)
    given = ("--checkpoint", checkpoint, "--data-bin", tmp_path)
    printed = aiayn("attention", *given, "--source", "w3 w0 w5 w1", "--output", page)
    assert printed == (0, f"translation: {' '.join(best.pieces)}\n{page}\n", "")
    status, _, errors = aiayn("export", *given, "--output", tmp_path / "folder")
    assert status == 2 and "ct2-fairseq-converter" in errors
