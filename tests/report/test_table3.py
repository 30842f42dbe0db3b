"""recipes/table3/table.py: Table 3 from the run directories of several rows and seeds."""

import json
import re
from pathlib import Path

import pytest
from faults import fault_of
from recipe_runs import RECIPES, script
from run_directories import END, cells_of, markdown, score, train_log, valid_log, write_run

from fairseq_aiayn.paper import BASE, BIG, TABLE_3
from fairseq_aiayn.report.pages import OTHER_MEASURE
from fairseq_aiayn.report.results import read_table3


@pytest.fixture
def make_run(tmp_path):
    def make(row: str, seed: int = 1, made: dict | None = None, **files: str | None) -> Path:
        settings = {"row": row, "seed": seed, "subset": "valid", "averaged": 1}
        settings |= {"commands": {"train": f"fairseq-train --seed {seed}"}}
        files = {"train.log": train_log((BIG if row == "big" else BASE).steps)} | files
        return write_run(tmp_path / f"aiayn-{row}-{seed}", settings | (made or {}), **files)

    return make


def test_rows_stand_in_the_papers_order_with_its_cells(make_run):
    names = [row.name for row in reversed(TABLE_3)]
    lines = cells_of(markdown(read_table3([make_run(name) for name in names])))
    assert [line["row"] for line in lines] == [row.name for row in TABLE_3]
    for row, line in zip(TABLE_3, lines, strict=True):
        for symbol in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "ε_ls"):
            own, base = (getattr(one, symbol.replace("ε", "epsilon")) for one in (row, BASE))
            assert line[symbol] == (str(own) if row == BASE or own != base else "")
        figures = [line[f"{what}, paper"] for what in ("PPL", "BLEU", "10⁶ params")]
        paper = row.published
        assert figures == [f"{paper.ppl:.2f}", f"{paper.bleu:.1f}", str(paper.parameters or "")]
    assert lines[-1]["updates"] == "300,000"


def test_seeds_give_mean_and_sample_standard_deviation(make_run):
    runs = [
        make_run("base", seed, **{"score.json": score(bleu), "valid.log": valid_log(4 + seed / 10)})
        for seed, bleu in {1: 25.0, 2: 25.4, 3: 26.0}.items()
    ]
    worse = [make_run("c_n2", seed, **{"score.json": score(20 + seed / 10)}) for seed in (1, 2)]
    text = markdown(read_table3([*worse, make_run("c_n4"), *runs]))
    base, _, single = cells_of(text)
    assert (base["BLEU, ours"], base["sacreBLEU, ours"]) == ("25.47 ± 0.50", "24.47 ± 0.50")
    assert base["PPL, ours"] == "4.20 ± 0.10"
    assert (base["seeds"], base["10⁶ params, ours"]) == ("3", "6.6")
    assert (single["seeds"], single["BLEU, ours"], single["PPL, ours"]) == ("1", "27.31", "9.87")
    assert re.search(r"\| aiayn-c_n2, difference .*\| -5\.32 \(.*; p 0\.00\)", text)


def test_systems_stand_beside_one_another(make_run):
    made = {"system": "stock", "name": "stock-base-1"}
    made |= {"commands": {"train": "fairseq-train --encoder-attention-heads 4"}}
    runs = [make_run("c_n2"), make_run("base", 2, made), make_run("base")]
    text = markdown(read_table3(runs))
    assert cells_of(text)[1]["d_k"] == "128", "d_model / h"
    lines = [(line["row"], line["system"]) for line in cells_of(text)]
    assert lines == [("base", "aiayn"), ("base", "stock"), ("c_n2", "aiayn")]
    assert re.search("Rows without a finished run of stock: a_h1, .*, c_n2, ", text)


def test_what_differs_from_the_paper_is_said_below_the_table(make_run):
    text = markdown(read_table3([make_run("base"), make_run("big")]))
    assert "the paper's figures" not in text and text.count(OTHER_MEASURE) == 1
    made = {"corpus": "multi30k_en_de", "subset": "test", "averaged": 5}
    files = {"train.log": train_log(5_000), "valid.log": valid_log(5.0, 9_712)}
    made["commands"] = {"train": "fairseq-train --dropout 0.10 --decoder-embed-dim 128"}
    other = make_run("c_n2", made=made, **files)
    assert (
        "Not as for the paper's figures: corpus multi30k_en_de, subset test (paper: wmt14_en_de, "
        "valid), d_model 128 (paper: 512), updates 5,000 (paper: 100,000), vocabulary 9,712 types "
        "(paper: about 37,000), averaging 5 (paper: 1).\n"
    ) in (text := markdown(read_table3([other])))
    assert [cells_of(text)[0][name] for name in ("N", "d_model", "d_ff")] == ["2", "128", "2048"]


def test_unfinished_runs_and_missing_rows_are_named(make_run, tmp_path):
    killed = make_run("c_n2", **{"train.log": train_log(10).removesuffix(END)})
    early = make_run("c_n4", **{"settings.json": None})
    text = markdown(read_table3([make_run("base"), killed, early, tmp_path / "aiayn-c_n8-1"]))
    assert [line["row"] for line in cells_of(text)] == ["base"]
    reasons = text.partition("Not finished:\n\n")[2].split("\n")[:3]
    files = ("train.log: .* finished training", "settings.json", "settings.json")
    for row, file, reason in zip(("c_n2", "c_n4", "c_n8"), files, reasons, strict=True):
        assert re.match(f"- aiayn-{row}-1: .*{file}", reason)
    assert str(tmp_path) not in text
    missing = ", ".join(row.name for row in TABLE_3 if row.name != "base")
    assert f"\nRows without a finished run of aiayn: {missing}\n" in text


def test_the_script_prints_the_table_and_writes_it_with_its_runs(make_run, tmp_path):
    runs = [make_run("c_n2", 1), make_run("base", 2), make_run("base", 1), tmp_path / "absent"]
    table, output = RECIPES / "table3" / "table.py", tmp_path / "table"
    again = make_run("c_n4", made={"name": "aiayn-base-1"})
    line = f"{again}: expected another name than {runs[2]}, got aiayn-base-1"
    assert fault_of(read_table3, [*runs, again]) == line
    assert fault_of(read_table3, [make_run("tiny")]).endswith(", got tiny")
    done = script(table, *runs, "--output", output)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line["row"] for line in cells_of(done.stdout)] == ["base", "c_n2"]
    assert "- absent: " in done.stdout
    text = (output / "table3.md").read_text()
    assert text.startswith("# Table 3\n")
    assert done.stdout.partition("Not finished")[0] in text
    assert re.findall("<summary>How aiayn-(.*) was made", text) == ["base-2", "base-1", "c_n2-1"]
    assert "fairseq-train --seed 2\n" in text
    first, *_ = json.loads((output / "table3.json").read_text())["runs"]
    assert first["settings"]["commands"] == {"train": "fairseq-train --seed 2"}
