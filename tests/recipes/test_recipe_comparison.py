"""`aiayn compare` on run directories as a recipe leaves them."""

import re

import pytest
from faults import fault_of
from run_directories import (
    END,
    MADE,
    PARAMETERS,
    epoch,
    markdown,
    page,
    score,
    table_rows,
    write_run,
)

from fairseq_aiayn.report.pages import OTHER_MEASURE
from fairseq_aiayn.report.results import equal_distances, read_report
from fairseq_aiayn.runs.run import read_run

RESUMED = [
    PARAMETERS,
    '{"epoch": 1, "num_updates": "10", "wpb": "1", "train_wall": "5"}',
    epoch(1, 100, 900.0, 30, 2000),  # 90,000 tokens in 45 seconds
    epoch(1, 100, 900.0, 30, 2000),  # fairseq repeats itself
    '{"epoch": 2, "num_upda',  # killed here, then resumed
    PARAMETERS,
    epoch(2, 150, 600.0, 30, 750),  # 30,000 tokens in 40 seconds
    epoch(3, 151, 600.0, 2, 0),  # an epoch of one update has no speed
    END,
]


@pytest.fixture
def make_run(tmp_path):
    def make(name: str, made: dict | None = None, **files: str | None):
        settings = {"system": name, "packages": {"torch": "2"}} if made is None else made
        return write_run(tmp_path / name, settings, **files)

    return make


def test_a_run_is_read(make_run):
    run, _ = read_run(make_run("ours", **{"train.log": "\n".join(RESUMED)}))
    assert run.name == "ours"
    assert run.training.parameters == 6_578_176
    assert run.training.updates == 151
    assert run.training.seconds == 62
    assert run.training.wall_seconds == 45 + 40 + 2
    assert run.training.tokens_per_second == pytest.approx((100 * 900 + 51 * 600) / 62, rel=0.01)
    assert (run.dev_perplexity, run.vocabulary) == (9.87, 37_000)
    assert run.bleu.score == 27.314


def test_older_settings_and_logs_will_do(make_run):
    run, _ = read_run(make_run("ours", {"system": "ours"}, **{"valid.log": '{"valid_ppl": "3"}\n'}))
    assert (run.name, run.settings.row, run.vocabulary) == ("ours", None, None)


def test_several_seeds_have_a_mean_above_the_table(make_run):
    """Of tokens only where all have it. Examples and commands of one seed are enough."""
    runs = []
    for seed, bleu in ((1, 27.0), (2, 29.0)):
        settings = MADE | {"name": f"run-{seed}", "seed": seed}
        scores = score(bleu, tokens=bleu + 10)
        runs.append(make_run(f"run-{seed}", settings, **{"score.json": scores}))
    text = page(read_report(runs, 1))
    header, _, cells = table_rows(text)[:3]
    cells = dict(zip(header, cells, strict=True))
    assert (cells["mean ± standard deviation"], cells["seeds"]) == ("run", "1, 2")
    examples = text.partition("## Examples")[2]
    assert "- run-1: " in examples and "- run-2: " not in examples
    assert re.findall("How (.*) was made", text) == ["run-1"]
    assert cells["BLEU of tokens"] == "38.00 ± 1.41"
    assert cells["BLEU as the paper's"] == "28.00 ± 1.41"
    assert "BLEU of tokens: `tok|3`" in text
    alone = make_run("alone", MADE | {"name": "alone", "seed": 3})
    header, _, cells = table_rows(markdown(read_report([*runs, alone], 0)))[:3]
    assert "BLEU of tokens" not in header and cells[0] == "run, alone"


PAPERS = {
    ("base", "wmt14_en_de", "test"): ["27.3"],  # Table 2
    ("big", "wmt14_en_de", "test"): ["28.4"],
    ("big_en_fr", "wmt14_en_fr", "test"): ["41.8"],
    ("c_n2", "wmt14_en_de", "valid"): ["23.7", "6.11", "36"],  # Table 3
    ("c_n2", "wmt14_en_de", "test"): [],
    ("big", "wmt14_en_fr", "test"): [],  # the paper's has another dropout there
    ("base", "wmt14_en_de", None): [],
}


@pytest.mark.parametrize(("kind", "printed"), PAPERS.items())
def test_a_run_has_the_papers_figures_of_its_row_and_test_set(make_run, kind, printed):
    made = MADE | dict(zip(("row", "corpus", "subset"), kind, strict=True))
    text = markdown(read_report([make_run("a", made)], 0))
    assert [cells[1] for cells in table_rows(text) if "the paper's own" in cells[0]] == printed
    assert text.count(OTHER_MEASURE) == bool(printed)


def test_runs_of_several_rows_each_have_their_own(make_run):
    runs = [
        make_run(row, MADE | {"row": row, "name": row, "averaged": averaged})
        for row, averaged in {"base": 7, "big": None, "tiny": 5}.items()
    ]
    text = markdown(read_report(runs, 0))
    (cells,) = (cells for cells in table_rows(text) if cells[0] == "BLEU, the paper's own")
    assert cells[1:] == ["27.3", "28.4", ""]
    assert dict(re.findall("Row (\\w+): Not as for the paper's figures: (.*)", text)) == {
        "base": "averaging 7 (paper: 5).",
        "big": "updates 100,000 (paper: 300,000), averaging not recorded.",
    }


def test_the_page_says_how_each_run_was_made(make_run):
    text = page(read_report([make_run("ours", MADE)], 0))
    section = text.partition("<summary>How aiayn-base-1 was made</summary>")[2]
    what = "row base, corpus wmt14_en_de, subset test, 4 sentences, vocabulary of 37,000, seed 1"
    assert section.split("\n")[2:8] == [
        f"- what: {what}, checkpoints averaged: 5",
        "- commit: `abc123+`",
        "- written: 2026-01-31T12:00:00+00:00",
        "- hardware: 2 × H1, X1, 16 cores, 128.0 GiB of memory, NVIDIA driver 550.1, CUDA 12.4",
        "- packages: torch 2.0, fairseq-fixed 0.12",
        "- wall time of training: 3:28:20, of that 2:46:40 in updates",
    ]
    fence = "````"  # longer than the one in the command
    commands = f"\n\n{fence}sh\n# train\nfairseq-train bin --note '```'\n# score\naiayn bleu\n"
    assert f"{commands}{fence}\n\n</details>\n" in section


SAME_START = {
    key: MADE[key]
    for key in ("commit", "packages", "hardware", "device", "gpus", "nodes", "written")
} | {"command": "fairseq-train bin"}
THE_REST = "X1, 16 cores, 128.0 GiB of memory, NVIDIA driver 550.1, CUDA 12.4"
ELSEWHERE = {"hardware": {"processor": "X2", "gpus": ["H2", "H2"]}}


@pytest.mark.parametrize(
    ("starts", "line"),
    [
        ([{"written": "2026-02-01", "command": "fairseq-train --fp16"}], None),
        ([{}, ELSEWHERE, {}], "on 2 × H2, X2, commit abc123+"),
        ([{"gpus": 1}, ELSEWHERE], f"on H1, {THE_REST}, commit abc123+; on 2 × H2, X2, commit ab"),
    ],
)
def test_the_page_says_of_later_starts_only_what_differs(make_run, starts, line):
    made = MADE | {"resumed": [SAME_START | start for start in starts]}
    text = page(read_report([make_run("ours", made)], 0))
    lines = [part for part in text.split("\n") if part.startswith("- resumed: ")]
    assert len(lines) == bool(line) and all(f"- resumed: {line}" in found for found in lines)


def test_examples_are_spread_over_the_test_set():
    assert equal_distances(4, 2) == [1, 3]
    assert equal_distances(4, 9) == [0, 1, 2, 3]
    assert equal_distances(4, 0) == []


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("settings.json", '{"system": ', "settings.json: expected JSON"),
        (
            "settings.json",
            '{"system": "x", "resumed": [{"hardware": "X1"}]}',
            "settings.json: resumed.0.hardware: expected an object, got 'X1'",
        ),
        ("score.json", '{"sentences": 4}', "score.json: sacrebleu: missing key"),
        (
            "train.log",
            "\n".join(RESUMED[:-1]),
            "train.log: must be the log of a finished training, lacks 'done training in'",
        ),
        ("train.log", f"{PARAMETERS}\n{END}", "train.log: must be written with --log-format"),
        ("valid.log", "", "valid.log: must have a JSON line with 'valid_ppl', has none"),
        ("hypothesis.txt", "x\n", "hypothesis.txt: expected the 4 sentences of score.json, got 1"),
    ],
)
def test_an_unfinished_piece_is_named(make_run, file, content, message):
    directory = make_run("ours", **{file: content})
    assert fault_of(read_run, directory).startswith(f"{directory}/{message}")


def test_runs_must_fit_together(make_run):
    ours = make_run("ours")
    kept = make_run("kept", **{"score.json": score(20, "paper|compounds:kept")})
    message = "signature of the paper's BLEU of .*ours, paper.1, got paper.compounds:kept"
    with pytest.raises(ValueError, match=message):
        read_report([ours, kept], 0)
    with pytest.raises(ValueError, match="expected another name than .*ours, got ours"):
        read_report([ours, ours], 0)
