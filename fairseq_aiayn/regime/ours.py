"""The complete regime of a row (section 5) as fairseq-train options, for any number of GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from fairseq_aiayn.paper import ADAM, Row
from fairseq_aiayn.rows import ROWS

TOLERANCE = 0.1  # a batch within this share of the paper's is "approximately" equal
USUAL_MAX_TOKENS = 4_096  # the most tokens per GPU without --max-tokens
# The command-line options of a budget that are whole numbers, by field.
BUDGET_OPTIONS = {
    "steps": "--max-update",
    "warmup": "--warmup-updates",
    "batch_tokens": "--batch-tokens",
    "checkpoint_updates": "--save-interval-updates",
}


@dataclass(frozen=True)
class Budget:
    """A user's changes to a row's training budget and learning rate; None leaves the row's value.

    Raises ValueError, with the option, for a number below 1, or an `lr_factor` that is not a
    positive number.
    """

    steps: int | None = None
    warmup: int | None = None
    batch_tokens: int | None = None
    checkpoint_updates: int | None = None
    lr_factor: float | None = None

    def __post_init__(self) -> None:
        for name, option in BUDGET_OPTIONS.items():
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{option} must be at least 1, got {value}")
        if self.lr_factor is not None and not 0 < self.lr_factor < math.inf:
            raise ValueError(f"--lr-factor must be a positive number, got {self.lr_factor}")

    def of(self, row: Row) -> Row:
        """Return the row with this budget.

        Unless it is given, the interval between checkpoints shrinks in proportion to the steps.
        """
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.steps and not self.checkpoint_updates:
            given["checkpoint_updates"] = max(1, row.checkpoint_updates * self.steps // row.steps)
        return replace(row, **{name: value for name, value in given.items() if value is not None})


def batch(row: Row, gpus: int, max_tokens: int | None = None) -> tuple[int, int]:
    """Return (max_tokens, update_freq) with gpus · max_tokens · update_freq ≈ the row's batch.

    fairseq's --max-tokens counts the longer side of the padded pairs, so that it bounds both the
    source tokens and the target tokens. Without `max_tokens`, the product equals the row's batch
    (rounded up). Raises ValueError, with the arithmetic, if no update frequency comes within 10% of
    the batch.
    """
    if gpus < 1:
        raise ValueError(f"gpus must be at least 1, got {gpus}")
    if max_tokens is None:
        update_freq = math.ceil(row.batch_tokens / (gpus * USUAL_MAX_TOKENS))
        return math.ceil(row.batch_tokens / (gpus * update_freq)), update_freq
    if max_tokens < 1:
        raise ValueError(f"--max-tokens must be at least 1, got {max_tokens}")
    update_freq = max(1, round(row.batch_tokens / (gpus * max_tokens)))
    tokens = gpus * max_tokens * update_freq
    if abs(tokens - row.batch_tokens) > TOLERANCE * row.batch_tokens:
        fitting, _ = batch(row, gpus)
        raise ValueError(
            f"{gpus} GPUs x {max_tokens} tokens x update frequency {update_freq} = {tokens:,}"
            f" tokens a batch, {tokens / row.batch_tokens - 1:+.0%} from the {row.batch_tokens:,}"
            f" of row {row.name} (section 5.1): try --max-tokens {fitting}"
        )
    return max_tokens, update_freq


def regime_options(row: Row, gpus: int, max_tokens: int | None = None) -> dict[str, object]:
    """Return the row's regime as options that stock fairseq's models and ours share.

    Raises ValueError as `batch` does.
    """
    max_tokens, update_freq = batch(row, gpus, max_tokens)
    return {
        "--label-smoothing": row.epsilon_ls,
        "--dropout": row.P_drop,
        "--adam-betas": f"{ADAM.beta_1},{ADAM.beta_2}",
        "--adam-eps": ADAM.epsilon,
        "--warmup-updates": row.warmup,
        "--clip-norm": 0.0,
        "--max-tokens": max_tokens,
        "--update-freq": update_freq,
        "--max-update": row.steps,
        "--save-interval-updates": row.checkpoint_updates,
        "--keep-interval-updates": row.averaged,
    }


def _lr_factor(row: Row) -> dict[str, float]:
    """Return the option for the factor on Equation 3, or none where --arch already sets 1."""
    is_equation_3 = row.lr_factor == ROWS[row.name].lr_factor == 1.0
    return {} if is_equation_3 else {"--lr-factor": row.lr_factor}


def as_words(options: dict[str, object]) -> list[str]:
    """Return options and values as the words of a command line."""
    return [str(part) for option in options.items() for part in option]


def train_flags(row: Row, gpus: int, max_tokens: int | None = None) -> list[str]:
    """Return the row's architecture and regime as arguments of fairseq-train.

    No argument needs quoting. Data, task, precision and directories are not included. Raises
    ValueError as `batch` does.
    """
    model = {
        "--arch": row.arch,
        "--criterion": "aiayn_label_smoothed_cross_entropy",
        "--lr-scheduler": "aiayn_inverse_sqrt",
        "--optimizer": "aiayn_adam",
        **_lr_factor(row),
    }
    return as_words(model | regime_options(row, gpus, max_tokens))
