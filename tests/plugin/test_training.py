"""The criterion, also with products in 16 bits; Equation 3's schedule; the Adam of section 5.3."""

import copy
from math import nan, sqrt
from unittest.mock import Mock

import pytest
import torch
from building import dictionaries_task, dictionary, plain_model, product_types, sharp_model
from fairseq.distributed import ModuleProxyWrapper
from fairseq.optim.lr_scheduler import build_lr_scheduler
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from torch.nn.parallel import DistributedDataParallel

from fairseq_aiayn.nn.cpu_kernels import warn_if_slow
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.paper import TINY, learning_rate
from fairseq_aiayn.plugin.training import (
    AiaynAdam,
    AiaynAdamConfig,
    AiaynInverseSqrt,
    AiaynInverseSqrtConfig,
    AiaynLabelSmoothedCrossEntropy,
)
from fairseq_aiayn.training import reference_smoothed_nll, smoothed_nll

DIMENSIONS = Dimensions(N=1, d_model=16, d_ff=32, h=2, d_k=8, d_v=8, P_drop=0.0)
WORDS = dictionary("abcd")


@pytest.fixture
def model():
    return plain_model(WORDS, DIMENSIONS).eval()


def criterion(epsilon: float = 0.1, **options: bool | int) -> AiaynLabelSmoothedCrossEntropy:
    task = dictionaries_task(WORDS)
    return AiaynLabelSmoothedCrossEntropy(task, False, label_smoothing=epsilon, **options)


def sample() -> dict:
    end, padding = WORDS.eos(), WORDS.pad()
    target = torch.tensor([[4, 5, 6, end], [7, 5, end, padding]])
    shifted = torch.tensor([[end, 4, 5, 6], [end, 7, 5, end]])
    source = torch.tensor([[4, 6, 5, end], [padding, 7, 4, end]])
    inputs = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": shifted}
    return {"net_input": inputs, "target": target, "ntokens": 7}


def test_both_losses_are_summed_over_real_tokens(model):
    """fairseq makes bits a token and perplexity of them."""
    batch = sample()
    logits = model(**batch["net_input"])[0]
    log_p = logits.log_softmax(dim=-1)
    stock = Mock(return_value=(logits,), get_normalized_probs=lambda *_, **__: log_p)
    stock.get_targets = lambda sample, output: sample["target"]
    target = batch["target"].flatten()
    expected = reference_smoothed_nll(log_p.flatten(0, 1), target, 0.1, WORDS.pad())
    for each in (model, stock):
        loss, sample_size, log = criterion()(each, batch)
        torch.testing.assert_close((loss, log["nll_loss"]), expected)
        assert (log["loss"], sample_size, log["sample_size"], log["ntokens"]) == (loss, 7, 7, 7)


def test_an_impossible_epsilon_is_refused():
    for epsilon in (-0.1, 1.0):
        with pytest.raises(ValueError, match=rf"must be in \[0, 1\), got {epsilon}"):
            criterion(epsilon)


def test_accuracy_is_that_of_the_most_probable_types(model):
    batch = sample()
    best = model(**batch["net_input"])[0].argmax(dim=-1)
    batch["target"][0, :3] = best[0, :3]
    loss, _, log = criterion(report_accuracy=True)(model, batch)
    real = batch["target"] != WORDS.pad()
    assert log["n_correct"] == (best == batch["target"])[real].sum() >= 3
    assert log["total"] == real.sum() == 7
    torch.testing.assert_close(loss, criterion()(model, batch)[0])


def test_a_prefix_is_left_out_of_the_loss(model):
    batch = sample()
    log_p = model(**batch["net_input"])[0][:, 1:].log_softmax(dim=-1).flatten(0, 1)
    target = batch["target"][:, 1:].flatten()
    expected, _ = smoothed_nll(log_p, target, 0.1, WORDS.pad())
    torch.testing.assert_close(criterion(ignore_prefix_size=1)(model, batch)[0], expected)


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
    sizes = {"encoder_layers": 1, "encoder_ffn_embed_dim": 8, "d_v": 4}
    task = dictionaries_task(WORDS)
    model = sharp_model(task, TINY, 1, 1.0, **sizes, untied_embeddings=untied).train()
    wrapped = ModuleProxyWrapper(DistributedDataParallel(model, find_unused_parameters=True))
    for _ in range(2):
        loss, _, _ = criterion()(wrapped, sample())
        loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


SOURCE, TARGET = torch.tensor([[1, 4, 5, 2], [6, 7, 5, 2]]), torch.tensor([[2, 5, 4], [2, 6, 7]])


def test_products_are_taken_in_bfloat16_and_the_residual_stream_is_not(monkeypatch):
    types = product_types(monkeypatch)
    model = plain_model(WORDS, DIMENSIONS, torch.bfloat16)
    features, _ = model(SOURCE, None, TARGET, features_only=True)
    assert features.dtype == torch.float32
    assert set(types) == {torch.bfloat16}
    types.clear()
    plain_model(WORDS, DIMENSIONS)(SOURCE, None, TARGET)
    assert set(types) == {torch.float32}


def test_one_warning_where_bfloat16_is_slow(monkeypatch, caplog):
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


@pytest.mark.parametrize("product_type", [torch.float16, torch.bfloat16])
def test_in_float16_the_loss_leaves_its_gradient_to_autograd(product_type):
    """Breaks if --amp computes a gradient before the loss is scaled: small values would be lost."""
    assert criterion().projects(plain_model(WORDS, DIMENSIONS))
    projects = product_type == torch.bfloat16
    with torch.autocast("cpu", product_type):
        assert criterion().projects(plain_model(WORDS, DIMENSIONS)) is projects
    half = plain_model(WORDS, DIMENSIONS).to(product_type)
    assert criterion().projects(half) is projects


def test_a_copy_of_a_model_searches_with_its_own_weights():
    ours = plain_model(WORDS, DIMENSIONS)
    copied = copy.deepcopy(ours)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert not copied.transformer.encode(SOURCE, None).any()
    assert not copied.encoder(SOURCE)["memory"].any()
    assert ours.transformer.encode(SOURCE, None).any()
    names = [name.replace(".", ".stack.", 1) for name in ours.transformer.state_dict()]
    assert [*ours.state_dict()] == names  # as in every checkpoint


@given(
    step=st.integers(1, 10**6),
    d_model=st.integers(1, 4096),
    warmup=st.integers(1, 10**5),
    factor=st.floats(0.1, 10.0),
)
def test_equation_3(step: int, d_model: int, warmup: int, factor: float) -> None:
    """Linear up to (d_model · warmup)^−0.5, then the inverse square root."""
    assert learning_rate(4000, 512, 4000) == pytest.approx(6.99e-4, rel=1e-3)
    peak = factor * (d_model * warmup) ** -0.5
    arm = step / warmup if step <= warmup else sqrt(warmup / step)
    assert learning_rate(step, d_model, warmup, factor) == pytest.approx(peak * arm)


def adam(parameters: list[torch.nn.Parameter], **options: object) -> AiaynAdam:
    return AiaynAdam(OmegaConf.structured(AiaynAdamConfig(lr=[0.1], **options)), parameters)


def scheduler(**options: float) -> AiaynInverseSqrt:
    """The scheduler, as fairseq's trainer builds it; --lr must have no effect."""
    config = AiaynInverseSqrtConfig(_name="aiayn_inverse_sqrt", **options)
    optimizer = adam([torch.nn.Parameter(torch.ones(1))])
    return build_lr_scheduler(OmegaConf.structured(config), optimizer)


def test_the_first_update_is_step_one_and_a_resumed_training_goes_on() -> None:
    """Breaks if the first uses --lr, or calls are counted instead of updates."""
    schedule = scheduler(d_model=16, warmup_updates=3, lr_factor=2.0)
    rates = []
    # Like fairseq's trainer: an update, then step_update with the number of finished updates
    for finished in range(6):
        rates.append(schedule.optimizer.get_lr())
        assert schedule.step_update(finished + 1) == schedule.optimizer.get_lr()
    assert rates == [learning_rate(step, 16, 3, 2.0) for step in (1, 2, 3, 4, 5, 6)]
    resumed = scheduler(d_model=16, warmup_updates=3)
    assert resumed.step_update(1000) == learning_rate(1001, 16, 3)
    assert scheduler(d_model=16).step_update(3999) == learning_rate(4000, 16, 4000, 1.0)


def test_the_scheduler_refuses_what_equation_3_cannot_take() -> None:
    for options in ({}, {"d_model": 16, "warmup_updates": 0}, {"d_model": 16, "lr_factor": nan}):
        with pytest.raises(ValueError, match="d-model|warmup must be at least 1|got nan"):
            scheduler(**options)


def test_updates_are_algorithm_1() -> None:
    """θ ← θ − lrate · m̂/(√v̂ + ε), by hand, with a rate that changes."""
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(5, dtype=torch.float64))
    theta, m, v = parameter.detach().clone(), torch.zeros(5), torch.zeros(5)
    optimizer = adam([parameter], adam_eps=0.01)
    for t, rate in enumerate((0.1, 0.3, 0.2), start=1):
        g = torch.randn(5, dtype=torch.float64)
        parameter.grad = g.clone()
        optimizer.set_lr(rate)
        optimizer.step()
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g**2
        m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.98**t)
        theta = theta - rate * m_hat / (v_hat.sqrt() + 0.01)
        torch.testing.assert_close(parameter.detach(), theta)


def test_the_constants_are_the_papers() -> None:
    """Breaks with the constants of PyTorch, fairseq or a checkpoint, or if --fp16 refuses it."""
    optimizer = adam([torch.nn.Parameter(torch.ones(1))])
    state = optimizer.state_dict()
    state["param_groups"][0]["eps"] = 1.0
    optimizer.load_state_dict(state)
    (group,) = optimizer.param_groups
    assert ([*group["betas"]], group["eps"]) == ([0.9, 0.98], 1e-9)
    assert not group["weight_decay"] and not group["amsgrad"]
    assert optimizer.supports_flat_params  # which --fp16 makes one tensor of


def test_moments_have_the_memory_of_their_parameter() -> None:
    """The fused kernel trusts the shape of the parameter, and would write beyond other moments."""
    parameter = torch.nn.Parameter(torch.ones(4))
    optimizer = adam([parameter])

    def load(moment: object) -> None:
        state = {"step": torch.tensor(1.0), "exp_avg": torch.zeros(4), "exp_avg_sq": moment}
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": {0: state}, "param_groups": groups})

    for moment in (torch.zeros(5), torch.zeros(4).to_sparse(), None):
        with pytest.raises((RuntimeError, AttributeError)):
            load(moment)
    load(torch.zeros(1).expand(4))
    moment = optimizer.optimizer.state[parameter]["exp_avg_sq"]
    assert moment.untyped_storage().nbytes() == 16
