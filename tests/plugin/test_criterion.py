"""The criterion with fairseq's own options, of a model that several processes train, and with
matrix products in 16 bits."""

import copy

import pytest
import torch
from building import dictionaries_task, dictionary, plain_model, product_types, sharp_model
from fairseq.distributed import ModuleProxyWrapper
from torch.nn.parallel import DistributedDataParallel

from fairseq_aiayn.nn.cpu_kernels import warn_if_slow
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.paper import TINY
from fairseq_aiayn.plugin.training import AiaynLabelSmoothedCrossEntropy
from fairseq_aiayn.training import smoothed_nll

DIMENSIONS = Dimensions(N=1, d_model=16, d_ff=32, h=2, d_k=8, d_v=8, P_drop=0.0)
EPSILON = 0.1
WORDS = dictionary("abcd")


@pytest.fixture
def model():
    return plain_model(WORDS, DIMENSIONS).eval()


def sample() -> dict:
    end, padding = WORDS.eos(), WORDS.pad()
    target = torch.tensor([[4, 5, 6, end], [7, 5, end, padding]])
    shifted = torch.tensor([[end, 4, 5, 6], [end, 7, 5, end]])
    source = torch.tensor([[4, 6, 5, end], [padding, 7, 4, end]])
    inputs = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": shifted}
    return {"net_input": inputs, "target": target, "ntokens": 7}


def test_accuracy_is_that_of_the_most_probable_types(model):
    """Breaks if --report-accuracy looks for the largest feature of the decoder."""
    batch = sample()
    best = model(**batch["net_input"])[0].argmax(dim=-1)
    batch["target"][0, :3] = best[0, :3]
    criterion = AiaynLabelSmoothedCrossEntropy(
        dictionaries_task(WORDS), False, EPSILON, report_accuracy=True
    )
    loss, _, log = criterion(model, batch)
    real = batch["target"] != WORDS.pad()
    assert log["n_correct"] == (best == batch["target"])[real].sum() >= 3
    assert log["total"] == real.sum() == 7
    plain = AiaynLabelSmoothedCrossEntropy(dictionaries_task(WORDS), False, EPSILON)
    torch.testing.assert_close(loss, plain(model, batch)[0])


def test_a_prefix_is_left_out_of_the_loss(model):
    """Breaks if --ignore-prefix-size is ignored where the loss computes the projection itself."""
    batch = sample()
    criterion = AiaynLabelSmoothedCrossEntropy(
        dictionaries_task(WORDS), False, EPSILON, ignore_prefix_size=1
    )
    log_p = model(**batch["net_input"])[0][:, 1:].log_softmax(dim=-1).flatten(0, 1)
    target = batch["target"][:, 1:].flatten()
    expected, _ = smoothed_nll(log_p, target, EPSILON, WORDS.pad())
    torch.testing.assert_close(criterion(model, batch)[0], expected)


@pytest.fixture
def one_process_of_many():
    """A process group of one process, which waits for gradients as a group of many does."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("untied", [False, True])
def test_every_gradient_comes_once(one_process_of_many, untied):
    """Breaks if the loss uses a matrix that the forward pass of the model does not use."""
    task = dictionaries_task(dictionary("abcdefgh"))
    sizes = {"encoder_layers": 1, "encoder_ffn_embed_dim": 8, "d_v": 4}
    model = sharp_model(task, TINY, 1, 1.0, **sizes, untied_embeddings=untied).train()
    criterion = AiaynLabelSmoothedCrossEntropy(task, sentence_avg=False, label_smoothing=0.1)
    wrapped = ModuleProxyWrapper(DistributedDataParallel(model, find_unused_parameters=True))
    tokens = torch.tensor([[4, 5, 6, 2]])
    net_input = {"src_tokens": tokens, "src_lengths": None, "prev_output_tokens": tokens.roll(1)}
    sample = {"net_input": net_input, "target": tokens, "ntokens": 4}
    for _ in range(2):
        loss, _, _ = criterion(wrapped, sample)
        loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


SOURCE, TARGET = torch.tensor([[1, 4, 5, 2], [6, 7, 5, 2]]), torch.tensor([[2, 5, 4], [2, 6, 7]])


def test_products_are_taken_in_bfloat16_and_the_residual_stream_is_not(monkeypatch):
    """Breaks if autocast does not reach the layers, or if sums and norms lose 16 bits, too."""
    types = product_types(monkeypatch)
    features, _ = plain_model(WORDS, DIMENSIONS, torch.bfloat16)(
        SOURCE, None, TARGET, features_only=True
    )
    assert features.dtype == torch.float32
    assert set(types) == {torch.bfloat16}
    types.clear()
    plain_model(WORDS, DIMENSIONS)(SOURCE, None, TARGET)
    assert set(types) == {torch.float32}


def test_one_warning_where_bfloat16_is_slow(monkeypatch, caplog):
    """Breaks if a training that is 20 times slower than it need be says nothing, or says it for
    every batch, or where the CPU is fast."""
    warn_if_slow.cache_clear()
    for capability, product_type, warnings in (
        ("AVX512", torch.bfloat16, 0),
        ("AVX2", None, 0),
        ("AVX2", torch.bfloat16, 1),
        ("AVX2", torch.bfloat16, 1),
    ):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda c=capability: c)
        plain_model(WORDS, DIMENSIONS, product_type)(SOURCE, None, TARGET)
        assert len(caplog.messages) == warnings


def test_an_autocast_around_the_model_stays_on():
    """Breaks if fairseq's --amp, which is such an autocast, trains in float32 after all."""
    with torch.autocast("cpu", torch.bfloat16):
        logits, _ = plain_model(WORDS, DIMENSIONS)(SOURCE, None, TARGET)
    assert logits.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("product_type", "projects"), [(torch.float16, False), (torch.bfloat16, True)]
)
def test_in_float16_the_loss_leaves_its_gradient_to_autograd(product_type, projects):
    """Breaks if --amp computes a gradient before the loss is scaled: small values would be lost."""
    task = dictionaries_task(dictionary("abcd"))
    criterion = AiaynLabelSmoothedCrossEntropy(task, sentence_avg=False, label_smoothing=0.1)
    assert criterion.projects(plain_model(WORDS, DIMENSIONS))
    with torch.autocast("cpu", product_type):
        assert criterion.projects(plain_model(WORDS, DIMENSIONS)) is projects
    half = plain_model(WORDS, DIMENSIONS).to(product_type)
    assert criterion.projects(half) is projects


def test_a_copy_of_a_model_searches_with_its_own_weights():
    """Breaks if fairseq's moving average of a model, a copy, encodes with the model's weights."""
    ours = plain_model(WORDS, DIMENSIONS)
    copied = copy.deepcopy(ours)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert not copied.transformer.encode(SOURCE, None).any()
    assert not copied.encoder(SOURCE)["memory"].any()
    assert ours.transformer.encode(SOURCE, None).any()
    assert {name.split(".")[0] for name in ours.state_dict()} == {"encoder", "decoder"}
