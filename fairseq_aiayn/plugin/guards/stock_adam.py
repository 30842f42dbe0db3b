"""Stock fairseq's Adam checks a state before it loads it, as this plugin's Adam does."""

from __future__ import annotations

from fairseq.optim.adam import Adam, FairseqAdam

from fairseq_aiayn.plugin.guards.checked import checked
from fairseq_aiayn.plugin.moments import require_moments


def install() -> None:
    """Make fairseq's Adam check every state before it loads it."""
    FairseqAdam.load_state_dict = checked(FairseqAdam.load_state_dict, require_fitting)


def require_fitting(
    optimizer: FairseqAdam, state_dict: dict, optimizer_overrides: dict | None = None
) -> None:
    """Raise ValueError if a state does not fit the optimizer's parameters."""
    if type(optimizer.optimizer) is Adam:  # the optimizers of Apex have a different state
        require_moments(state_dict, list(optimizer.params))
