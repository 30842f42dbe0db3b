"""Section 5.3's Adam as a fairseq optimizer, on PyTorch's fused kernel."""

import math
from dataclasses import dataclass, field

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II

from fairseq_aiayn.paper import ADAM
from fairseq_aiayn.plugin.moments import require_moments


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
        """Raises ValueError for coefficients that are not two numbers in [0, 1), and for an ε that
        is not positive: with ε = 0, the update of a parameter without a gradient, such as the
        embedding of a word that never occurs, would be 0/0."""
        super().__init__(cfg)
        if not (math.isfinite(cfg.adam_eps) and cfg.adam_eps > 0):
            raise ValueError(f"--adam-eps must be a number above 0, got {cfg.adam_eps}")
        self._optimizer = torch.optim.Adam(params, fused=True, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict[str, object]:
        """The values that a resumed training takes from its options, not from the checkpoint."""
        return {
            "lr": float(self.cfg.lr[0]),
            "betas": read_betas(self.cfg.adam_betas),
            "eps": self.cfg.adam_eps,
        }

    def load_state_dict(
        self, state_dict: dict, optimizer_overrides: dict[str, object] | None = None
    ) -> None:
        """Load the moments and the numbers of steps from a checkpoint; everything else comes from
        the options.

        Raises ValueError, before any change, if the moments do not fit the parameters, because the
        fused kernel would write beyond their memory.
        """
        if not isinstance(optimizer_overrides or {}, dict):
            raise ValueError(f"--optimizer-overrides must be a dict, got {optimizer_overrides}")
        require_moments(state_dict, list(self.params))
        own = [
            {name: value for name, value in group.items() if name != "params"}
            for group in self.param_groups
        ]
        super().load_state_dict(state_dict)
        for group, options in zip(self.param_groups, own, strict=True):
            group.update(options | (optimizer_overrides or {}))


def read_betas(text: str) -> tuple[float, float]:
    """Read two numbers in [0, 1), separated by a comma; raises ValueError for anything else."""
    try:
        beta_1, beta_2 = (float(part) for part in text.strip("()[] ").split(","))
    except ValueError:
        raise ValueError(f"--adam-betas must be two numbers, as 0.9,0.98; got {text!r}") from None
    if not (0.0 <= beta_1 < 1.0 and 0.0 <= beta_2 < 1.0):
        raise ValueError(f"--adam-betas must be in [0, 1), got {text!r}")
    return beta_1, beta_2
