"""Section 5.3: Equation 3, and the fairseq scheduler that follows it from the first update on."""

import math

import pytest
import torch
from fairseq.optim import FairseqOptimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.optim.lr_scheduler import build_lr_scheduler
from omegaconf import OmegaConf

from fairseq_aiayn.paper import learning_rate
from fairseq_aiayn.plugin.training import AiaynInverseSqrt, AiaynInverseSqrtConfig

BASE = {"d_model": 512, "warmup": 4000}


def test_base_and_big_at_their_peak() -> None:
    """Both arms of Equation 3 meet at the last step of warm-up, at (d_model · warmup)^−0.5; for
    base this is the well-known 7e-4."""
    assert learning_rate(4000, **BASE) == pytest.approx((512 * 4000) ** -0.5)
    assert learning_rate(4000, **BASE) == pytest.approx(6.99e-4, rel=1e-3)
    assert learning_rate(4000, 1024, 4000) == pytest.approx(4.94e-4, rel=1e-3)
    peak = max(range(1, 10_000), key=lambda step: learning_rate(step, **BASE))
    assert peak == 4000


def test_both_arms_by_their_ratios() -> None:
    """Linear up to the peak, then the inverse square root. Breaks with fairseq's schedule, which
    starts above 0."""
    first = learning_rate(1, **BASE)
    assert first == pytest.approx(512**-0.5 * 4000**-1.5)
    for step in (2, 10, 1234, 4000):
        assert learning_rate(step, **BASE) / first == pytest.approx(step)
    for times in (4, 9, 25):
        ratio = learning_rate(4000 * times, **BASE) / learning_rate(4000, **BASE)
        assert ratio == pytest.approx(1 / math.sqrt(times))


def test_factor_multiplies() -> None:
    """Breaks if the factor multiplies only one arm."""
    for step in (1, 100, 4000, 90_000):
        assert learning_rate(step, **BASE, factor=2.5) == pytest.approx(
            2.5 * learning_rate(step, **BASE)
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"warmup": 0}, "warmup must be at least 1 in Equation 3, got 0"),
        ({"step": 0}, "step must be at least 1 in Equation 3, got 0"),
        ({"d_model": 0}, "d_model must be at least 1 in Equation 3, got 0"),
        ({"factor": 0.0}, "factor must be a positive number, got 0.0"),
        ({"factor": -1.0}, "factor must be a positive number, got -1.0"),
        ({"factor": math.inf}, "factor must be a positive number, got inf"),
        ({"factor": math.nan}, "factor must be a positive number, got nan"),
    ],
)
def test_impossible_arguments_are_refused(change: dict[str, float], message: str) -> None:
    """Breaks if warmup 0 divides by zero or step 0 gives a rate of 0."""
    with pytest.raises(ValueError, match=message):
        learning_rate(**{"step": 1, **BASE, "factor": 1.0, **change})


def adam() -> FairseqOptimizer:
    """fairseq's own optimizer over one weight, with a --lr that must have no effect."""
    config = FairseqAdamConfig(lr=[0.25], adam_betas="0.9,0.98", tpu=False)
    return FairseqAdam(config, [torch.nn.Parameter(torch.ones(1))])


def scheduler(**options: float) -> AiaynInverseSqrt:
    """The scheduler, as fairseq's trainer builds it."""
    config = AiaynInverseSqrtConfig(_name="aiayn_inverse_sqrt", **options)
    return build_lr_scheduler(OmegaConf.structured(config), adam())


def test_first_update_is_step_one() -> None:
    """Breaks if the first update uses rate 0 (step 0) or --lr, or if every rate is a step late."""
    schedule = scheduler(d_model=16, warmup_updates=3, lr_factor=2.0)
    rates = []
    # Like fairseq's trainer: an update, then step_update with the number of finished updates
    for finished in range(6):
        rates.append(schedule.optimizer.get_lr())
        assert schedule.step_update(finished + 1) == schedule.optimizer.get_lr()
    assert rates == [learning_rate(step, 16, 3, 2.0) for step in (1, 2, 3, 4, 5, 6)]
    assert rates.index(max(rates)) == 2


def test_resumed_training_goes_on_where_it_was() -> None:
    """Breaks if the schedule counts its own calls instead of updates."""
    resumed = scheduler(d_model=16, warmup_updates=3)
    assert resumed.step_update(1000) == learning_rate(1001, 16, 3)


def test_scheduler_defaults_are_the_papers() -> None:
    """Breaks if a model that is no row of paper.py, and so sets no warm-up, gets a different
    warm-up."""
    assert scheduler(d_model=16).step_update(3999) == learning_rate(4000, 16, 4000, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs --d-model with an --arch that is not aiayn_"),
        ({"d_model": 16, "warmup_updates": 0}, "warmup must be at least 1 in Equation 3, got 0"),
    ],
)
def test_scheduler_refuses_what_equation_3_cannot_take(options: dict, message: str) -> None:
    """Breaks if the mistake is only noticed at the first update, after the data is loaded."""
    with pytest.raises(ValueError, match=message):
        scheduler(**options)
