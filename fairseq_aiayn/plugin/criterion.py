"""Section 5.4's label-smoothed cross-entropy as a fairseq criterion."""

from dataclasses import dataclass, field
from typing import Optional  # fairseq reads the annotations and does not know "float | None"

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from torch import Tensor

from fairseq_aiayn.paper import BASE
from fairseq_aiayn.plugin.model import AiaynDecoder
from fairseq_aiayn.training import check_smoothing, projected_smoothed_nll, smoothed_nll


@dataclass
class AiaynLabelSmoothedCrossEntropyConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options; unless ε_ls is given, the row of the --arch sets it."""

    label_smoothing: Optional[float] = field(  # noqa: UP045
        default=None,
        metadata={"help": "ε_ls over all K classes (default: the row's, or 0.1 without a row)"},
    )


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
        check_smoothing(label_smoothing)
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)

    def forward(
        self, model: BaseFairseqModel, sample: dict, reduce: bool = True
    ) -> tuple[Tensor, int, dict]:
        """Return the loss of a batch, the number of its target tokens, and the figures to log."""
        if self.projects(model):
            net_input = {**sample["net_input"], "features_only": True}
            sample = {**sample, "net_input": net_input}
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
        if self.report_accuracy or self.ignore_prefix_size:
            return False
        decoder = getattr(model, "decoder", None)
        if not isinstance(decoder, AiaynDecoder) or product_type(decoder) == torch.float16:
            return False
        untied = decoder.stack.projection is not decoder.stack.embedding
        return not (untied and torch.distributed.is_initialized())


def product_type(decoder: AiaynDecoder) -> torch.dtype:
    """Return the type in which a decoder's products are computed here: that of its weights, or of
    an autocast that is on."""
    weight = decoder.stack.projection.weight
    device = weight.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
