"""Section 5 for fairseq's trainer: label smoothing, the learning-rate schedule, Adam."""

from dataclasses import dataclass, field
from typing import Any, Optional  # fairseq reads the annotations and does not know "float | None"

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from fairseq.tasks import FairseqTask
from omegaconf import II
from torch import Tensor, distributed

from fairseq_aiayn.nn.cpu_kernels import type_of_products
from fairseq_aiayn.paper import ADAM, BASE, learning_rate
from fairseq_aiayn.plugin.model import AiaynDecoder, of_the_row
from fairseq_aiayn.training import projected_smoothed_nll, smoothed_nll


@dataclass
class AiaynLabelSmoothedCrossEntropyConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options; unless ε_ls is given, the row of the --arch sets it."""

    label_smoothing: Optional[float] = of_the_row("ε_ls over all K classes; 0.1 without a row")  # noqa: UP045


@register_criterion(
    "aiayn_label_smoothed_cross_entropy", dataclass=AiaynLabelSmoothedCrossEntropyConfig
)
class AiaynLabelSmoothedCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """The criterion with q'(k) = (1 − ε)·δ(k, y) + ε/K; it logs the same figures as fairseq's own,
    which uses ε/(K − 1)."""

    def __init__(
        self,
        task: FairseqTask,
        sentence_avg: bool,
        label_smoothing: float | None,
        ignore_prefix_size: int = 0,
        report_accuracy: bool = False,
    ):
        if label_smoothing is None:  # the --arch is not one of this package, which would set it
            label_smoothing = BASE.epsilon_ls
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(f"label smoothing ε must be in [0, 1), got {label_smoothing}")
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)

    def forward(
        self, model: BaseFairseqModel, sample: dict, reduce: bool = True
    ) -> tuple[Tensor, int, dict]:
        """Return the loss of a batch, the number of its target tokens, and the figures to log."""
        if is_ours(model):
            of_ours = {"features_only": self.projects(model), "is_padded": sample.get("is_padded")}
            sample = {**sample, "net_input": sample["net_input"] | of_ours}
        return super().forward(model, sample, reduce)

    def compute_loss(
        self, model: BaseFairseqModel, net_output: tuple, sample: dict, reduce: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return the smoothed loss and the negative log-likelihood, both summed, in nats; fairseq
        logs bits."""
        if self.projects(model):
            features, target = net_output[0].flatten(0, 1), sample["target"].flatten()
            E = model.decoder.stack.projection.weight
            return projected_smoothed_nll(
                features, E, target, self.eps, self.padding_idx, model.autocast or E.dtype
            )
        log_p, target = self.get_lprobs_and_target(model, net_output, sample)
        return smoothed_nll(log_p, target, self.eps, self.padding_idx)

    def projects(self, model: BaseFairseqModel) -> bool:
        """Whether the loss computes the projection itself, from the features of our decoder.

        It does not in three cases. In float16 (--fp16, --amp), a gradient that is computed before
        the loss is scaled is lost. fairseq may need the probabilities for another purpose. And if
        several processes train an untied projection, they wait for the gradients of the matrices
        that `forward` uses, and `forward` would not use the projection.
        """
        if self.report_accuracy or self.ignore_prefix_size or not is_ours(model):
            return False
        stack = model.decoder.stack
        untied = stack.projection is not stack.embedding
        product_type = type_of_products(stack.projection.weight)
        return product_type != torch.float16 and not (untied and distributed.is_initialized())


def is_ours(model: BaseFairseqModel) -> bool:
    """Return whether a model is this plugin's; several GPUs have it in a wrapper."""
    return isinstance(getattr(model, "decoder", None), AiaynDecoder)


@dataclass
class AiaynInverseSqrtConfig(FairseqDataclass):
    """Options of the schedule, which ignores --lr."""

    warmup_updates: Optional[int] = of_the_row("warmup_steps of Equation 3; 4000 without a row")  # noqa: UP045
    lr_factor: Optional[float] = of_the_row("factor on Equation 3; 1 without a row")  # noqa: UP045
    d_model: Optional[int] = of_the_row("d_model of Equation 3; needed without a row")  # noqa: UP045


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


@dataclass
class AiaynAdamConfig(FairseqDataclass):
    """Options of Adam, with the paper's values as defaults; the schedule sets the learning rate."""

    adam_betas: str = field(
        default=f"{ADAM.beta_1},{ADAM.beta_2}", metadata={"help": "β_1 and β_2 of section 5.3"}
    )
    adam_eps: float = field(default=ADAM.epsilon, metadata={"help": "ε of section 5.3"})
    lr: list[float] = field(default=II("optimization.lr"))


@register_optimizer("aiayn_adam", dataclass=AiaynAdamConfig)
class AiaynAdam(FairseqOptimizer):
    """Algorithm 1 of Kingma and Ba, θ ← θ − lrate · m̂ / (√v̂ + ε), for all parameters in one
    pass."""

    supports_flat_params = True  # works element by element, so --fp16 may flatten all parameters

    def __init__(self, cfg: AiaynAdamConfig, params: list[torch.nn.Parameter]):
        super().__init__(cfg)
        self._optimizer = torch.optim.Adam(params, fused=True, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """The values that a resumed training takes from its options, not from the checkpoint."""
        return {
            "lr": float(self.cfg.lr[0]),
            "betas": [float(beta) for beta in self.cfg.adam_betas.strip("()[] ").split(",")],
            "eps": self.cfg.adam_eps,
        }

    def load_state_dict(
        self, state_dict: dict, optimizer_overrides: dict[str, object] | None = None
    ) -> None:
        """Load the moments and the numbers of steps from a checkpoint; raises RuntimeError if the
        moments do not fit the parameters: the fused kernel would write beyond their memory."""
        super().load_state_dict(state_dict, self.optimizer_config | (optimizer_overrides or {}))
        for parameter, state in self._optimizer.state.items():
            for name in ("exp_avg", "exp_avg_sq"):  # m and v of Algorithm 1
                state[name] = state[name].reshape(parameter.shape).contiguous()
