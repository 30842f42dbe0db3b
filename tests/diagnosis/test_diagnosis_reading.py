"""diagnosis/reading.py: what the files of trainings say, whole, cut off or unsafe."""

from __future__ import annotations

import json
from argparse import Namespace

import pytest
import torch
from intruder import Intruder
from run_directories import MADE, write_log, write_run
from trainings import configuration_line, parsed, save_checkpoint, stock_words

from fairseq_aiayn.diagnosis.evidence import read_evidence

WORDS = [*stock_words()]
JSON_LINE = '{"epoch": 1, "wps": "9", "wpb": "3500", "num_updates": "%d", "loss_scale": "64"}'
SIMPLE = (
    "2023-01-01 | INFO | train_inner | epoch 001:  10 / 99 loss=9, wpb=%s, num_updates=%d, lr=1"
)
VALIDATED = (
    "2023-01-01 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 4 | wpb 1500.3 | bsz 60"
)
OLD = "| epoch 001 | loss 9.3 | ppl 600 | wps 20000 | wpb 3587.4 | num_updates 1102 | lr 1"


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a train.log and reads it."""
    return lambda *lines: read_evidence(write_log(tmp_path, *lines))


def test_a_log_in_json(log):
    found = log(
        configuration_line(WORDS),
        "[de] dictionary: 37008 types",
        "training on 8 devices (GPUs/TPUs)",
        *(JSON_LINE % number for number in (100, 200, 300)),
        '{"epoch": 1, "valid_wpb": "9", "valid_num_updates": "300"}',
        "NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 32.0",
    )
    assert (found.updates, found.tokens_per_update, found.gpus) == (300, 3500, 8)
    assert (found.overflows, found.gave_up_scaling, found.vocabulary) == (1, False, 37_008)
    assert found.number("encoder_layers") == 6
    assert found.text("lr_scheduler") == "inverse_sqrt"


@pytest.mark.parametrize(
    ("lines", "updates", "tokens"),
    [
        ([SIMPLE % ("3,500.5", 10)], 10, 3500.5),
        ([OLD], 1102, 3587.4),
        (
            [SIMPLE % ("3500", 10), SIMPLE % ("3600", 20), "2023-01-01 | INFO | train_inner | ep"],
            20,
            3550,
        ),
        ([VALIDATED, SIMPLE % ("3500", 10), VALIDATED, VALIDATED], 10, 3500),
        ([], None, None),
    ],
)
def test_logs_of_other_formats_and_versions(log, lines, updates, tokens):
    old = f"2020-01-01 | INFO | fairseq_cli.train | {parsed(WORDS)}"
    found = log(old, *lines)
    assert (found.updates, found.tokens_per_update) == (updates, tokens)
    assert found.number("max_tokens") == 3125


def test_the_last_start_with_a_readable_configuration_counts(log):
    first, second = (configuration_line([*WORDS, "--seed", seed]) for seed in ("1", "2"))
    assert log(first, second[:900], "{'_name': None, [1]: 2}").number("seed") == 1
    assert log(first, second).number("seed") == 2


def test_groups_of_options_as_hydra_writes_them(log):
    """Without a Namespace: sizes in parts of the model, values that refer to others."""
    groups = {
        "_name": None,
        "optimization": {"_name": None, "lr": [0.0007], "update_freq": [2], "max_update": 9},
        "dataset": {"max_tokens": 3584},
        "distributed_training": {"distributed_world_size": 4},
        "generation": {"beam": 5, "lenpen": 1.0},
        "model": {
            "_name": "transformer",
            "encoder": {"layers": 6, "embed_dim": 512, "ffn_embed_dim": 2048, "attention_heads": 8},
            "decoder": {"layers": 6, "embed_dim": 512, "ffn_embed_dim": 2048, "attention_heads": 8},
            "dropout": 0.3,
        },
        "lr_scheduler": {
            "_name": "inverse_sqrt",
            "warmup_updates": 4000,
            "lr": "${optimization.lr}",
        },
        "criterion": {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1},
    }
    found = log(repr(groups))
    assert found.number("encoder_ffn_embed_dim") == 2048
    assert (found.number("lr"), found.text("arch")) == (0.0007, "transformer")
    assert found.text("criterion") == "label_smoothed_cross_entropy"
    assert "beam" not in found.options


def test_checkpoints_of_old_and_new_fairseq(tmp_path):
    weights = {
        "encoder.version": torch.ones(1),
        "encoder.embed_tokens.weight": torch.ones(9, 4),
        "encoder.layers.0.self_attn.q_proj.bias": torch.ones(4),
        "decoder.embed_tokens.weight": torch.ones(7, 4),
    }
    weights["decoder.output_projection.weight"] = weights["decoder.embed_tokens.weight"]
    old = save_checkpoint(tmp_path / "old.pt", {"args": parsed(WORDS)}, **weights)
    new = save_checkpoint(
        tmp_path / "new.pt", {"args": None, "cfg": {"model": parsed(WORDS), "task": {"x": 1}}}
    )
    found = read_evidence(old)
    assert (found.updates, found.vocabulary) == (70, 7)
    assert found.projection_biases
    assert not read_evidence(new).projection_biases
    assert read_evidence(new).options == {**found.options, "x": 1}


def test_of_a_directory_of_checkpoints_the_last_counts(tmp_path):
    for name, layers in (("best", 2), ("last", 3)):
        options = parsed([*WORDS, "--encoder-layers", str(layers)])
        save_checkpoint(tmp_path / f"checkpoint_{name}.pt", {"args": options})
    assert read_evidence(tmp_path).number("encoder_layers") == 3


def test_the_output_of_fairseq_generate(tmp_path):
    generation = {"generation": {"beam": 5, "lenpen": 1.0}, "common_eval": {"post_process": "@@ "}}
    generation |= {"dataset": {"gen_subset": "valid", "required_batch_size_multiple": 8}}
    groups = {"_name": None, "task": {"_name": "aiayn_translation"}, "model": None} | generation
    lines = [
        f"2023 | INFO | fairseq_cli.generate | {groups!r}",
        "S-1\tx",
        "H-1\t-1\ty",
        "H-0\t-1\tz",
        "H-0\t-2\tof --nbest 2",
    ]
    (tmp_path / "generate.log").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "train.log").write_text(configuration_line(WORDS), encoding="utf-8")
    found = read_evidence(tmp_path / "train.log", tmp_path / "generate.log", "tok:13a")
    assert (found.search["beam"], found.search["post_process"]) == (5, "@@ ")
    assert found.is_our_search and found.search["required_batch_size_multiple"] == 8
    assert (found.translated, found.subset, found.signature) == (2, "valid", "tok:13a")


def test_a_run_directory_of_the_recipes(tmp_path):
    run = write_run(tmp_path / "run", MADE)
    log = run / "train.log"
    log.write_text(f"{configuration_line(WORDS)}\n{log.read_text()}", encoding="utf-8")
    found = read_evidence(run)
    settings = json.loads((run / "settings.json").read_text())
    names = ("name", "row", "corpus", "subset", "averaged")
    assert [getattr(found, name) for name in names] == [settings.get(name) for name in names]
    assert found.signature and found.translated


def test_other_files_are_refused_in_one_line(tmp_path, refused):
    empty, words, cut = (tmp_path / name for name in ("empty", "words", "cut.pt"))
    empty.mkdir()
    words.write_text("no training\n", encoding="utf-8")
    whole = save_checkpoint(cut, {"args": parsed(WORDS)}).read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    log = write_log(tmp_path, configuration_line(WORDS))
    for arguments, message in (
        ([empty], "must have a settings.json"),
        ([words], "has no configuration of fairseq-train"),
        ([cut], "truncated"),
        ([tmp_path / "none"], "No such file"),
        ([log, "--generate", words], "has no configuration of fairseq-generate"),
        ([log, "--row", "huge"], "unknown row 'huge'"),
    ):
        assert message in refused("diagnose", *arguments)


def test_nothing_in_a_checkpoint_is_executed(tmp_path, refused):
    mark = tmp_path / "mark"
    path = save_checkpoint(tmp_path / "evil.pt", {"args": Namespace(arch=Intruder(mark))})
    assert "refused, it asks for posix.system" in refused("diagnose", path)
    assert not mark.exists()


def test_an_option_may_be_a_tensor(tmp_path, aiayn):
    """Breaks if it is compared as it is: which of its values would count?"""
    options = parsed(WORDS)
    options.slowmo_momentum = torch.ones(3)
    path = save_checkpoint(tmp_path / "odd.pt", {"args": options})
    assert aiayn("diagnose", path)[0] == 0
