"""Section 5.3's Adam as a fairseq optimizer, on PyTorch's fused kernel."""

from dataclasses import dataclass, field

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II

from fairseq_aiayn.paper import ADAM


@dataclass
class AiaynAdamConfig(FairseqDataclass):
    """Options of Adam, which default to the paper's; the rate is the schedule's."""

    adam_betas: str = field(
        default=f"{ADAM.beta_1},{ADAM.beta_2}", metadata={"help": "β_1 and β_2 of section 5.3"}
    )
    adam_eps: float = field(default=ADAM.epsilon, metadata={"help": "ε of section 5.3"})
    lr: list[float] = field(default=II("optimization.lr"))


@register_optimizer("aiayn_adam", dataclass=AiaynAdamConfig)
class AiaynAdam(FairseqOptimizer):
    """Kingma and Ba's Algorithm 1: θ ← θ − lrate · m̂ / (√v̂ + ε), all parameters in one pass."""

    supports_flat_params = True  # element by element, so that --fp16 may join all parameters

    def __init__(self, cfg: AiaynAdamConfig, params: list[torch.nn.Parameter]):
        """Raises ValueError for coefficients that are not two numbers of [0, 1)."""
        super().__init__(cfg)
        self._optimizer = torch.optim.Adam(params, fused=True, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict[str, object]:
        """What a resumed training takes from its own options, not from the checkpoint."""
        return {
            "lr": float(self.cfg.lr[0]),
            "betas": read_betas(self.cfg.adam_betas),
            "eps": self.cfg.adam_eps,
        }


def read_betas(text: str) -> tuple[float, float]:
    """Two numbers of [0, 1) with a comma between; ValueError for anything else."""
    try:
        beta_1, beta_2 = (float(part) for part in text.strip("()[] ").split(","))
    except ValueError:
        raise ValueError(f"--adam-betas must be two numbers, as 0.9,0.98; got {text!r}") from None
    if not (0.0 <= beta_1 < 1.0 and 0.0 <= beta_2 < 1.0):
        raise ValueError(f"--adam-betas must be in [0, 1), got {text!r}")
    return beta_1, beta_2
