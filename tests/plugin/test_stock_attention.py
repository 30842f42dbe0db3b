"""The attention of a stock Transformer, run in fairseq, is Equation 1's of its own projections."""

from argparse import Namespace

import pytest
import torch
from building import dictionary
from checkpoint_states import state_of
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from fairseq_aiayn.inference.export import Checkpoint
from fairseq_aiayn.inference.folder import NONE, TextProcessing
from fairseq_aiayn.plugin.stock_models import StockTranslator, stock_attention_weights

WORDS = [f"w{i}" for i in range(12)]
SOURCE, TARGET = torch.tensor([7, 4, 9, 5, 2]), torch.tensor([2, 5, 6])
N, H, D_MODEL = 2, 4, 32


@pytest.fixture(scope="module")
def args():
    sides = {"layers": N, "attention_heads": H, "embed_dim": D_MODEL, "ffn_embed_dim": 48}
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in sides.items()}
    args = Namespace(arch="transformer", task="translation", **sizes)
    args.source_lang, args.target_lang, args.attention_dropout = "en", "de", 0.3
    base_architecture(args)
    return args


@pytest.fixture(scope="module")
def model(args):
    """A model that fairseq builds, in evaluation mode, whose attention is far from even."""
    torch.manual_seed(1)
    task = TranslationTask(TranslationConfig(), dictionary(WORDS), dictionary(WORDS))
    model = TransformerModel.build_model(args, task).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "q_proj.weight" in name:
                weight *= 6
    return model


def attended(module: torch.nn.Module, weights: Tensor, memory: Tensor) -> Tensor:
    """The output [Q, d_model] for weights [h, Q, K] and a memory [K, d_model]; d_k is more than K,
    so that it has one cause only."""
    values = module.v_proj(memory).chunk(H, dim=-1)
    return module.out_proj(torch.cat([*map(torch.mm, weights, values)], dim=-1))


@torch.no_grad()
def test_the_output_of_every_layer_is_that_of_its_weights(model):
    """Breaks if heads are averaged, kinds or layers change places, or the causal mask is lost."""
    calls = {}
    modules = [
        *(layer.self_attn for layer in (*model.encoder.layers, *model.decoder.layers)),
        *(layer.encoder_attn for layer in model.decoder.layers),
    ]
    for module in modules:
        module.register_forward_hook(
            lambda module, _, kwargs, output: calls.update({module: (kwargs["value"], output[0])}),
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
            memory, output = (side[:, 0] for side in calls[module])
            expected = attended(module, found[kind][n], memory)
            torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-4)


def test_a_checkpoint_is_translated_and_looked_at(model, args, aiayn, tmp_path):
    for language in ("en", "de"):
        dictionary(WORDS).save(str(tmp_path / f"dict.{language}.txt"))
    checkpoint, page = tmp_path / "checkpoint.pt", tmp_path / "page.html"
    torch.save(state_of(model.state_dict(), 7, args=args), checkpoint)
    stock = StockTranslator(Checkpoint(checkpoint, tmp_path, TextProcessing(NONE), None))
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
