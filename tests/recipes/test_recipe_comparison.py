"""`aiayn compare` on run directories as a recipe leaves them."""

import json

import pytest

from fairseq_aiayn.cli import compare
from fairseq_aiayn.evaluation.comparison import choose_examples, read_run, read_runs
from fairseq_aiayn.evaluation.comparison_table import markdown

SCORE = {
    "sentences": 4,
    "paper": {"score": 27.314, "signature": "paper|1"},
    "sacrebleu": {"score": 26.5, "signature": "sacre|2"},
}


def epoch(number: int, updates: int, tokens: float, seconds: int) -> str:
    return json.dumps(
        {
            "epoch": number,
            "train_num_updates": str(updates),
            "train_wpb": str(tokens),
            "train_train_wall": str(seconds),
        }
    )


LOG = [
    "num. shared model params: 6,578,176 (num. trained: 6,578,176)",
    '{"epoch": 1, "num_updates": "10", "wpb": "1", "train_wall": "5"}',
    epoch(1, 100, 900.0, 30),
    '{"epoch": 2, "num_upda',  # killed here, then resumed
    "num. shared model params: 6,578,176 (num. trained: 6,578,176)",
    epoch(2, 150, 600.0, 30),
    "done training in 61.2 seconds",
]


@pytest.fixture
def make_run(tmp_path):
    def make(name: str, **files: object):
        directory = tmp_path / name
        directory.mkdir()
        contents = {
            "settings.json": json.dumps({"system": name, "packages": {"torch": "2"}}),
            "train.log": "\n".join(LOG),
            "valid.log": 'x | INFO | valid | {"epoch": 1, "valid_ppl": "9.87"}\n',
            "score.json": json.dumps(SCORE),
            "source.txt": "".join(f"source {k}\n" for k in range(4)),
            "reference.txt": "".join(f"reference {k}\n" for k in range(4)),
            "hypothesis.txt": "".join(f"{name} {k}\n" for k in range(4)),
        }
        for file, content in {**contents, **files}.items():
            if content is not None:
                (directory / file).write_text(content)
        return directory

    return make


def test_a_run_is_read(make_run):
    run = read_run(make_run("ours"))
    assert run.name == "ours"
    assert run.training.parameters == 6_578_176
    assert run.training.updates == 150
    assert run.training.seconds == 60
    assert run.training.tokens_per_second == pytest.approx((100 * 900 + 50 * 600) / 60)
    assert run.dev_perplexity == 9.87
    assert run.bleu["score"] == 27.314


def test_the_command_prints_and_writes_the_table(make_run, tmp_path, capsys):
    import argparse

    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    output = tmp_path / "table"
    runs = [str(make_run("ours")), str(make_run("stock"))]
    compare.run(parser.parse_args([*runs, "--output", str(output), "--examples", "2"]))
    printed = capsys.readouterr().out
    assert printed == (output / "table.md").read_text()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in printed.split("\n")]
    assert ["", "ours", "stock"] in cells
    assert ["parameters", "6,578,176", "6,578,176"] in cells
    assert ["BLEU as the paper's", "27.31", "27.31"] in cells
    assert "sacre|2" in printed and "paper|1" in printed
    data = json.loads((output / "table.json").read_text())
    assert [run["name"] for run in data["runs"]] == ["ours", "stock"]
    assert data["runs"][0]["tokens_per_second"] == pytest.approx(2000)
    assert data["examples"][1]["translations"] == {"ours": "ours 3", "stock": "stock 3"}
    assert sorted(path.name for path in output.iterdir()) == ["table.json", "table.md"]


def test_examples_are_spread_over_the_test_set(make_run):
    runs = [read_run(make_run("ours"))]
    assert [example.sentence for example in choose_examples(runs, 2)] == [2, 4]
    assert [example.sentence for example in choose_examples(runs, 9)] == [1, 2, 3, 4]
    assert choose_examples(runs, 0) == []


def test_a_pipe_in_a_text_does_not_break_the_table(make_run):
    run = read_run(make_run("ours", **{"source.txt": "a | b\n" * 4}))
    assert "- source: a | b" in markdown([run], choose_examples([run], 1))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("settings.json", '{"system": ', "settings.json: must be JSON, is not or is cut short"),
        ("settings.json", "{}", "settings.json: must have 'system', has not"),
        ("score.json", '{"paper": {}}', "score.json: must have 'sacrebleu', has not"),
        ("train.log", "\n".join(LOG[:-1]), "train.log: must be the log of a finished training"),
        ("train.log", "\n".join((LOG[0], LOG[-1])), "train.log: must be written with --log-format"),
        ("valid.log", "", "valid.log: must have a JSON line with 'valid_ppl', has none"),
        ("hypothesis.txt", "x\n", "hypothesis.txt: must have the 4 lines of source.txt, has 1"),
    ],
)
def test_an_unfinished_piece_is_named(make_run, file, content, message):
    directory = make_run("ours", **{file: content})
    with pytest.raises(ValueError) as error:
        read_run(directory)
    assert str(error.value).startswith(f"{directory}/{message}")


def test_a_missing_piece_is_named(make_run):
    with pytest.raises(OSError, match="hypothesis.txt"):
        read_run(make_run("ours", **{"hypothesis.txt": None}))


def test_runs_must_fit_together(make_run):
    ours = make_run("ours")
    other = make_run("other", **{"reference.txt": "x\n" * 4})
    with pytest.raises(ValueError, match="other: must have the test set of .*ours, has another"):
        read_runs([ours, other])
    with pytest.raises(ValueError, match="different names, got ours, ours"):
        read_runs([ours, ours])
