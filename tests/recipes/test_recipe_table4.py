"""`aiayn compare`: Table 4 from searches with several parsers."""

import hashlib
import json
from dataclasses import fields
from pathlib import Path

import pytest
from faults import fault_of
from run_directories import MADE, markdown, page, table_rows, train_log, valid_log

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.paper import TABLE_4
from fairseq_aiayn.report.pages import SECTION_23, sections
from fairseq_aiayn.report.results import read_report, read_results
from fairseq_aiayn.runs.run import read_run
from fairseq_aiayn.scores import FEWEST
from fairseq_aiayn.treebank.evalb import Summary

SENTENCES = 4
GOLD = "(TOP (S (NP (PRP I)) (VP (VBP sleep)) (. .)))"
TRAIN = "fairseq-train bin --dropout 0.1 --attention-dropout=0.25 --dropout 0.3"
DATA = {"gold": 9_800, "silver": 0, "tags": "pos"}
LABELS = {
    "NP": {"gold": 40, "predicted": 50, "matched": 30},
    "ADVP": {"gold": 1_040, "predicted": 0, "matched": 0},
    "X": {"gold": 0, "predicted": 3, "matched": 0},
}


def summary(f1: object, sentences: int = SENTENCES) -> dict[str, float]:
    """A summary of EVALB, in which no two figures are the same."""
    figures = {field.name: k + 0.25 for k, field in enumerate(fields(Summary), start=10)}
    counts = {field.name: k for k, field in enumerate(fields(Summary)) if field.type == "int"}
    return figures | counts | {"sentences": sentences, "f1": f1}


def score(f1: float, sentences: int = SENTENCES, **others: object) -> str:
    content = {"all": summary(f1, sentences), "short": summary(f1 + 1), "cutoff": 40}
    return json.dumps(content | {"parameters": "COLLINS", "labels": LABELS} | others)


def repairs(well_formed: int = 3, sentences: int = SENTENCES, **counts: object) -> str:
    """RepairReport's JSON, which has a count of every repair, also of those that never occurred."""
    counts = {name.replace("_", " "): count for name, count in ({"unclosed": 0} | counts).items()}
    content = {"sentences": sentences, "well_formed": well_formed, "repairs": counts}
    return json.dumps(content | {"sentences_with": counts})


@pytest.fixture
def make_part(tmp_path):
    """Return a function that writes RUN/PART as the recipe does; `files` replaces what is in some
    of them, or leaves them out."""

    def make(run="aiayn-parsing-1", part="test", made=None, sentences=SENTENCES, **files):
        settings = MADE | {"name": run, "row": "parsing", "corpus": "gum", "commands": {}}
        settings |= {"subset": part.split("-")[0], "commands": {"train": TRAIN}}
        seconds = {"sentences": sentences, "seconds": 0.5}
        contents = {
            "data.json": json.dumps(DATA),
            "train.log": train_log(12_000),
            "valid.log": "x | [words] dictionary: 7001 types\n" + valid_log(1.234, 60),
            f"{part}/settings.json": json.dumps(settings | (made or {})),
            f"{part}/words.txt": "I sleep .\n" * sentences,
            f"{part}/gold.trees": f"{GOLD}\n" * sentences,
            f"{part}/predicted.trees": f"{GOLD}\n" * sentences,
            f"{part}/score.json": score(85.678, sentences),
            f"{part}/repairs.json": repairs(sentences=sentences),
            f"{part}/seconds.json": json.dumps(seconds),
        }
        directory = tmp_path / run
        (directory / part).mkdir(parents=True)
        for file, content in contents.items():
            content = files.get(Path(file).name, content)
            if content is not None:
                (directory / file).write_text(content, encoding="utf-8")
        return directory / part

    return make


def tables_of(text: str) -> list[list[list[str]]]:
    """The tables of a Markdown text, each as its rows of cells."""
    return [rows for block in text.split("\n\n") if (rows := table_rows(block))]


def details(text: str, column: int = 1) -> dict[str, str]:
    """The lines of the last table of a summary as label to cell."""
    return {row[0]: row[column] for row in tables_of(text)[-1][2:]}


def test_a_search_is_read(make_part, monkeypatch):
    part = make_part("aiayn-x-1", "valid-constrained")
    monkeypatch.chdir(part)
    run, _ = read_run(Path())
    assert (run.name, run.part) == ("aiayn-x-1 valid-constrained", "valid-constrained")
    assert (run.dev_perplexity, run.vocabulary) == (1.234, 7001)
    assert run.training.updates == 12_000
    assert (run.scores.all.f1, run.scores.short.f1) == (85.678, 86.678)
    assert (run.repairs.share_well_formed, run.trees.gold) == (75.0, 9_800)
    both = (part / "words.txt").read_bytes() + (part / "gold.trees").read_bytes()
    assert run.test_set == hashlib.sha256(both).hexdigest()


def test_the_papers_parsers_stand_as_printed_and_ours_below(make_part):
    rows = tables_of(markdown(read_report([make_part()], 0)))[0]
    header, _, *paper, ours = rows
    assert header == ["parser", "training", "F1, paper", "F1, ours"]
    assert paper == [[row.parser, row.training, f"{row.f1:.1f}", ""] for row in TABLE_4]
    assert ours == ["aiayn-parsing-1", "gum: 9,800 gold sentences", "", "85.68"]


@pytest.mark.parametrize(
    ("corpus", "silver", "training"),
    [
        ("wsj", 0, "WSJ only, discriminative: 9,800 gold sentences"),
        ("wsj_semi_supervised", 17_000, "semi-supervised: 9,800 gold, 17,000 silver sentences"),
        (None, 0, "not recorded: 9,800 gold sentences"),
    ],
)
def test_training_is_in_the_papers_words_on_its_corpus(make_part, corpus, silver, training):
    data = json.dumps(DATA | {"silver": silver})
    part = make_part(made={"corpus": corpus}, **{"data.json": data})
    assert tables_of(markdown(read_report([part], 0)))[0][-1][1] == training


@pytest.mark.parametrize(
    ("corpus", "part", "sentences", "ours"),
    [
        ("gum", "test", SECTION_23, "corpus gum, subset test, 2,416 sentences"),
        ("wsj", "valid", SECTION_23, "corpus wsj, subset valid, 2,416 sentences"),
        ("wsj", "test", SENTENCES, "corpus wsj, subset test, 4 sentences"),
    ],
)
def test_f1_on_another_set_than_section_23_is_said_not_to_compare(
    make_part, corpus, part, sentences, ours
):
    text = markdown(read_report([make_part("a", part, {"corpus": corpus}, sentences)], 0))
    assert (
        "\n\nThe paper's F1 is of section 23 of the WSJ, 2,416 sentences; ours is of "
        f"{ours}: they do not compare.\n\n"
    ) in text
    made = make_part("x", "test-constrained", {"corpus": "wsj"}, SECTION_23)
    assert "compare" not in markdown(read_report([made], 0))


@pytest.mark.parametrize(
    ("sentences", "verdict"),
    [(FEWEST, "significant"), (FEWEST - 1, "fewer than 100 sentences are too few to say")],
)
def test_searches_are_tested_against_the_first(make_part, sentences, verdict):
    """Every sentence has F1 100 in the first search, and in the other 80: the NP is missing."""
    worse = GOLD.replace("(NP (PRP I))", "(PRP I)")
    runs = [
        make_part("a", sentences=sentences),
        make_part("b", sentences=sentences, **{"predicted.trees": f"{worse}\n" * sentences}),
        make_part("c", sentences=sentences),
    ]
    header, _, *rows = tables_of(markdown(read_report(runs, 0)))[1]
    assert header == ["F1 against a", "difference", "95% interval", "p", "verdict"]
    assert [row[0] for row in rows] == ["b", "c"]
    assert rows[0][1:] == ["-20.00", "-20.00 to -20.00", "0.0001", verdict]
    assert rows[1][1:4] == ["+0.00", "+0.00 to +0.00", "1.0000"]


def test_one_search_and_one_sentence_need_no_test(make_part):
    one = make_part(**{"predicted.trees": None})
    two = [make_part("a", sentences=1), make_part("b", sentences=1)]
    for runs in ([one], two):
        assert len(tables_of(markdown(read_report(runs, 0)))) == 2


def test_details_have_a_column_a_run(make_part):
    files = {"data.json": json.dumps(DATA | {"tags": "XX"}), "repairs.json": repairs(4, too_deep=2)}
    files["seconds.json"] = json.dumps({"sentences": SENTENCES, "seconds": 0})
    runs = [
        make_part("a", **{"repairs.json": repairs(missing_words=1_200)}),
        make_part("b", "test-constrained", **files),
    ]
    text = markdown(read_report(runs, 0))
    assert tables_of(text)[-1][0] == ["", "a", "b test-constrained"]
    ours, other = details(text), details(text, 2)
    expected = {
        "row": "parsing",
        "gold trees": "9,800",
        "dropout": "0.3",  # the last of the command counts
        "attention dropout": "0.25",
        "word pieces": "7,001",
        "F1, at most 40 words": "86.68",
        "well-formed before repair, %": "75.00",
        "repairs: missing words": "1,200",
        "repairs: too deep": "",
        "sentences parsed/s": "8.0",
    }
    assert {label: ours[label] for label in expected} == expected
    all_of_it = summary(85.678)
    for label in ("recall", "precision", "tagging accuracy"):
        assert ours[label] == f"{all_of_it[label.replace(' ', '_')]:.2f}"
    assert (other["repairs: missing words"], other["repairs: too deep"]) == ("", "2")
    assert other["well-formed before repair, %"] == "100.00"
    assert (other["tagging accuracy"], other["sentences parsed/s"]) == ("", "")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"words.txt": "You sleep .\n" * SENTENCES},
            r"b/test: expected the test set of .*a/test, \w{64}, got ",
        ),
        (
            {"score.json": score(1, parameters="new.prm")},
            "expected the parameters of EVALB of .*, COLLINS, got new.prm",
        ),
    ],
)
def test_runs_that_cannot_stand_in_one_table_are_refused(make_part, files, message):
    runs = [make_part("a"), make_part("b", **files)]
    with pytest.raises(ValueError, match=message):
        read_report(runs, 0)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("score.json", score(1, labels={"NP": {"gold": 1}}), "score.json: labels.NP.predicted: "),
        ("gold.trees", GOLD, "gold.trees: expected the 4 sentences of score.json, got 1"),
        (
            "repairs.json",
            repairs(too_deep="x"),
            "repairs.json: repairs.too deep: expected a valid ",
        ),
    ],
)
def test_a_file_that_breaks_a_rule_is_named_with_it(make_part, file, content, message):
    part = make_part(**{file: content})
    said = fault_of(read_run, part)
    assert said.startswith(str(part.parent)) and message in said


def test_the_command_prints_the_table_and_writes_it_with_its_runs(make_part, tmp_path, capsys):
    runs, output = [make_part("a"), make_part("b", made={"system": "stock"})], tmp_path / "table"
    assert main(["compare", *map(str, runs), "--output", str(output)]) == 0
    report = read_report(runs, 0)
    assert capsys.readouterr() == (markdown(report), "")
    assert (output / "table.md").read_text() == f"# a · b\n\n{page(report)}"
    results = read_results(output / "table.json")
    assert (results.runs, results.f1_differences) == (report.runs, report.f1_differences)
    assert list(sections(report)) == ["Results", "What differs", "How the runs were made"]
    assert '<td class="number">85.68</td>' in (output / "report.html").read_text()
