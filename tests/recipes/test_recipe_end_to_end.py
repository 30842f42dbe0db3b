"""Whole runs of recipes for French, from archives to scores: a few updates on a miniature."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from recipe_runs import (
    RECIPES,
    SHORT,
    Corpus,
    finish,
    lines_of,
    make_corpus,
    mirrored,
    stages_run,
)

RUN = "aiayn-tiny-1"
TEXT_STAGES = [
    *("0-set_up", "1-download", "2-held_out", "2-clean", "3-pieces", "3-apply", "4-binarize")
]
RUN_STAGES = ["5-train", "6-average", "7-translate", "8-score"]


@dataclass(frozen=True)
class Whole:
    """A recipe that ran from its archives to its scores."""

    corpus: Corpus
    exp: Path
    said: str


@pytest.fixture(scope="module")
def french(tmp_path_factory) -> Iterator[Whole]:
    directory = tmp_path_factory.mktemp("wmt14_en_fr")
    corpus = make_corpus("wmt14_en_fr", directory / "mirror", "fr", 300)
    done = finish(mirrored(corpus, directory / "exp", *SHORT))
    yield Whole(corpus, directory / "exp", done.stderr)
    shutil.rmtree(directory)  # half a gigabyte


def test_word_pieces_end_as_a_score_of_plain_text(french):
    stages = [*TEXT_STAGES, *(f"{stage}-{RUN}" for stage in RUN_STAGES)]
    assert stages_run(french.said) == stages
    assert "▁" in (french.exp / "pieces" / "train.fr").read_text()

    run = french.exp / RUN
    source, reference = french.corpus.pairs["newstest2014"]
    assert lines_of(run / "source.txt") == source
    assert lines_of(run / "reference.txt") == reference
    hypothesis = lines_of(run / "hypothesis.txt")
    assert len(hypothesis) == len(reference) == 12
    assert any(hypothesis) and not any("▁" in line for line in hypothesis)

    score = json.loads((run / "score.json").read_text())
    assert score["sentences"] == 12
    assert "tok:sacremoses-0.2.0-fr" in score["paper"]["signature"]
    (row,) = json.loads((run / "table.json").read_text())["runs"]
    assert row["training"]["updates"] == 6
    assert row["bleu"]["score"] == score["paper"]["score"]
    assert "| BLEU as the paper's " in (run / "table.md").read_text()


def test_a_score_comes_with_how_it_was_made(french):
    settings = json.loads((french.exp / RUN / "settings.json").read_text())
    expected = {
        "name": RUN,
        "system": "aiayn",
        "row": "tiny",
        "corpus": "wmt14_en_fr",
        "subset": "test",
        "averaged": 2,
        "seed": 1,
        "device": "cpu",
        "gpus": 1,
        "nodes": 1,
    }
    assert {key: settings[key] for key in expected} == expected
    commands = settings["commands"]
    assert list(commands) == ["train", "average", "validate", "generate", "score"]
    assert "--max-tokens 256 --update-freq 1" in commands["train"]
    for command in ("validate", "generate"):
        assert f" --path {french.exp}/{RUN}/average.pt " in commands[command]


def test_a_row_of_table_3_is_measured_on_multi30k_from_its_archives(tmp_path):
    corpus = make_corpus("multi30k", tmp_path / "mirror", "fr", 300)
    exp = tmp_path / "exp"
    own = ["--corpus", "multi30k", "--rows", "c_n2", "--max_update", "1", "--needs_mb", "1"]
    passed = mirrored(corpus, exp, "--batch_tokens", "256")[3:]  # without script and --exp
    words = [str(RECIPES / "table3" / "run.sh"), "--exp", str(exp), *own, "--"]
    result = finish([*words, *passed])
    run_stages = [f"{stage}-aiayn-c_n2-1" for stage in RUN_STAGES if stage != "6-average"]
    stages = ["1-text", *TEXT_STAGES, "2-train", "0-set_up", *run_stages]
    assert stages_run(result.stderr) == stages

    downloads = {path.name for path in (exp / "text" / "downloads").iterdir()}
    texts = ("train", "val", "test_2016_flickr")
    assert downloads == {f"{text}.{language}.gz" for text in texts for language in ("en", "fr")}
    assert "@@ " in (exp / "text" / "pieces" / "train.fr").read_text()
    hypothesis = lines_of(exp / "aiayn-c_n2-1" / "hypothesis.txt")
    assert len(hypothesis) == 20 and not any("@@" in line for line in hypothesis)
    (run,) = json.loads((exp / "table3.json").read_text())["runs"]
    made = {"row": "c_n2", "corpus": "multi30k_en_fr", "subset": "valid", "averaged": 1}
    assert {key: run["settings"][key] for key in made} == made
    assert (run["training"]["updates"], run["sentences"]) == (1, 20)
    shutil.rmtree(exp)  # half a gigabyte
