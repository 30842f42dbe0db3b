"""Section 5: the flags of a row's regime keep the paper's batch on any number of GPUs."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.paper import ROWS, find_row
from fairseq_aiayn.settings import batch, train_flags, with_budget


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 7, 8, 16, 64])
@pytest.mark.parametrize("row", ["base", "tiny"])
def test_batch_is_the_papers_on_any_number_of_gpus(row: str, gpus: int) -> None:
    """Breaks if the update frequency is forgotten or rounded so that tokens are lost."""
    max_tokens, update_freq = batch(ROWS[row], gpus)
    tokens = gpus * max_tokens * update_freq
    assert 0 <= tokens - ROWS[row].batch_tokens < gpus * update_freq


@given(st.integers(1, 200), st.integers(1, 10**6))
def test_a_gpus_share_is_at_most_4096_tokens_and_no_smaller_than_it_must_be(
    gpus: int, batch_tokens: int
) -> None:
    """Breaks if a batch that fits on paper needs more memory than a GPU has, or more updates of the
    gradients than necessary."""
    max_tokens, update_freq = batch(replace(ROWS["base"], batch_tokens=batch_tokens), gpus)
    assert 1 <= max_tokens <= 4096
    assert update_freq == 1 or gpus * 4096 * (update_freq - 1) < batch_tokens


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
        (0, None, "at least 1 GPU, got 0"),
        (1, 0, "--max-tokens: expected at least 1, got 0"),
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
    assert with_budget(base, steps=None, lr_factor=None) == base
    given = {"steps": 5_000, "warmup": 400, "batch_tokens": 4_096}
    assert with_budget(base, **given) == replace(base, **given, checkpoint_updates=75)
    assert with_budget(base, lr_factor=0.5) == replace(base, lr_factor=0.5)
    assert with_budget(base, steps=10).checkpoint_updates == 1
    assert with_budget(base, steps=5_000, checkpoint_updates=7).checkpoint_updates == 7


@pytest.mark.parametrize(
    ("option", "values"),
    [
        *((option, "0 -1") for option in ("--max-update", "--warmup-updates", "--batch-tokens")),
        ("--save-interval-updates", "0"),
        ("--lr-factor", "0 -0.5 inf nan"),
    ],
)
def test_a_number_without_sense_is_named_as_it_is_typed(option: str, values: str, refused) -> None:
    for value in values.split():
        line = refused("flags", "base", "--gpus", 1, option, value)
        assert line.startswith(f"aiayn flags: {option}: expected ")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("base", "--beam 4 --lenpen 0.6 --max-len-a 1 --max-len-b 50\n"),
        ("parsing", "--beam 21 --lenpen 0.3 --max-len-a 1 --max-len-b 300\n"),
    ],
)
def test_the_search_is_that_of_the_rows_task(row: str, words: str, aiayn, refused) -> None:
    """Breaks if parsing is searched as translations are (section 6.3)."""
    assert aiayn("flags", row, "--search") == (0, words, "")
    for option in ("--max-update", "--max-tokens"):
        assert "--search: " in refused("flags", row, "--search", option, 9)
