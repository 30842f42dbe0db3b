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
from results_page import read_results
from run_directories import (
    f1_score,
    inner,
    markdown,
    numbered,
    page,
    score,
    table_rows,
    train_log,
    valid,
    valid_log,
    write_run,
    write_search,
)

from fairseq_aiayn import scores
from fairseq_aiayn.cli.main import main
from fairseq_aiayn.console import one_line
from fairseq_aiayn.report.curves import LINES, draw_learning_curves
from fairseq_aiayn.report.document import Code, Details, Table, Texts, as_html, as_markdown
from fairseq_aiayn.report.results import read_report
from fairseq_aiayn.runs.logs import SECONDS

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
    page = as_html("a <b>", HOSTILE, SECTIONS)
    assert not re.search("<(script|b|i|th|de|y)>", page)
    ours = ("a < b", "ours: on <X1>", "1 < 2", "<th>", "x --lang '<de>'", "--x <y>")
    assert all(words in unescape(page) for words in (one_line(HOSTILE), *ours))
    assert all(map(str.isprintable, page.split("\n"))), "U+202E turns the words around it"
    assert page.count("<code>") == 3  # two of ours, and the command


def test_no_words_become_markup_in_markdown():
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


def compare(output: Path, *words: object) -> dict[str, str]:
    assert main(["compare", *map(str, words), "--output", str(output)]) == 0
    return {path.name: path.read_text(encoding="utf-8") for path in output.iterdir()}


@pytest.mark.parametrize(("write", "number"), [(write_run, "27.31"), (write_search, "85.68")])
def test_the_command_prints_results_and_writes_three_files(tmp_path, capsys, write, number):
    runs = [write(tmp_path / "a"), write(tmp_path / "b", {"system": "stock"})]
    written, report = compare(tmp_path / "out", *runs, "--examples", 1), read_report(runs, 1)
    printed = capsys.readouterr()
    assert printed.out.startswith(markdown(report)) and not printed.err
    assert written.keys() == {"report.html", "table.json", "table.md"}
    assert written["table.md"].startswith("# a · b\n\n")
    assert written["table.md"].endswith(f"\n\n{page(report)}")
    assert f'<td class="number">{number}</td>' in written["report.html"]
    again = read_results(tmp_path / "out" / "table.json")
    assert (again.runs, again.examples) == (report.runs, report.examples)
    assert again.f1_differences == report.f1_differences
    (tmp_path / "x.json").write_text("{}")
    assert "x.json: kind: missing key" in fault_of(read_results, tmp_path / "x.json")


def test_what_was_trained_stands_under_the_title(tmp_path):
    """What runs have in common is said once, what a record lacks not at all."""
    commands = {"train": "fairseq-train bin --source-lang en --target-lang de"}
    later = {"device": "cpu", "written": "2026-02-03T01:02:03+00:00"}
    bare = dict.fromkeys(("corpus", "written", "device")) | {"hardware": {}, "commands": {}}
    runs = [
        write_run(tmp_path / name, made)
        for name, made in (("b", {"commands": commands} | later), ("a", {"commands": commands}))
    ]
    both = compare(tmp_path / "2", *runs, write_run(tmp_path / "c", bare | {"name": "a"}))
    lead = "Trained: wmt14_en_de, en → de, 2026-01-31 to 2026-02-03, X1 and 2 × H1"
    assert f"</h1>\n<p>{lead}</p>" in both["report.html"]
    assert both["table.md"].startswith(f"# {tmp_path}/b · {tmp_path}/a · {tmp_path}/c\n\n{lead}\n")
    assert "Trained" not in compare(tmp_path / "1", tmp_path / "c")["report.html"]


def test_a_comparison_needs_two_runs(tmp_path):
    right = numbered("what is right of sentence")
    log = train_log(100_000, inner(50_000, 9.0), inner(100_000, 8.0), valid(100_000, 7.5))
    stock = {"system": "stock", "commands": {"generate": "fairseq-generate bin --task translation"}}
    files = {"reference.txt": right, "train.log": log}
    ours = write_run(tmp_path / "ours", **files)
    theirs = write_run(tmp_path / "theirs", stock, **files, **{"hypothesis.txt": right})
    one = compare(tmp_path / "1", ours, "--examples", 0)
    both = compare(tmp_path / "2", ours, theirs)
    of_one, of_both = (re.findall("(?m)^## (.*)", each["table.md"]) for each in (one, both))
    assert of_one == ["Results", "What differs", "Learning curves", "How the runs were made"]
    assert of_both == [
        *("Results", "Significance", "What differs", "Learning curves"),
        *("Examples", "How the runs were made"),
    ]
    assert "| length penalty " in both["table.md"], "what stock does otherwise"
    assert " sacreBLEU ahead of ours: fewer than 100 sentences" in both["table.md"]
    examples = both["table.md"].partition("## Examples")[2]
    assert re.findall(r"Sentence (\d)", examples) == ["1", "2", "3", "4"], "all that there are"
    assert both["report.html"].count("<svg") == 1
    report = json.loads(both["table.json"])
    assert report["significance"]["systems"]["theirs"]["p_value"] < 0.05
    (chrf,) = (row for row in table_rows(both["table.md"]) if row[0] == "chrF")
    assert float(chrf[1]) < 90 and chrf[2] == "100.00"
    assert report["runs"][1]["chrf"]["score"] == 100


def test_chinese_is_compared_by_its_own_tokens(tmp_path, capsys):
    sides = [["我们今天去学校。", "他喜欢看书。"], ["我们今天去学校。", "他很喜欢看书。"]]
    names = ("hypothesis.txt", "reference.txt", "source.txt")
    files = {name: "\n".join([*s, ""]) for name, s in zip(names, [*sides, ["a", "b"]], strict=True)}
    files["score.json"] = json.dumps(asdict(scores.score(*sides, "zh")))
    runs = [write_run(tmp_path / f"zh-{seed}", {"seed": seed}, **files) for seed in (1, 2)]
    text = compare(tmp_path / "out", *runs)["report.html"]
    assert "85.82" in capsys.readouterr().out
    assert "tok:zh" in text and "tok:13a" not in text and "BLEU as the paper" not in text


OTHERS = numbered("other")
KEPT, SPLIT = score(20, "paper|kept"), score(20).replace("sacre|2", "sacre|3")
NEW = f1_score(20, parameters="new.prm")


@pytest.mark.parametrize(
    ("write", "files", "message"),
    [
        (write_run, {"source.txt": OTHERS}, r"expected the test set of FIRST, \w{64}, got \w{64}"),
        (write_run, {"reference.txt": OTHERS}, "expected the test set of FIRST"),
        (write_run, {"score.json": KEPT}, "the paper's BLEU of FIRST, paper.1, got paper.kept"),
        (write_run, {"score.json": SPLIT}, "of sacreBLEU of FIRST, sacre.2, got sacre.3"),
        (write_run, {"gold.trees": ""}, "/score.json: "),
        (write_search, {"words.txt": OTHERS}, "expected the test set of FIRST"),
        (write_search, {"gold.trees": OTHERS}, "expected the test set of FIRST"),
        (write_search, {"score.json": NEW}, "of EVALB of FIRST, COLLINS, got new.prm"),
    ],
)
def test_what_cannot_be_compared_is_one_line_and_leaves_nothing(
    tmp_path, refused, write, files, message
):
    first, other = write(tmp_path / "a"), write(tmp_path / "b", **files)
    line = refused("compare", first, other, "--output", tmp_path / "out")
    assert re.match(f"aiayn compare: {other}.*{message.replace('FIRST', str(first))}", line)
    line = refused("compare", first, "--output", tmp_path / "out", "--examples", "-1")
    assert "--examples: expected at least 0, got -1" in line
    assert "another name" in refused("compare", first, first, "--output", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_curves_are_an_element_of_the_page_in_its_colours():
    curves = {
        name: {key: {n: 10 / n for n in range(1, updates + 1)} for key in (*LINES, SECONDS)}
        for name, updates in {"<ours> $x^2$": 30, "b_c_": 9}.items()
    }
    svg = draw_learning_curves(curves)
    with rc_context({"text.usetex": True, "lines.color": "red", "axes.facecolor": "black"}):
        assert draw_learning_curves(curves) == svg, "whatever the user's matplotlibrc says"
    texts = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    words = ["".join(text.itertext()) for text in texts]
    assert "<ours> $x^2$" in words and "b_c_" in words and "learning rate" in words
    assert {"1", "10"} < {*words} and not [word for word in words if "mathdefault" in word]
    assert "currentColor" in svg and "#010203" not in svg


def test_development_scores_are_drawn_and_printed_where_they_were_measured(tmp_path):
    scored = [valid(50 * k, 8.0 / k)[:-1] + f', "valid_bleu": "{9 + k}.5"}}' for k in (1, 2)]
    runs = [
        write_run(tmp_path / name, **{"train.log": train_log(100, inner(10, 9.0), *lines)})
        for name, lines in (("scored", scored), ("plain", [valid(50, 7.0)]))
    ]
    both, plain = compare(tmp_path / "2", *runs), compare(tmp_path / "1", runs[1])
    assert ">development BLEU</text>" in both["report.html"]
    assert "development BLEU" not in plain["report.html"]
    rows = table_rows(both["table.md"])
    found = [(row[0], row[1], row[5]) for row in rows if len(row) == 6 and row[1] in ("50", "100")]
    assert found == [("scored", "50", "10.50"), ("scored", "100", "11.50"), ("plain", "50", "")]


def test_a_report_without_matplotlib_says_so_and_has_all_else(tmp_path, monkeypatch):
    log = train_log(100_000, inner(100, 9.0), valid(100, 8.0))
    run = write_run(tmp_path / "ours", **{"train.log": log})
    drawn = compare(tmp_path / "out", run)["table.md"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    without = compare(tmp_path / "out", run)["table.md"]
    assert "needs matplotlib (pip install matplotlib)" in without
    rows = table_rows(without)
    assert rows == table_rows(drawn) and any(row[:2] == ["ours", "100"] for row in rows)


def test_many_long_trainings_do_not_make_a_large_page(tmp_path):
    lines = [inner(100 * k, 9.0 / k) for k in range(1, 1_000)]
    lines += [valid(1_000 * k, 8.0 / k) for k in range(1, 100)]
    log = {"train.log": train_log(100_000, *lines)}
    runs = [write_run(tmp_path / f"run-{k}", {"seed": k}, **log) for k in range(12)]
    text = compare(tmp_path / "out", *runs)["report.html"]
    assert len(text.encode()) < 500_000
    assert all(f">run-{k}</text>" in text for k in range(12))


def test_a_training_that_diverged_is_called_so(tmp_path):
    """The JSON, which has no infinity, can be read by others, and again by us."""
    lines = [inner(10, 9.0), inner(20, math.nan), valid(20, math.inf)]
    files = {"train.log": train_log(100_000, *lines), "valid.log": valid_log(math.inf)}
    ours = write_run(tmp_path / "ours", **files)
    files["train.log"] = train_log(100_000, *lines, inner(30, 8.0))
    written = compare(tmp_path / "out", ours, write_run(tmp_path / "again", **files))
    assert "ours: the loss is not a number from update 20 on\n" in written["table.md"]
    assert "again: the loss is not a number from update 20 to 20\n" in written["table.md"]
    curves = json.loads(written["table.json"], parse_constant=pytest.fail)["curves"]["ours"]
    assert curves["loss"] == {"10": 9.0, "20": None}
    rows = table_rows(page(read_results(tmp_path / "out" / "table.json")))
    assert ["development perplexity", "nan", "nan"] in rows
