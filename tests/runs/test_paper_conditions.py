"""What `aiayn compare` says of runs that the paper's figures stand beside without fitting them."""

from pathlib import Path

import pytest
from run_directories import MADE, markdown, read_comparison, train_log, valid_log, write_run


def difference(directory: Path, made: dict, **files: str) -> str:
    """What the paper's figures are of and the run is not, as it is said; empty for no difference.

    The sentence stands below the table and the machines.
    """
    text = markdown(read_comparison([write_run(directory, made, **files)], 0))
    return (
        text.partition("trained on")[2].partition("The paper's figures are of ")[2].split("\n")[0]
    )


AS_THE_PAPER = [
    ("base", "wmt14_en_de", "test", 5, 100_000, 37_000),
    ("big", "wmt14_en_de", "test", 20, 300_000, 35_200),
    ("base", "wmt14_en_fr", "test", 5, 100_000, 32_000),
    ("big_en_fr", "wmt14_en_fr", "test", 20, 300_000, 33_500),
    ("base", "wmt14_en_de", "valid", 1, 100_000, 38_800),
    ("big", "wmt14_en_de", "valid", 1, 300_000, 37_000),
]


@pytest.mark.parametrize(("row", "corpus", "subset", "averaged", "updates", "types"), AS_THE_PAPER)
def test_the_papers_figures_stand_alone_beside_runs_as_the_papers(
    tmp_path, row, corpus, subset, averaged, updates, types
):
    made = MADE | {"row": row, "corpus": corpus, "subset": subset, "averaged": averaged}
    files = {"train.log": train_log(updates), "valid.log": valid_log(5.0, types)}
    assert difference(tmp_path / "alike", made, **files) == ""
    other = difference(tmp_path / "other", made | {"averaged": averaged + 1}, **files)
    mean = f"the mean of the last {averaged} checkpoints" if averaged > 1 else "no averaging"
    assert f"subset {subset}), {updates:,} updates, a vocabulary of about 3" in other
    assert other.endswith(f" and {mean}; ours: averaged checkpoints {averaged + 1}.")
    short = difference(tmp_path / "short", made, **files | {"train.log": train_log(500)})
    assert short.endswith("; ours: updates 500.")


@pytest.mark.parametrize(
    ("made", "log", "ours"),
    [
        ({"averaged": None}, valid_log(5.0), "averaged checkpoints not recorded"),
        ({"subset": "valid"}, valid_log(5.0), "averaged checkpoints 5"),  # Table 3 averages none
        ({}, valid_log(5.0, 35_100), "vocabulary 35,100"),
        ({}, '{"valid_ppl": "5"}', "vocabulary not recorded"),
        ({"corpus": "wmt14_en_fr"}, valid_log(5.0), "vocabulary 37,000"),
        ({"averaged": 1}, valid_log(5.0, 5), "vocabulary 5, averaged checkpoints 1"),
    ],
)
def test_what_differs_from_the_papers_figures_is_said_below_the_table(tmp_path, made, log, ours):
    said = difference(tmp_path / "a", MADE | made, **{"valid.log": log})
    assert said.endswith(f"; ours: {ours}.")


def test_runs_that_differ_among_themselves_are_all_told(tmp_path):
    stock = MADE | {"name": "stock", "averaged": 1}
    runs = [write_run(tmp_path / "a", MADE), write_run(tmp_path / "b", stock)]
    assert "; ours: averaged checkpoints 5 or 1." in markdown(read_comparison(runs, 0))
