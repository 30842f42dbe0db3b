"""diagnosis/evidence.py: what the files of trainings say, whole, cut off or unsafe."""

import json
from argparse import Namespace

import pytest
import torch
from checkpoint_states import Intruder
from run_directories import MADE, write_log, write_run
from trainings import configuration_line, parsed, save_checkpoint, stock_words

from fairseq_aiayn.diagnosis.evidence import read_evidence

WORDS = [*stock_words()]
INNER = "2023-01-01 | INFO | train_inner | epoch 001:  10 / 99 loss=9, wpb=%s, num_updates=%d, lr=1"
VALIDATED = "x | epoch 001 | valid on 'valid' subset | loss 4 | wpb 1500.3 | bsz 60"
OLD = "| epoch 001 | loss 9.3 | ppl 600 | wps 20000 | wpb 3587.4 | num_updates 1102 | lr 1"


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a train.log and reads it."""
    return lambda *lines: read_evidence(write_log(tmp_path, *lines))


@pytest.mark.parametrize(
    ("lines", "updates", "tokens"),
    [
        ([OLD], 1102, 3587.4),
        ([INNER % ("3,500", 10), INNER % ("3600", 20), "x | train_inner | ep"], 20, 3550),
        ([VALIDATED, INNER % ("3500", 10), VALIDATED], 10, 3500),
        ([], None, None),
    ],
)
def test_a_log_says_how_far_it_came_and_on_what(log, lines, updates, tokens):
    said = ("[en] dictionary: 9 types", "[de] dictionary: 7 types", "training on 8 GPUs")
    found = log(f"2020-01-01 | INFO | fairseq_cli.train | {parsed(WORDS)}", *said, *lines)
    assert (found.updates, found.tokens_per_update) == (updates, tokens)
    assert (found.gpus, found.vocabulary, found.number("max_tokens")) == (8, 7, 3125)


def test_groups_of_options_as_hydra_writes_them(log):
    """Without a Namespace: sizes in parts of the model, values that refer to others."""
    groups = {
        "_name": None,
        "optimization": {"_name": None, "lr": [0.0007], "update_freq": [2]},
        "generation": {"beam": 5, "lenpen": 1.0},
        "model": {"_name": "transformer", "encoder": {"ffn_embed_dim": 2048}, "dropout": 0.3},
        "lr_scheduler": {"_name": "inverse_sqrt", "lr": "${optimization.lr}"},
    }
    found = log(repr(groups))
    assert (found.number("encoder_ffn_embed_dim"), found.number("lr")) == (2048, 0.0007)
    assert (found.text("arch"), found.text("lr_scheduler")) == ("transformer", "inverse_sqrt")
    assert "beam" not in found.options


def test_checkpoints_of_old_and_new_fairseq_of_which_the_last_counts(tmp_path):
    weights = {f"{side}.embed_tokens.weight": torch.ones(n, 4) for side, n in (("e", 9), ("d", 7))}
    old = save_checkpoint(tmp_path / "checkpoint_last.pt", {"args": parsed(WORDS)}, **weights)
    groups = {"args": None, "cfg": {"model": parsed(WORDS), "task": {"x": 1}}}
    new = save_checkpoint(tmp_path / "checkpoint_best.pt", groups)
    found = read_evidence(old)
    assert (found.updates, found.vocabulary) == (70, 7)
    assert read_evidence(new).options == {**found.options, "x": 1}
    assert "x" not in read_evidence(tmp_path).options


def test_the_output_of_fairseq_generate(log, tmp_path):
    groups = {"_name": None, "task": {"_name": "aiayn_translation"}, "model": None}
    groups |= {"generation": {"beam": 5, "lenpen": 1.0}, "common_eval": {"post_process": "@@ "}}
    lines = [
        f"2023 | INFO | {groups!r}",
        "S-1\tx",
        "H-1\t-1\ty",
        "H-0\t-1\tz",
        "H-0\t-2\tof --nbest",
    ]
    (tmp_path / "out").write_text("\n".join(lines), encoding="utf-8")
    log(configuration_line(WORDS))
    found = read_evidence(tmp_path / "train.log", tmp_path / "out", "tok:13a")
    assert (found.search["beam"], found.search["post_process"]) == (5, "@@ ")
    assert (found.is_ours("search"), found.translated, found.signature) == (True, 2, "tok:13a")


def test_a_run_directory_of_the_recipes(tmp_path):
    run = write_run(tmp_path / "run", MADE)
    log = run / "train.log"
    log.write_text(f"{configuration_line(WORDS)}\n{log.read_text()}", encoding="utf-8")
    found, settings = read_evidence(run), json.loads((run / "settings.json").read_text())
    for name in ("name", "row", "corpus", "averaged"):
        assert getattr(found, name) == settings.get(name)
    assert found.signature and found.translated


def test_other_files_are_refused_in_one_line(tmp_path, refused):
    empty, words, cut = (tmp_path / name for name in ("empty", "words", "cut.pt"))
    empty.mkdir()
    words.write_text("no training\n", encoding="utf-8")
    cut.write_bytes(save_checkpoint(cut, {"args": parsed(WORDS)}).read_bytes()[:900])
    mark, log = tmp_path / "mark", write_log(tmp_path, configuration_line(WORDS))
    evil = save_checkpoint(tmp_path / "evil.pt", {"args": Namespace(arch=Intruder(mark))})
    for arguments, message in (
        ([empty], "checkpoint_last.pt: No such file"),
        ([words], "neither a configuration of fairseq-train"),
        ([cut], "truncated"),
        ([evil], "refused, it asks for posix.system"),
        ([log, "--generate", words], "has neither options"),
    ):
        assert message in refused("diagnose", *arguments)
    assert not mark.exists()
