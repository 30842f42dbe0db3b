"""The Adam of section 5.3 as a fairseq optimizer."""

import math
import re

import pytest
import torch
from omegaconf import OmegaConf

from fairseq_aiayn import plugin  # noqa: F401  (guards fairseq's loading)
from fairseq_aiayn.plugin.optimizer import AiaynAdam, AiaynAdamConfig, read_betas


def adam(parameters: list[torch.nn.Parameter], **options: object) -> AiaynAdam:
    """The optimizer with a learning rate of 0.1."""
    return AiaynAdam(OmegaConf.structured(AiaynAdamConfig(lr=[0.1], **options)), parameters)


def test_updates_are_algorithm_1() -> None:
    """θ ← θ − lrate · m̂/(√v̂ + ε), by hand, with a rate that changes. Breaks with a different β,
    if ε is added before the correction of v, or if the rate is not that of the schedule."""
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
    """Breaks with the constants of PyTorch or fairseq."""
    (group,) = adam([torch.nn.Parameter(torch.ones(1))]).param_groups
    assert (group["betas"], group["eps"]) == ((0.9, 0.98), 1e-9)
    assert not group["weight_decay"] and not group["amsgrad"]


def test_fairseq_may_flatten_parameters_for_half_precision() -> None:
    """Without this, --fp16 refuses the optimizer."""
    assert adam([torch.nn.Parameter(torch.ones(1))]).supports_flat_params


def test_a_resumed_optimizer_goes_on_as_if_never_stopped() -> None:
    """Breaks if the moments or the number of steps are lost, or if the old rate returns."""
    torch.manual_seed(0)
    gradients = torch.randn(4, 3)

    def advance(optimizer: AiaynAdam, rows: torch.Tensor) -> None:
        for g in rows:
            next(optimizer.params).grad = g.clone()
            optimizer.step()

    one, other = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    undisturbed, first = adam([one]), adam([other])
    advance(undisturbed, gradients)
    advance(first, gradients[:2])
    resumed = adam([other])
    resumed.load_state_dict(first.state_dict(), {"lr": 0.1})
    advance(resumed, gradients[2:])
    assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.9", r"--adam-betas must be two numbers, as 0\.9,0\.98; got '0\.9'"),
        ("a,b", r"--adam-betas must be two numbers, as 0\.9,0\.98; got 'a,b'"),
        ("0.9,1", r"--adam-betas must be in \[0, 1\), got '0\.9,1'"),
    ],
)
def test_impossible_coefficients_are_refused(text: str, message: str) -> None:
    """Breaks if fairseq's eval fails with a traceback."""
    with pytest.raises(ValueError, match=message):
        read_betas(text)


def test_coefficients_as_fairseq_writes_them() -> None:
    """Both common spellings."""
    assert read_betas("0.9,0.98") == read_betas("(0.9, 0.98)") == (0.9, 0.98)
    assert math.isclose(sum(read_betas("[0, 0.5]")), 0.5)


def damaged(change: str) -> dict:
    """The state of Adam after one step of two parameters, with one fault."""
    parameters = [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(4))]
    optimizer = adam(parameters)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    state = optimizer.state_dict()
    one = state["state"][1]
    changes = {
        "one element": {"exp_avg": torch.zeros(1)},
        "another shape of as many": {"exp_avg_sq": torch.zeros(2, 2)},
        "one element, expanded": {"exp_avg": torch.zeros(1).expand(4)},
        "no tensor": {"exp_avg": [0.0] * 4},
        "sparse": {"exp_avg": torch.zeros(4).to_sparse()},
        "steps without number": {"step": torch.tensor([1.0, 2.0])},
        "steps of NaN": {"step": torch.tensor(math.nan)},
        "fewer steps than none": {"step": -1},
    }
    if change == "a moment too few":
        del one["exp_avg_sq"]
    elif change == "a parameter too few":
        del state["state"][1], state["param_groups"][0]["params"][1]
    elif change == "another optimizer's":
        state = {"momentum": 0.9}
    else:
        one.update(changes[change])
    return state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("one element", "exp_avg of parameter 1 must be a tensor of [4], is one of [1]"),
        ("another shape of as many", "exp_avg_sq of parameter 1 must be a tensor of [4]"),
        ("one element, expanded", "exp_avg of parameter 1 must be a tensor of [4]"),
        ("no tensor", "exp_avg of parameter 1 must be a tensor of [4], is one of []"),
        ("sparse", "exp_avg of parameter 1 must be a tensor of [4]"),
        ("steps without number", "the number of steps of parameter 1 must be a number"),
        ("steps of NaN", "the number of steps of parameter 1 must be a number"),
        (
            "fewer steps than none",
            "number of steps of parameter 1 must be a number of at least 0",
        ),
        ("a moment too few", "the optimizer's state of parameter 1 must have"),
        ("a parameter too few", "the optimizer's state must be of 2 parameters, is of 1"),
        ("another optimizer's", "the optimizer's state must be that of Adam, is not"),
    ],
)
def test_moments_that_are_not_the_parameters_are_refused(change: str, message: str) -> None:
    """The fused kernel trusts the shape of the parameter, and would write beyond the moments."""
    optimizer = adam([torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(4))])
    with pytest.raises(ValueError, match=re.escape(message)):
        optimizer.load_state_dict(damaged(change))
    assert not optimizer.state_dict()["state"], "nothing was taken"


def test_a_checkpoints_switches_do_not_become_the_trainings() -> None:
    optimizer = adam([torch.nn.Parameter(torch.ones(4))])
    state = optimizer.state_dict()
    state["param_groups"][0] |= {"amsgrad": True, "fused": False, "eps": 1.0, "maximize": True}
    optimizer.load_state_dict(state)
    (group,) = optimizer.param_groups
    assert (group["amsgrad"], group["fused"], group["maximize"]) == (False, True, False)
    assert group["eps"] == 1e-9
