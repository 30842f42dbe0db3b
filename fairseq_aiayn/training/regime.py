"""Section 5: the whole regime of a row as fairseq-train options, on any number of GPUs."""

from __future__ import annotations

import math

from fairseq_aiayn.paper import ADAM, Row

TOLERANCE = 0.1  # a batch this far from the paper's still counts as "approximately"
USUAL_MAX_TOKENS = 4_096  # at most, where no --max-tokens is given


def batch(row: Row, gpus: int, max_tokens: int | None = None) -> tuple[int, int]:
    """(max_tokens, update_freq) with gpus · max_tokens · update_freq ≈ the row's batch.

    fairseq's --max-tokens counts the longer side of the padded pairs, so that the batch has at most
    so many source and at most so many target tokens. Without max_tokens the batch is met exactly
    (but for rounding up). Raises ValueError, with the arithmetic, where no update frequency comes
    within 10% of the batch.
    """
    if gpus < 1:
        raise ValueError(f"--gpus must be at least 1, got {gpus}")
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


def train_flags(row: Row, gpus: int, max_tokens: int | None = None) -> list[str]:
    """The row's architecture and regime as arguments of fairseq-train; none needs quoting.

    Data, precision and directories are not among them.
    """
    max_tokens, update_freq = batch(row, gpus, max_tokens)
    options = {
        "--arch": row.arch,
        "--criterion": "aiayn_label_smoothed_cross_entropy",
        "--label-smoothing": row.epsilon_ls,
        "--dropout": row.P_drop,
        "--optimizer": "adam",
        "--adam-betas": f"{ADAM.beta_1},{ADAM.beta_2}",
        "--adam-eps": ADAM.epsilon,
        "--lr-scheduler": "aiayn_inverse_sqrt",
        "--warmup-updates": row.warmup,
        "--clip-norm": 0.0,
        "--weight-decay": 0.0,
        "--max-tokens": max_tokens,
        "--update-freq": update_freq,
        "--max-update": row.steps,
        "--save-interval-updates": row.checkpoint_updates,
        "--keep-interval-updates": row.averaged,
    }
    return [str(part) for option in options.items() for part in option]
