"""report/: Table 4 from searches with several parsers."""

import json
from pathlib import Path

import pytest
from run_directories import GOLD, SENTENCES, TREES, markdown, repairs, tables_of, write_search

from fairseq_aiayn.paper import TABLE_4
from fairseq_aiayn.report.pages import SECTION_23
from fairseq_aiayn.report.results import read_report
from fairseq_aiayn.report.significance import FEWEST

WSJ = "WSJ only, discriminative"
SEMI = "semi-supervised: 9,800 gold, 17,000 silver"
TRAIN = "fairseq-train --dropout 0.1 --attention-dropout=0.25 bin --dropout 0.3"


def tables(*searches: Path) -> list[list[list[str]]]:
    return tables_of(markdown(read_report(searches, 0)))


@pytest.mark.parametrize(
    ("corpus", "silver", "part", "sentences", "trained_on", "other_set"),
    [
        ("gum", 0, "test", SECTION_23, "gum: 9,800 gold", "corpus gum, subset test, 2,416"),
        ("wsj", 0, "valid", SECTION_23, f"{WSJ}: 9,800 gold", "corpus wsj, subset valid, 2,416"),
        ("wsj", 0, "test", 4, f"{WSJ}: 9,800 gold", "corpus wsj, subset test, 4"),
        ("wsj", 0, "test-constrained", SECTION_23, f"{WSJ}: 9,800 gold", None),
        ("wsj_semi_supervised", 17_000, "test", SECTION_23, SEMI, None),
        (None, 0, "test", 4, "not recorded: 9,800 gold", "corpus not recorded, subset test, 4"),
    ],
)
def test_the_papers_parsers_stand_as_printed_and_ours_with_its_corpus_below(
    tmp_path, corpus, silver, part, sentences, trained_on, other_set
):
    trees = {"../data.json": json.dumps(TREES | {"silver": silver})}
    search = write_search(tmp_path / "a", {"corpus": corpus}, part, sentences, **trees)
    text = markdown(read_report([search], 0))
    header, _, *paper, ours = tables_of(text)[0]
    assert header == ["parser", "training", "F1, paper", "F1, ours"]
    assert paper == [[row.parser, row.training, f"{row.f1:.1f}", ""] for row in TABLE_4]
    name = f"a {part}".removesuffix(" test")
    assert ours == [name, f"{trained_on} sentences", "", "85.68"]
    said = (
        "\n\nThe paper's F1 is of section 23 of the WSJ, 2,416 sentences; ours is of "
        f"{other_set} sentences: they do not compare.\n\n"
    )
    assert said in text if other_set else "compare" not in text


@pytest.mark.parametrize(
    ("sentences", "verdict"),
    [(FEWEST, "significant"), (FEWEST - 1, "fewer than 100 sentences are too few to say")],
)
def test_searches_are_tested_against_the_first(tmp_path, sentences, verdict):
    """Every sentence has F1 100 in the first search, and in the other 80: the NP is missing."""
    worse = f"{GOLD.replace('(NP (PRP I))', '(PRP I)')}\n" * sentences
    header, _, *rows = tables(
        write_search(tmp_path / "a", sentences=sentences),
        write_search(tmp_path / "b", sentences=sentences, **{"predicted.trees": worse}),
        write_search(tmp_path / "c", sentences=sentences),
    )[1]
    assert header == ["F1 against a", "difference", "95% interval", "p", "verdict"]
    assert [row[0] for row in rows] == ["b", "c"]
    assert rows[0][1:] == ["-20.00", "-20.00 to -20.00", "0.0001", verdict]
    assert rows[1][1:4] == ["+0.00", "+0.00 to +0.00", "1.0000"]


def test_one_search_and_one_sentence_need_no_test(tmp_path):
    assert len(tables(write_search(tmp_path / "a", **{"predicted.trees": None}))) == 2
    assert len(tables(*(write_search(tmp_path / name, sentences=1) for name in "bc"))) == 2


def test_details_have_a_column_a_run(tmp_path):
    files = {"repairs.json": repairs(SENTENCES, too_deep=2)}
    files["../data.json"] = json.dumps(TREES | {"tags": "XX"})
    files["seconds.json"] = json.dumps({"sentences": SENTENCES, "seconds": 0})
    made, own = {"commands": {"train": TRAIN}}, {"repairs.json": repairs(3, missing_words=1_200)}
    header, _, *rows = tables(
        write_search(tmp_path / "a", made, **own),
        write_search(tmp_path / "b", part="test-constrained", **files),
    )[-1]
    assert header == ["", "a", "b test-constrained"]
    ours, other = ({row[0]: row[column] for row in rows} for column in (1, 2))
    expected = {
        "row": "parsing",
        "gold trees": "9,800",
        "dropout": "0.3",  # the last of the command counts
        "attention dropout": "0.25",
        "word pieces": "7,001",
        "updates": "12,000",
        "development perplexity": "1.23",
        "recall": "14.00",
        "precision": "15.00",
        "F1, at most 40 words": "86.68",
        "tagging accuracy": "21.00",
        "well-formed before repair, %": "75.00",
        "repairs: missing words": "1,200",
        "repairs: too deep": "",
        "sentences parsed/s": "8.0",
    }
    assert {label: ours[label] for label in expected} == expected
    assert (other["repairs: missing words"], other["repairs: too deep"]) == ("", "2")
    assert other["well-formed before repair, %"] == "100.00"
    assert (other["tagging accuracy"], other["sentences parsed/s"]) == ("", "")
