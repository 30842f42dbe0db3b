"""Section 5.3: Equation 3, and the fairseq scheduler that follows it from the first update on."""

from math import nan, sqrt

import pytest
import torch
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.optim.lr_scheduler import build_lr_scheduler
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from fairseq_aiayn.paper import learning_rate
from fairseq_aiayn.plugin.training import AiaynInverseSqrt, AiaynInverseSqrtConfig


@given(
    step=st.integers(1, 10**6),
    d_model=st.integers(1, 4096),
    warmup=st.integers(1, 10**5),
    factor=st.floats(0.1, 10.0),
)
def test_equation_3(step: int, d_model: int, warmup: int, factor: float) -> None:
    """Linear up to (d_model · warmup)^−0.5 at the last step of warm-up, then the inverse square
    root. Breaks with fairseq's schedule, which starts above 0, or a factor on one arm only. The
    peak of base is the well-known 7e-4."""
    assert learning_rate(4000, 512, 4000) == pytest.approx(6.99e-4, rel=1e-3)
    peak = factor * (d_model * warmup) ** -0.5
    arm = step / warmup if step <= warmup else sqrt(warmup / step)
    assert learning_rate(step, d_model, warmup, factor) == pytest.approx(peak * arm)


def scheduler(**options: float) -> AiaynInverseSqrt:
    """The scheduler, as fairseq's trainer builds it; --lr 0.25 must have no effect."""
    config = FairseqAdamConfig(lr=[0.25], adam_betas="0.9,0.98", tpu=False)
    adam = FairseqAdam(config, [torch.nn.Parameter(torch.ones(1))])
    config = AiaynInverseSqrtConfig(_name="aiayn_inverse_sqrt", **options)
    return build_lr_scheduler(OmegaConf.structured(config), adam)


def test_the_first_update_is_step_one_and_a_resumed_training_goes_on() -> None:
    """Breaks if the first update uses rate 0 (step 0) or --lr, every rate is a step late, calls are
    counted instead of updates, or the default warm-up is not the paper's."""
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
    """Breaks if the mistake is only noticed at the first update, after the data is loaded."""
    for options in ({}, {"d_model": 16, "warmup_updates": 0}, {"d_model": 16, "lr_factor": nan}):
        with pytest.raises(ValueError, match="d-model|warmup must be at least 1|got nan"):
            scheduler(**options)
