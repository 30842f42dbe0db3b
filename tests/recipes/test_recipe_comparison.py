"""`aiayn compare` on run directories as a recipe leaves them."""

import argparse
import json
import re

import pytest
from faults import fault_of
from run_directories import (
    END,
    MADE,
    PARAMETERS,
    epoch,
    markdown,
    read_comparison,
    score,
    table_rows,
    train_log,
    write_run,
)

from fairseq_aiayn.cli import compare
from fairseq_aiayn.report.document import blocks_as_markdown
from fairseq_aiayn.report.pages import choose_examples
from fairseq_aiayn.report.tables import (
    OTHER_MEASURE,
    Results,
    full_blocks,
    results_as_json,
    results_from_json,
)
from fairseq_aiayn.runs.record import settings_from_json
from fairseq_aiayn.runs.run import Texts, read_run

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


def report(comparison: Results) -> str:
    """What is written, with how each run was made."""
    return blocks_as_markdown(full_blocks(comparison))


@pytest.fixture
def make_run(tmp_path):
    def make(name: str, made: dict | None = None, **files: str | None):
        settings = {"system": name, "packages": {"torch": "2"}} if made is None else made
        return write_run(tmp_path / name, settings, **files)

    return make


def column(text: str, name: str) -> dict[str, str]:
    """The labels of a table with what stands beside them under `name`."""
    header, *rows = table_rows(text)
    return {row[0]: row[header.index(name)] for row in rows}


def test_a_run_is_read(make_run):
    run = read_run(make_run("ours", **{"train.log": "\n".join(RESUMED)})).run
    assert run.name == "ours"
    assert run.training.parameters == 6_578_176
    assert run.training.updates == 151
    assert run.training.seconds == 62
    assert run.training.wall_seconds == 45 + 40 + 2
    assert run.training.tokens_per_second == pytest.approx((100 * 900 + 51 * 600) / 62, rel=0.01)
    assert (run.dev_perplexity, run.vocabulary) == (9.87, 37_000)
    assert run.translation.bleu.score == 27.314


def test_older_settings_and_logs_will_do(make_run):
    run = read_run(
        make_run("ours", {"system": "ours"}, **{"valid.log": '{"valid_ppl": "3"}\n'})
    ).run
    assert (run.name, run.settings.row, run.vocabulary) == ("ours", None, None)
    assert "4 sentences\n" in markdown(read_comparison([make_run("other", {"system": "x"})], 0))


def test_the_command_prints_and_writes_the_table(make_run, tmp_path, capsys):
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    output = tmp_path / "table"
    runs = [str(make_run("ours")), str(make_run("stock"))]
    compare.run(parser.parse_args([*runs, "--output", str(output), "--examples", "2"]))
    printed = capsys.readouterr().out
    file = (output / "table.md").read_text()
    assert file.startswith(printed)
    assert "Sentence 2" in printed and "was made" not in printed
    assert file.count("was made</summary>") == 2
    assert table_rows(printed)[0] == ["", "ours", "stock"]
    measured = column(printed, "stock")
    assert measured["parameters"] == "6,578,176"
    assert measured["BLEU as the paper's"] == "27.31"
    assert (measured["seconds of training"], measured["wall time of training"]) == (
        "10,000",
        "3:28:20",  # 100,000 updates of 1,000 tokens at 8,000 tokens/s
    )
    assert "sacre|2" in printed and "paper|1" in printed
    data = json.loads((output / "table.json").read_text())
    assert [run["settings"]["name"] for run in data["runs"]] == ["ours", "stock"]
    assert data["examples"][1]["translations"] == {"ours": "ours 3", "stock": "stock 3"}


def test_several_seeds_have_a_mean_above_the_table(make_run):
    """Of tokens only where all have it. Examples and commands of one seed are enough."""
    runs = []
    for seed, bleu in ((1, 27.0), (2, 29.0)):
        settings = MADE | {"name": f"run-{seed}", "seed": seed}
        scores = score(bleu, tokens=bleu + 10)
        runs.append(make_run(f"run-{seed}", settings, **{"score.json": scores}))
    text = report(read_comparison(runs, 1))
    header, _, cells = table_rows(text)[:3]
    cells = dict(zip(header, cells, strict=True))
    assert (cells["mean ± standard deviation"], cells["seeds"]) == ("run", "1, 2")
    assert "- run-1: " in text and "- run-2: " not in text
    assert re.findall("How (.*) was made", text) == ["run-1"]
    assert cells["BLEU of tokens"] == "38.00 ± 1.41"
    assert cells["BLEU as the paper's"] == "28.00 ± 1.41"
    assert "BLEU of tokens: `tok|3`" in text
    alone = make_run("alone", MADE | {"name": "alone", "seed": 3})
    header, _, cells = table_rows(markdown(read_comparison([*runs, alone], 0)))[:3]
    cells = dict(zip(header, cells, strict=True))
    assert "BLEU of tokens" not in cells
    assert (cells["mean ± standard deviation"], cells["seeds"]) == ("run, alone", "1, 2, 3")


def test_a_table_can_be_made_again_from_its_json(make_run):
    comparison = read_comparison([make_run("ours", MADE), make_run("stock")], 2)
    content = json.loads(json.dumps(results_as_json(comparison)))
    again = results_from_json(content, "table.json")
    assert again == comparison
    assert report(again) == report(comparison)
    assert "source 2" not in json.dumps(content), "the texts but for the examples stay out"


@pytest.mark.parametrize(
    ("row", "corpus", "subset", "printed"),
    [
        ("base", "wmt14_en_de", "test", {"BLEU as the paper's": "27.3", "updates": "100,000"}),
        ("base", "wmt14_en_fr", "test", {"BLEU as the paper's": "38.1", "updates": "100,000"}),
        ("big", "wmt14_en_de", "test", {"BLEU as the paper's": "28.4", "updates": "300,000"}),
        ("big_en_fr", "wmt14_en_fr", "test", {"BLEU as the paper's": "41.8", "updates": "300,000"}),
        (
            "c_n2",
            "wmt14_en_de",
            "valid",
            {
                "parameters": "36 × 10⁶",
                "updates": "100,000",
                "development perplexity": "6.11",
                "BLEU as the paper's": "23.7",
            },
        ),
    ],
)
def test_the_papers_column_has_what_the_paper_prints(make_run, row, corpus, subset, printed):
    made = MADE | {"row": row, "corpus": corpus, "subset": subset}
    stock = made | {"name": "stock"}
    text = markdown(read_comparison([make_run("a", made), make_run("b", stock)], 0))
    assert table_rows(text)[0] == ["", "aiayn-base-1", "stock", "paper"]
    cells = column(text, "paper")
    assert {label: cell for label, cell in cells.items() if cell.strip("-: ")} == printed
    assert text.count(OTHER_MEASURE) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"row": "tiny"},
        {"row": "c_n2"},  # Table 2 has no such row
        {"row": "big", "corpus": "wmt14_en_fr"},  # the paper's has another dropout there
        {"corpus": "multi30k_en_de"},
        {"subset": None},
    ],
)
def test_there_is_no_such_column_where_the_paper_prints_nothing(make_run, other):
    text = markdown(read_comparison([make_run("a", MADE | other)], 0))
    assert table_rows(text)[0] == ["", "aiayn-base-1"]
    assert "The paper's figures" not in text
    assert OTHER_MEASURE not in text


def test_nor_for_runs_of_different_rows(make_run):
    runs = [make_run("a", MADE), make_run("b", MADE | {"row": "big", "name": "b"})]
    text = markdown(read_comparison(runs, 0))
    assert "paper" not in table_rows(text)[0]
    assert text.count(OTHER_MEASURE) == 1  # for each run's own figure of the paper
    made = MADE | {"subset": "test", "averaged": 7}
    runs = [make_run(row, made | {"row": row, "name": row}) for row in ("base", "big", "tiny")]
    text = markdown(read_comparison(runs, 0))
    assert re.findall(
        r"^Row (\w+): The paper's figures are of newstest2014", text, re.MULTILINE
    ) == [*("base", "big")], "a figure of the paper stands beside conditions that are not its own"


def test_the_report_says_how_each_run_was_made(make_run):
    text = report(read_comparison([make_run("ours", MADE)], 0))
    section = text.partition("<summary>How aiayn-base-1 was made</summary>")[2]
    what = "row base, corpus wmt14_en_de, subset test, vocabulary of 37,000, seed 1"
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
        ([], None),
        ([{"written": "2026-02-01", "command": "fairseq-train --fp16"}], None),
        ([{}, ELSEWHERE], "2 times, on 2 × H2, X2"),
        ([{"hardware": {}}], "once, on hardware not recorded"),
        ([ELSEWHERE | {"commit": "def"}], "once, on 2 × H2, X2, of commit `def`"),
        ([{"commit": "d"}, {"commit": None}, {}], "3 times, of commits `d` and not recorded"),
        ([{"gpus": 1}, ELSEWHERE, {"gpus": 1}], f"3 times, on H1, {THE_REST} and on 2 × H2, X2"),
    ],
)
def test_the_report_says_of_later_starts_only_what_differs(make_run, starts, line):
    made = MADE | {"resumed": [SAME_START | start for start in starts]}
    comparison = read_comparison([make_run("ours", made)], 0)
    text = report(comparison)
    content = json.loads(json.dumps(results_as_json(comparison)))
    assert report(results_from_json(content, "table.json")) == text
    lines = [part for part in text.split("\n") if part.startswith("- resumed: ")]
    assert lines == ([f"- resumed: {line}"] if line else [])


@pytest.mark.parametrize(
    ("commit", "lines"), [(None, 0), (MADE["commit"], 0), ("other", 1)], ids=str
)
def test_an_evaluation_by_another_commit_is_said(make_run, commit, lines):
    made = MADE | {"evaluated_by": commit}
    text = report(read_comparison([make_run("ours", made)], 0))
    assert text.count("\n- evaluated: by commit `other`\n") == lines == text.count("- evaluated:")


@pytest.mark.parametrize(
    ("resumed", "message"),
    [
        ("once", "resumed: expected a valid array, got 'once'"),
        ([5], "resumed.0: expected an object, got 5"),
        ([{"hardware": "X1"}], "resumed.0.hardware: expected an object, got 'X1'"),
    ],
)
def test_later_starts_that_are_none_are_refused(resumed, message):
    with pytest.raises(ValueError, match=f"^settings.json: {message}"):
        settings_from_json({"system": "x", "resumed": resumed}, "settings.json")


def test_machines_are_named_once_or_each(make_run):
    cpu = {"name": "on-cpu", "device": "cpu", "gpus": 0}
    runs = [make_run("a", MADE), make_run("b", MADE | {"name": "same"}), make_run("c", MADE | cpu)]
    gpus = "4 sentences (wmt14_en_de, test); trained on 2 × H1; torch 2.0, fairseq-fixed 0.12"
    assert f"\n{gpus}\n" in markdown(read_comparison(runs[:2], 0))
    text = markdown(read_comparison(runs, 0))
    assert f"- aiayn-base-1, same: {gpus}\n- on-cpu: " in text
    assert "trained on X1, 16 cores;" in text


def test_examples_are_spread_over_the_test_set():
    lines = tuple("abcd")
    texts = {"ours": Texts(lines, lines, lines)}
    assert [example.sentence for example in choose_examples(texts, 2)] == [2, 4]
    assert [example.sentence for example in choose_examples(texts, 9)] == [1, 2, 3, 4]
    assert choose_examples(texts, 0) == []


def test_no_name_or_text_becomes_html(make_run):
    name = "<img src=x>&lt;"
    hardware = MADE["hardware"] | {"processor": "<b>X1</b>", "gpus": []}
    run = make_run("bad", MADE | {"name": name, "device": "cpu", "hardware": hardware})
    (run / "source.txt").write_text("<script>alert(1)</script>\n" * 4)
    text = report(read_comparison([run], 2))
    assert "\\<img src=x>\\&lt;" in text
    text = text.replace("\\<", "")
    assert not re.search("<(?!/?details>|/?summary>)", text)


def test_a_pipe_does_not_break_the_table(make_run):
    run = make_run("ours", MADE | {"name": "a|b"}, **{"source.txt": "a | b\n" * 4})
    text = markdown(read_comparison([run], 1))
    assert "- source: a | b" in text
    assert "a\\|b" in text.split("\n")[0]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("settings.json", '{"system": ', "settings.json: expected JSON"),
        ("settings.json", "{}", "settings.json: system: missing key"),
        ("settings.json", "[]", "settings.json: expected an object, got []"),
        (
            "settings.json",
            '{"system": "x", "row": 5}',
            "settings.json: row: expected a valid string, got 5",
        ),
        ("score.json", '{"sentences": 4}', "score.json: paper: missing key"),
        ("score.json", "[]", "score.json: expected an object, got []"),
        (
            "score.json",
            score(27.0).replace("27.0", '"27"', 1),
            "score.json: paper.score: expected a valid number, got '27'",
        ),
        (
            "score.json",
            score(27.0).replace("[60.0", '["60"', 1),
            "score.json: paper.precisions.0: expected a valid number, got '60'",
        ),
        (
            "train.log",
            "\n".join(RESUMED[:-1]),
            "train.log: must be the log of a finished training, lacks 'done training in'",
        ),
        (
            "train.log",
            train_log(10) + "\n" + PARAMETERS,
            "train.log: must be the log of a finished training",
        ),
        ("train.log", f"{PARAMETERS}\n{END}", "train.log: must be written with --log-format"),
        ("valid.log", "", "valid.log: must have a JSON line with 'valid_ppl', has none"),
        ("hypothesis.txt", "x\n", "hypothesis.txt: must have the 4 lines of source.txt, has 1"),
    ],
)
def test_an_unfinished_piece_is_named(make_run, file, content, message):
    directory = make_run("ours", **{file: content})
    assert fault_of(read_run, directory).startswith(f"{directory}/{message}")


def test_a_missing_piece_is_named(make_run):
    with pytest.raises(OSError, match="hypothesis.txt"):
        read_run(make_run("ours", **{"hypothesis.txt": None}))


def test_runs_must_fit_together(make_run):
    ours = make_run("ours")
    other = make_run("other", **{"reference.txt": "x\n" * 4})
    with pytest.raises(ValueError, match="other: must have the test set of .*ours, [0-9a-f]{64}"):
        read_comparison([ours, other], 0)
    kept = make_run("kept", **{"score.json": score(20, "paper|compounds:kept")})
    message = "signature of the paper's BLEU of .*ours, paper.1, has paper.compounds:kept"
    with pytest.raises(ValueError, match=message):
        read_comparison([ours, kept], 0)
    with pytest.raises(ValueError, match="different names, got ours, ours"):
        read_comparison([ours, ours], 0)
