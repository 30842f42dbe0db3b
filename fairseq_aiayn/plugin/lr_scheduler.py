"""Equation 3 as a fairseq learning-rate scheduler."""

from dataclasses import dataclass, field
from typing import Optional  # fairseq reads the annotations and does not know "float | None"

from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler

from fairseq_aiayn.paper import BASE, learning_rate


@dataclass
class AiaynInverseSqrtConfig(FairseqDataclass):
    """Options of the schedule, which ignores --lr."""

    warmup_updates: Optional[int] = field(  # noqa: UP045
        default=None,
        metadata={"help": "warmup_steps of Equation 3 (default: the row's, or 4000 without a row)"},
    )
    lr_factor: Optional[float] = field(  # noqa: UP045
        default=None,
        metadata={"help": "factor on Equation 3 (default: the row's, or 1 without a row)"},
    )
    d_model: Optional[int] = field(  # noqa: UP045
        default=None, metadata={"help": "d_model of Equation 3; aiayn_* architectures set it"}
    )


@register_lr_scheduler("aiayn_inverse_sqrt", dataclass=AiaynInverseSqrtConfig)
class AiaynInverseSqrt(FairseqLRScheduler):
    """The schedule factor · d_model^−0.5 · min(step^−0.5, step · warmup^−1.5), where step counts
    from 1."""

    def __init__(self, cfg: AiaynInverseSqrtConfig, optimizer: FairseqOptimizer):
        super().__init__(cfg, optimizer)
        if cfg.d_model is None:
            raise ValueError(
                "--lr-scheduler aiayn_inverse_sqrt needs --d-model with an --arch that is not "
                "aiayn_* (Equation 3)"
            )
        self.warmup = BASE.warmup if cfg.warmup_updates is None else cfg.warmup_updates
        self.factor = BASE.lr_factor if cfg.lr_factor is None else cfg.lr_factor
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set and return the rate of the next update, after `num_updates` finished updates."""
        rate = learning_rate(num_updates + 1, self.cfg.d_model, self.warmup, self.factor)
        self.optimizer.set_lr(rate)
        return rate
