"""report/: pages on translations, with the paper's figures of their rows."""

import re

import pytest
from run_directories import cells_of, markdown, numbered, page, score, table_rows, write_run

from fairseq_aiayn.report.pages import OTHER_MEASURE
from fairseq_aiayn.report.results import read_report

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
def test_a_run_has_the_papers_figures_of_its_row_and_test_set(tmp_path, kind, printed):
    made = dict(zip(("row", "corpus", "subset"), kind, strict=True))
    text = markdown(read_report([write_run(tmp_path / "a", made)], 0))
    assert [cells[1] for cells in table_rows(text) if "the paper's own" in cells[0]] == printed
    assert text.count(OTHER_MEASURE) == bool(printed)


def test_runs_of_several_rows_each_have_their_own(tmp_path):
    runs = [
        write_run(tmp_path / row, {"row": row, "averaged": averaged})
        for row, averaged in {"base": 7, "big": None, "tiny": 5}.items()
    ]
    text = markdown(read_report(runs, 0))
    (cells,) = (cells for cells in table_rows(text) if cells[0] == "BLEU, the paper's own")
    assert cells[1:] == ["27.3", "28.4", ""]
    assert dict(re.findall("Row (\\w+): Not as for the paper's figures: (.*)", text)) == {
        "base": "averaging 7 (paper: 5).",
        "big": "updates 100,000 (paper: 300,000), averaging not recorded.",
    }


def test_several_seeds_have_a_mean_above_the_table(tmp_path):
    """Of tokens only where all have it. Examples and commands of one seed are enough."""
    wrong = {"hypothesis.txt": numbered("x"), "score.json": score(27.0, tokens=37.0)}
    right = {"hypothesis.txt": numbered("reference"), "score.json": score(29.0, tokens=39.0)}
    first = write_run(tmp_path / "run-1", **wrong)
    second = write_run(tmp_path / "run-2", {"seed": 2}, **right)
    text = page(read_report([first, second], 2))
    (cells,) = cells_of(text)
    assert (cells["mean ± standard deviation"], cells["seeds"]) == ("run", "1, 2")
    assert cells["BLEU of tokens"] == "38.00 ± 1.41"
    assert cells["BLEU as the paper's"] == "28.00 ± 1.41"
    assert "BLEU of tokens: `tok|3`" in text
    examples = text.partition("## Examples")[2]
    assert re.findall(r"Sentence (\d)", examples) == ["2", "4"], "at equal distances"
    assert "- source: source 1\n- reference: reference 1\n- run-1: x 1\n\n" in examples
    assert re.findall("How (.*) was made", text) == ["run-1"]
    stock = write_run(tmp_path / "stock", {"system": "stock"}, **wrong | {"score.json": score(28)})
    text = page(read_report([first, second, stock], 1))
    assert "BLEU of tokens" not in cells_of(text)[0]


# The fence is longer than the one in the command
COMMANDS = "\n````sh\n# train\nfairseq-train bin --note '```'\n# score\naiayn bleu\n````\n"


def test_the_page_says_how_each_run_was_made(tmp_path):
    text = page(read_report([write_run(tmp_path / "ours")], 0))
    section = text.partition("<summary>How ours was made</summary>\n\n")[2]
    assert section.partition(f"{COMMANDS}\n</details>\n")[0].splitlines() == [
        *("- row: base", "- corpus: wmt14_en_de", "- subset: test", "- sentences: 4"),
        *("- vocabulary: 37,000", "- seed: 1", "- checkpoints averaged: 5", "- commit: abc123+"),
        *("- written: 2026-01-31T12:00:00+00:00", "- GPUs: 2 × H1", "- processor: X1"),
        *("- cores: 16", "- memory_gib: 128.0", "- driver: 550.1", "- cuda: 12.4"),
        *("- torch: 2.0", "- fairseq-fixed: 0.12"),
        *("- wall time of training: 3:28:20", "- of that in updates: 2:46:40"),
    ]
