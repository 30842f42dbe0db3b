"""What `aiayn compare` says of runs that the paper's figures stand beside without fitting them."""

import pytest
from run_directories import MADE, markdown, read_comparison, train_log, valid_log, write_run


@pytest.fixture
def make_run(tmp_path):
    def make(name: str, made: dict, **files: str):
        return write_run(tmp_path / name, made, **files)

    return make


def differences(text: str) -> str:
    """The sentence that says of what the paper's figures are; empty where there is none."""
    lines = [line for line in text.split("\n") if line.startswith("The paper's figures")]
    return lines[0] if lines else ""


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
    make_run, row, corpus, subset, averaged, updates, types
):
    made = MADE | {"row": row, "corpus": corpus, "subset": subset, "averaged": averaged}
    logs = {"train.log": train_log(updates), "valid.log": valid_log(5.0, types)}

    def compared(name: str, made: dict, **files: str) -> str:
        return differences(markdown(read_comparison([make_run(name, made, **logs | files)], 0)))

    assert compared("alike", made) == ""
    other = compared("other", made | {"averaged": averaged + 1})
    assert f"subset {subset}), {updates:,} updates, a vocabulary of about 3" in other
    mean = f"the mean of the last {averaged} checkpoints" if averaged > 1 else "no averaging"
    assert other.endswith(f" and {mean}; ours: averaged checkpoints {averaged + 1}.")
    short = compared("short", made, **{"train.log": train_log(500)})
    assert short.endswith("; ours: updates 500.")


@pytest.mark.parametrize(
    ("made", "files", "ours"),
    [
        ({"averaged": None}, {}, "averaged checkpoints not recorded"),
        ({"averaged": 1}, {}, "averaged checkpoints 1"),
        ({"subset": "valid"}, {}, "averaged checkpoints 5"),  # Table 3 averages none
        ({}, {"valid.log": valid_log(5.0, 35_100)}, "vocabulary 35,100"),
        ({}, {"valid.log": '{"valid_ppl": "5"}'}, "vocabulary not recorded"),
        ({"corpus": "wmt14_en_fr"}, {}, "vocabulary 37,000"),
        (
            {"averaged": 1},
            {"train.log": train_log(5_000)},
            "updates 5,000, averaged checkpoints 1",
        ),
    ],
)
def test_what_differs_from_the_papers_figures_is_said_below_the_table(make_run, made, files, ours):
    text = markdown(read_comparison([make_run("a", MADE | made, **files)], 0))
    assert differences(text).endswith(f"; ours: {ours}.")
    assert text.index("The paper's figures") > text.index("trained on")


def test_runs_that_differ_among_themselves_are_all_told(make_run):
    stock = MADE | {"name": "stock", "averaged": 1}
    text = markdown(read_comparison([make_run("a", MADE), make_run("b", stock)], 0))
    assert differences(text) == (
        "The paper's figures are of newstest2014 (corpus wmt14_en_de, subset test), 100,000 "
        "updates, a vocabulary of about 37,000 and the mean of the last 5 checkpoints; ours: "
        "averaged checkpoints 5 or 1."
    )
