"""The Adam of section 5.3 as a fairseq optimizer."""

import pytest
import torch
from omegaconf import OmegaConf

from fairseq_aiayn import plugin  # noqa: F401  (guards fairseq's loading)
from fairseq_aiayn.plugin.training import AiaynAdam, AiaynAdamConfig


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
    """Breaks with the constants of PyTorch or fairseq, or if --fp16 refuses the optimizer."""
    optimizer = adam([torch.nn.Parameter(torch.ones(1))])
    (group,) = optimizer.param_groups
    assert ([*group["betas"]], group["eps"]) == ([0.9, 0.98], 1e-9)
    assert not group["weight_decay"] and not group["amsgrad"]
    assert optimizer.supports_flat_params  # which --fp16 makes one tensor of


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
    resumed, state = adam([other]), first.state_dict()
    state["param_groups"][0]["eps"] = 1.0  # the options count
    resumed.load_state_dict(state, {"lr": 0.1})
    advance(resumed, gradients[2:])
    assert torch.equal(one, other)


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
