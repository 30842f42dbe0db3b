"""The model's options; the attention of a stock Transformer is Equation 1's of its projections."""

from argparse import Namespace

import pytest
import torch
from building import build, count, dictionaries_task, dictionary, parse
from checkpoint_states import state_of
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.trainer import _catalog_shared_params

from fairseq_aiayn.inference.description import TextProcessing
from fairseq_aiayn.inference.export import Checkpoint
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.stock_models import StockTranslator, stock_attention_weights


def test_explicit_flags_win_over_the_row() -> None:
    flags = ["--encoder-layers", "2", "--decoder-embed-dim", "32", "--encoder-ffn-embed-dim", "48"]
    flags += ["--encoder-attention-heads", "3", "--d-k", "5", "--d-v", "7", "--dropout", "0"]
    flags += ["--attention-dropout", "0.2", "--autocast", "bfloat16"]
    args = parse("--arch", "aiayn_big", *flags)
    model = build(args)
    stack = model.decoder.stack
    assert model.autocast is torch.bfloat16
    layer, _ = stack.layers
    for attention in (layer.self_attention, layer.cross_attention):
        assert attention.projection_sizes == (15, 15, 21)
        assert attention.W_QKV.weight.shape == (15 + 15 + 21, 32)
        assert attention.attention_dropout == 0.2
    assert layer.feed_forward.W_1.weight.shape == (48, 32)
    assert layer.feed_forward_norm.dropout.p == 0.0
    assert args.d_model == 32, "the schedule follows the model"


@pytest.mark.parametrize(
    ("flags", "matrices"),
    [
        ("", 1),
        ("--share-all-embeddings", 1),
        ("--share-all-embeddings --share-decoder-input-output-embed", 1),
        ("--share-decoder-input-output-embed", 2),
        ("--untied-embeddings", 3),
    ],
)
def test_embedding_matrices(flags: str, matrices: int) -> None:
    args = parse("--arch", "aiayn_tiny", *flags.split())
    model = build(args, 12)
    assert count(build(args, 112)) - count(model) == matrices * 100 * 256
    shared = [name for names in _catalog_shared_params(model) for name in names]
    ends = ("embedding.weight", "projection.weight")
    assert len(shared) == {1: 3, 2: 2, 3: 0}[matrices], "fairseq logs and sets what is shared"
    assert all(name.endswith(ends) for name in shared), "and not the biases that do not exist"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--encoder-layers 2 --decoder-layers 3", "--encoder-layers 2 and --decoder-layers 3"),
        (
            "--d-model 32 --lr-scheduler aiayn_inverse_sqrt",
            "--d-model 32 .* differs from the model",
        ),
        ("--share-all-embeddings --untied-embeddings", "contradict each other"),
        ("--encoder-embed-dim 33", "d_model must be even.* got 33"),
        ("--left-pad-target", "--left-pad-target"),  # padding would be position 0 of a target
    ],
)
def test_contradictions_are_refused(flags: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(parse("--arch", "aiayn_tiny", *flags.split()))


def test_targets_padded_on_the_right_may_be_said_in_words() -> None:
    """As --task translation_multi_simple_epoch does."""
    languages = ["--lang-pairs", "en-de", "--langs", "en,de"]
    args = parse("--arch", "aiayn_tiny", *languages, task="translation_multi_simple_epoch")
    assert args.left_pad_target == "False"
    build(args)


def test_completing_options_twice_changes_nothing() -> None:
    """fairseq applies an architecture when it parses options and again when it builds the model."""
    args = parse("--arch", "aiayn_parsing", "--untied-embeddings", "--encoder-embed-dim", "64")
    once = dict(vars(args))
    ARCH_CONFIG_REGISTRY["aiayn_parsing"](args)
    assert vars(args) == once


def test_separate_dictionaries_need_separate_matrices() -> None:
    task = dictionaries_task(dictionary(["word"]), dictionary(["Wort"]))
    args = parse("--arch", "aiayn_tiny")
    with pytest.raises(ValueError, match="--joined-dictionary"):
        AiaynModel.build_model(args, task)
    separate = parse("--arch", "aiayn_tiny", "--share-decoder-input-output-embed")
    with torch.device("meta"):
        AiaynModel.build_model(separate, task)


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


@torch.no_grad()
def test_the_output_of_every_layer_is_that_of_its_weights(model):
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
            values = module.v_proj(memory).chunk(H, dim=-1)
            heads = torch.cat([*map(torch.mm, found[kind][n], values)], dim=-1)
            torch.testing.assert_close(output, module.out_proj(heads), atol=1e-5, rtol=1e-4)


@pytest.mark.needs_repairs
def test_a_checkpoint_is_translated_and_looked_at(model, args, aiayn, tmp_path):
    for language in ("en", "de"):
        dictionary(WORDS).save(str(tmp_path / f"dict.{language}.txt"))
    checkpoint, page = tmp_path / "checkpoint.pt", tmp_path / "page.html"
    torch.save(state_of(model.state_dict(), 7, args=args), checkpoint)
    stock = StockTranslator(Checkpoint(checkpoint, tmp_path, TextProcessing("none"), None))
    ((best,),) = stock.search(["w3 w0 w5 w1"])
    numbers = stock.target.numbers(best.pieces)
    found = stock.attention_of(SOURCE.tolist(), numbers)
    expected = stock_attention_weights(model, SOURCE, torch.tensor([2, *numbers[:-1]]))
    assert best.pieces and stock.source.numbers(stock.cut_source("w3 w0")) == [7, 4, 2]
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    given = ("--checkpoint", checkpoint, "--data-bin", tmp_path)
    printed = aiayn("attention", *given, "--source", "w3 w0 w5 w1", "--output", page)
    assert printed == (0, f"translation: {' '.join(best.pieces)}\n{page}\n", "")
    status, _, errors = aiayn("export", *given, "--output", tmp_path / "folder")
    assert status == 2 and "ct2-fairseq-converter" in errors
