"""Section 5: the flags of a row's regime keep the paper's batch on any number of GPUs."""

import math
import re
from dataclasses import replace

import pytest

from fairseq_aiayn.paper import ROWS, find_row
from fairseq_aiayn.settings import Budget, batch, train_flags


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 7, 8, 16, 64])
@pytest.mark.parametrize("row", ["base", "tiny"])
def test_batch_is_the_papers_on_any_number_of_gpus(row: str, gpus: int) -> None:
    """Breaks if the update frequency is forgotten or rounded so that tokens are lost."""
    max_tokens, update_freq = batch(ROWS[row], gpus)
    tokens = gpus * max_tokens * update_freq
    assert 0 <= tokens - ROWS[row].batch_tokens < gpus * update_freq


@pytest.mark.parametrize(
    ("gpus", "max_tokens", "update_freq"),
    [(8, 3125, 1), (1, 3125, 8), (4, 2000, 3), (8, 410, 8)],
)
def test_update_frequency_for_a_given_max_tokens(
    gpus: int, max_tokens: int, update_freq: int
) -> None:
    """Breaks if the frequency is rounded down (8 · 410 · 7.6) or up (4 · 2000 · 3.1)."""
    assert batch(ROWS["base"], gpus, max_tokens) == (max_tokens, update_freq)


@pytest.mark.parametrize(
    ("gpus", "max_tokens", "message"),
    [
        (8, 4096, r"8 GPUs x 4096 tokens x update frequency 1 = 32,768 .* \+31% from the 25,000"),
        (3, 5000, r"3 GPUs x 5000 tokens x update frequency 2 = 30,000 .* \+20% from the 25,000"),
        (0, None, "gpus must be at least 1, got 0"),
        (1, 0, "--max-tokens must be at least 1, got 0"),
    ],
)
def test_a_batch_that_cannot_be_met_is_refused(
    gpus: int, max_tokens: int | None, message: str
) -> None:
    """Breaks if another batch than the paper's is trained with in silence; the refusal's advice
    must work."""
    with pytest.raises(ValueError, match=message) as refusal:
        batch(ROWS["base"], gpus, max_tokens)
    if advice := re.search(r"try --max-tokens (\d+)", str(refusal.value)):
        batch(ROWS["base"], gpus, int(advice[1]))


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_flags_carry_the_rows_regime(row: object) -> None:
    """Breaks if a row that differs from base only in its regime (smoothing, steps, warm-up) trains
    as base."""
    words = train_flags(row, gpus=8)
    flags = dict(zip(words[::2], words[1::2], strict=True))
    assert flags["--arch"] == row.arch
    assert float(flags["--label-smoothing"]) == row.epsilon_ls
    assert float(flags["--dropout"]) == row.P_drop
    assert int(flags["--max-update"]) == row.steps
    assert int(flags["--warmup-updates"]) == row.warmup
    assert float(flags.get("--lr-factor", 1)) == row.lr_factor
    assert int(flags["--save-interval-updates"]) == row.checkpoint_updates
    assert int(flags["--keep-interval-updates"]) >= row.averaged
    assert flags["--lr-scheduler"] == "aiayn_inverse_sqrt"
    assert (flags["--optimizer"], flags["--adam-betas"]) == ("aiayn_adam", "0.9,0.98")
    assert float(flags["--adam-eps"]) == 1e-9
    assert not any(re.search(r"[\s'\"()$]", word) for word in words), "a shell needs no quotes"


def test_a_budget_changes_what_it_names_and_scales_checkpoints() -> None:
    """5,000 of 100,000 updates have checkpoints every 75 instead of 1,500; never every 0."""
    base = find_row("base")
    assert Budget().of(base) == base
    short = Budget(steps=5_000, warmup=400, batch_tokens=4_096).of(base)
    assert short == replace(
        base, steps=5_000, warmup=400, batch_tokens=4_096, checkpoint_updates=75
    )
    assert Budget(lr_factor=0.5).of(base) == replace(base, lr_factor=0.5)
    assert Budget(steps=10).of(base).checkpoint_updates == 1
    assert Budget(steps=5_000, checkpoint_updates=7).of(base).checkpoint_updates == 7


@pytest.mark.parametrize(
    "field, option",
    [
        ("steps", "--max-update"),
        ("warmup", "--warmup-updates"),
        ("batch_tokens", "--batch-tokens"),
        ("checkpoint_updates", "--save-interval-updates"),
    ],
)
def test_a_budget_that_is_refused_is_named_as_it_is_typed(field: str, option: str) -> None:
    with pytest.raises(ValueError, match=f"^{option} must be at least 1, got 0$"):
        Budget(**{field: 0})


@pytest.mark.parametrize("factor", [0.0, -0.5, math.inf, math.nan])
def test_a_factor_that_is_no_positive_number_is_refused(factor: float) -> None:
    with pytest.raises(ValueError, match=f"^--lr-factor must be a positive number, got {factor}$"):
        Budget(lr_factor=factor)
