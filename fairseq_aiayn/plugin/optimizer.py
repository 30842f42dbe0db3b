"""Section 5.3's Adam as a fairseq optimizer, on PyTorch's fused kernel."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import Adam, FairseqAdam
from omegaconf import II

from fairseq_aiayn.paper import ADAM

MOMENTS = ("exp_avg", "exp_avg_sq")  # m and v of Algorithm 1


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


def check_states_of_stock_adam() -> None:
    """Make fairseq's own Adam check its state, too, before it loads it."""
    FairseqAdam.load_state_dict = looking(FairseqAdam.load_state_dict)


def looking(load_state_dict: Callable) -> Callable:
    """Wrap the function that loads a state: it raises ValueError if the state does not fit the
    parameters."""

    @wraps(load_state_dict)
    def load(
        optimizer: FairseqAdam,
        state_dict: dict,
        optimizer_overrides: dict[str, object] | None = None,
    ) -> None:
        if type(optimizer.optimizer) is Adam:  # the optimizers of Apex have a different state
            require_moments(state_dict, list(optimizer.params))
        load_state_dict(optimizer, state_dict, optimizer_overrides)

    return load


def require_moments(state_dict: dict, parameters: list[torch.nn.Parameter]) -> None:
    """Raise ValueError unless an optimizer's state is that of Adam for these parameters."""
    try:
        saved = [number for group in state_dict["param_groups"] for number in group["params"]]
        states = {number: dict(state) for number, state in state_dict["state"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError("the optimizer's state must be that of Adam, is not") from None
    if not set(states) <= set(saved):
        raise ValueError("the optimizer's state must be of the parameters that it lists, is not")
    if len(saved) != len(parameters):
        raise ValueError(
            f"the optimizer's state must be of {len(parameters)} parameters, is of {len(saved)}"
        )
    for number, parameter in zip(saved, parameters, strict=True):
        state = states.get(number, {})
        if state and not {"step", *MOMENTS} <= set(state):
            raise ValueError(f"the optimizer's state of parameter {number} must have {MOMENTS}")
        for name in MOMENTS if state else ():
            _require_same_shape(state[name], parameter, f"{name} of parameter {number}")
        if state and not 0 <= _step(state["step"]) < math.inf:
            raise ValueError(
                f"the number of steps of parameter {number} must be a number of at least 0"
            )


def _require_same_shape(moment: object, parameter: torch.nn.Parameter, name: str) -> None:
    shape = list(getattr(moment, "shape", ()))
    whole = isinstance(moment, torch.Tensor) and moment.layout == torch.strided
    # An expanded tensor has fewer elements in memory than its shape says.
    if not whole or moment.shape != parameter.shape or not moment.is_contiguous():
        raise ValueError(
            f"the optimizer's {name} must be a tensor of {list(parameter.shape)}, is one of {shape}"
        )


def _step(value: object) -> float:
    """Return a number of steps, given as a number or as a tensor of one element; NaN for anything
    else."""
    if isinstance(value, torch.Tensor):
        return float(value) if value.numel() == 1 else math.nan
    return float(value) if isinstance(value, int | float) else math.nan


def read_betas(text: str) -> tuple[float, float]:
    """Read two numbers in [0, 1), separated by a comma; raises ValueError for anything else."""
    try:
        beta_1, beta_2 = (float(part) for part in text.strip("()[] ").split(","))
    except ValueError:
        raise ValueError(f"--adam-betas must be two numbers, as 0.9,0.98; got {text!r}") from None
    if not (0.0 <= beta_1 < 1.0 and 0.0 <= beta_2 < 1.0):
        raise ValueError(f"--adam-betas must be in [0, 1), got {text!r}")
    return beta_1, beta_2
