"""fairseq_aiayn/report: pages on runs, as HTML, Markdown and JSON, by `aiayn compare`."""

import json
import math
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import asdict
from html import unescape
from pathlib import Path

import pytest
from faults import fault_of
from matplotlib import rc_context
from run_directories import MADE, inner, page, table_rows, train_log, valid, valid_log, write_run

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.report.curves import LINES, draw_learning_curves
from fairseq_aiayn.report.document import Code, Details, Table, Texts, as_html, as_markdown
from fairseq_aiayn.report.results import read_report, read_results
from fairseq_aiayn.runs.logs import SECONDS
from fairseq_aiayn.scores import score
from fairseq_aiayn.text import one_line

FILES = ["report.html", "table.json", "table.md"]
HOSTILE = (
    "</script><script>alert('x')</script> &amp; *b* _u_ `c` | ~~s~~ [l](x) \u202e\u05d0 e\u0301 \r"
)
SECTIONS = {
    "One & two": [
        ["see ", Code("--x <y>"), f", a < b {HOSTILE}"],
        f"ours: on <X1> {HOSTILE}",
        Table(["", "<th>", HOSTILE], [["row", "1 < 2", HOSTILE]]),
        Texts("Sentence 1", [("source", HOSTILE)]),
        Details(
            "How a <b> was made",
            {"what": [Code("c"), ", <i> \u202e"]},
            {"train": "x --lang '<de>' \u2066"},
        ),
    ]
}


def test_no_words_become_markup_in_html():
    """Breaks if anything that a corpus or a user wrote is not escaped."""
    page = as_html("a <b>", SECTIONS)
    assert not re.search("<(script|b|i|th|de|y)>", page)
    ours = ("a < b", "ours: on <X1>", "1 < 2", "<th>", "x --lang '<de>'", "--x <y>")
    assert all(words in unescape(page) for words in (one_line(HOSTILE), *ours))
    assert all(map(str.isprintable, page.split("\n"))), "U+202E turns the words around it"
    assert page.count("<code>") == 3  # two of ours, and the command


def test_no_words_become_markup_in_markdown():
    """Breaks if a name or an option can end a cell, or make code, a link, a heading or HTML."""
    hostile = one_line(HOSTILE).strip()
    lines = as_markdown(SECTIONS).split("\n")
    texts = [line.strip("| ") for line in lines if "alert" in line]
    assert len(texts) == 5, "each on one line"
    for escaped in texts:
        assert not re.search(r"(?<!\\)[<*_\[\]~`]", escaped.replace("`--x <y>`", ""))
        assert hostile in re.sub(r"\\(.)", r"\1", escaped) and escaped.isprintable()
    (row,) = (line for line in lines if line.startswith("| row"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 4
    assert "\\&amp;" in row and "- `c`, \\<i>" not in lines


@pytest.fixture
def make_run(tmp_path):
    """Return a function that writes a run with curves; `files` as in write_run."""

    def make(name: str, system: str = "aiayn", seed: int = 1, **files: str | None) -> Path:
        lines = [inner(50_000, 9.0), inner(100_000, 8.0), valid(100_000, 7.5)]
        log = "\n".join([*lines, train_log(100_000)])
        task = "translation" if system == "stock" else "aiayn_translation"
        commands = MADE["commands"] | {"generate": f"fairseq-generate bin --task {task}"}
        made = MADE | {"name": name, "system": system, "seed": seed, "commands": commands}
        return write_run(tmp_path / name, made, **({"train.log": log} | files))

    return make


def compare(*arguments: object) -> int:
    return main(["compare", *map(str, arguments)])


def sections(folder: Path) -> list[str]:
    """The headings of the page."""
    return re.findall("(?m)^## (.*)", (folder / "table.md").read_text())


def test_two_systems_are_compared_in_three_files(make_run, tmp_path, capsys):
    right, out = "".join(f"what is right of sentence {k}\n" for k in range(4)), tmp_path / "out"
    runs = [
        make_run("ours", **{"reference.txt": right}),
        make_run("theirs", "stock", **{"reference.txt": right, "hypothesis.txt": right}),
    ]
    assert compare(*runs, "--output", out) == 0
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert capsys.readouterr().out in (out / "table.md").read_text()
    assert sections(out) == [
        *("Results", "Significance", "What differs", "Learning curves"),
        *("Where translations differ most", "Examples", "How the runs were made"),
    ]
    assert "| length penalty " in (out / "table.md").read_text(), "what stock does otherwise"
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 1
    assert page.count("theirs (100.0)") == 4, "chrF of a translation that is right"
    report = json.loads((out / "table.json").read_text())
    assert report["curves"]["ours"]["loss"] == {"50000": 9.0, "100000": 8.0}
    assert report["significance"]["systems"]["theirs"]["p_value"] < 0.05
    (chrf,) = (row for row in table_rows((out / "table.md").read_text()) if row[0] == "chrF")
    assert float(chrf[1]) < 90 and chrf[2] == "100.00"
    assert [run["chrf"]["score"] for run in report["runs"]][1] == 100


def test_results_come_from_the_json_again(make_run, tmp_path):
    """Breaks if a figure of a table is not in its JSON, which has no infinity; another file is
    named."""
    run = make_run("ours", **{"valid.log": valid_log(math.inf)})
    assert compare(run, "--output", tmp_path / "out", "--examples", 1) == 0
    report, again = read_report([run], 1), read_results(tmp_path / "out" / "table.json")
    assert again.examples == report.examples
    assert again.runs[0].settings == report.runs[0].settings
    assert again.runs[0].bleu == report.runs[0].bleu
    rows = table_rows(page(again))
    assert ["development perplexity", "nan"] in rows
    (tmp_path / "x.json").write_text("{}")
    assert "x.json: kind: missing key" in fault_of(read_results, tmp_path / "x.json")


def test_chinese_is_compared_by_its_own_tokens(make_run, tmp_path, capsys):
    """Breaks if the paper's BLEU, which does not apply, is needed anywhere."""
    sides = [["我们今天去学校。", "他喜欢看书。"], ["我们今天去学校。", "他很喜欢看书。"]]
    names = ("hypothesis.txt", "reference.txt", "source.txt")
    files = {name: "\n".join([*s, ""]) for name, s in zip(names, [*sides, ["a", "b"]], strict=True)}
    files["score.json"] = json.dumps(asdict(score(*sides, "zh")))
    runs = [make_run(f"zh-{seed}", seed=seed, **files) for seed in (1, 2)]
    assert compare(*runs, "--output", tmp_path / "table") == 0
    assert "85.82" in capsys.readouterr().out
    page = (tmp_path / "table" / "report.html").read_text(encoding="utf-8")
    assert "tok:zh" in page and "tok:13a" not in page and "BLEU as the paper" not in page


def test_one_run_has_a_page_without_comparisons(make_run, tmp_path):
    assert compare(make_run("ours"), "--output", tmp_path, "--examples", "0") == 0
    titles = set(sections(tmp_path))
    assert titles >= {"Results", "Learning curves", "How the runs were made"}
    assert not titles & {"Significance", "Examples", "Where translations differ most"}


def test_seeds_of_one_system_do_not_disagree(make_run, tmp_path):
    """Breaks if the page's few examples go to differences between seeds."""
    right, wrong = ("".join(f"{word} {k}\n" for k in range(4)) for word in ("reference", "x"))
    runs = [
        make_run("one", **{"hypothesis.txt": wrong}),
        make_run("two", seed=2, **{"hypothesis.txt": right}),
        make_run("stock", "stock", **{"hypothesis.txt": wrong}),
    ]
    assert compare(*runs, "--output", tmp_path / "out") == 0
    assert "Where translations differ most" not in sections(tmp_path / "out")


def test_development_scores_are_drawn_and_printed_where_they_were_measured(make_run, tmp_path):
    scored = [valid(50 * k, 8.0 / k)[:-1] + f', "valid_bleu": "{9 + k}.5"}}' for k in (1, 2)]
    runs = [
        make_run(name, **{"train.log": "\n".join([inner(10, 9.0), *lines, train_log(100)])})
        for name, lines in (("scored", scored), ("plain", [valid(50, 7.0)]))
    ]
    assert compare(*runs, "--output", tmp_path / "out") == 0
    assert ">development BLEU</text>" in (tmp_path / "out" / "report.html").read_text()
    rows = table_rows((tmp_path / "out" / "table.md").read_text())
    found = [(row[0], row[1], row[5]) for row in rows if len(row) == 6 and row[1] in ("50", "100")]
    assert found == [("scored", "50", "10.50"), ("scored", "100", "11.50"), ("plain", "50", "")]
    assert compare(runs[1], "--output", tmp_path / "other") == 0
    assert "development BLEU" not in (tmp_path / "other" / "report.html").read_text()


@pytest.mark.parametrize(
    ("files", "message"),
    [({"reference.txt": "other\n" * 4}, ": .* test set"), ({"gold.trees": ""}, "/score.json: ")],
)
def test_what_cannot_be_compared_is_one_line_and_leaves_nothing(
    make_run, tmp_path, refused, files, message
):
    runs = [make_run("ours"), make_run("theirs", **files)]
    line = refused("compare", *runs, "--output", tmp_path / "out")
    assert re.match(f"aiayn compare: {runs[1]}.*{message}", line)
    line = refused("compare", runs[0], "--output", tmp_path / "out", "--examples", "-1")
    assert "--examples: expected at least 0, got -1" in line
    assert not (tmp_path / "out").exists()


def test_curves_are_an_element_of_the_page_in_its_colours():
    curves = {
        name: {key: {n: 10 / n for n in range(1, updates + 1)} for key in (*LINES, SECONDS)}
        for name, updates in {"<ours> $x^2$": 30, "b_c_": 9}.items()
    }
    svg = draw_learning_curves(curves)
    with rc_context({"text.usetex": True, "lines.color": "red", "axes.facecolor": "black"}):
        assert draw_learning_curves(curves) == svg, "whatever the user's matplotlibrc says"
    root = ET.fromstring(svg)
    words = [
        "".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "<ours> $x^2$" in words and "b_c_" in words and "learning rate" in words
    assert "currentColor" in svg and "#010203" not in svg


def test_a_report_without_matplotlib_says_so_and_has_all_else(make_run, tmp_path, monkeypatch):
    log = "\n".join([inner(100, 9.0), valid(100, 8.0), train_log(100_000)])
    run, pages = make_run("ours", **{"train.log": log}), []
    for curves in (True, False):
        if not curves:
            monkeypatch.setitem(sys.modules, "matplotlib", None)
        assert compare(run, "--output", tmp_path) == 0
        pages.append((tmp_path / "table.md").read_text())
    assert "needs matplotlib (pip install matplotlib)" in pages[1]
    first, second = map(table_rows, pages)
    assert first == second and any(list(row[:2]) == ["ours", "100"] for row in second)


def test_many_long_trainings_do_not_make_a_large_page(make_run, tmp_path):
    """Breaks if every validation gets a dot and a line of a table, or lines share no budget."""
    lines = [inner(100 * k, 9.0 / k) for k in range(1, 3_000)]
    lines += [valid(1_000 * k, 8.0 / k) for k in range(1, 300)]
    log = "\n".join([*lines, train_log(100_000)])
    runs = [make_run(f"run-{k}", seed=k, **{"train.log": log}) for k in range(12)]
    assert compare(*runs, "--output", tmp_path / "out") == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert len(page.encode()) < 1_000_000
    assert all(f">run-{k}</text>" in page for k in range(12))


def test_a_training_that_diverged_is_called_so(make_run, tmp_path):
    lines = [inner(10, 9.0), inner(20, math.nan), valid(20, math.inf)]
    runs = [
        make_run("ours", **{"train.log": "\n".join([*lines, train_log(100_000)])}),
        make_run("again", **{"train.log": "\n".join([*lines, inner(30, 8.0), train_log(100_000)])}),
    ]
    assert compare(*runs, "--output", tmp_path / "out") == 0
    page = (tmp_path / "out" / "table.md").read_text()
    assert "ours: the loss is not a number from update 20 on\n" in page
    assert "again: the loss is not a number from update 20 to 20\n" in page
    report = (tmp_path / "out" / "table.json").read_text()
    curves = json.loads(report, parse_constant=pytest.fail)["curves"]["ours"]
    assert curves["loss"] == {"10": 9.0, "20": None}
