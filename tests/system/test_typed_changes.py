"""Whatever `aiayn diagnose` says to type is taken by fairseq, for stock's models and for ours."""

import contextlib
import io
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import fork_server
import pytest
from fairseq import options
from fairseq_commands import PLUGIN, SMALL, TRANSLATE, environment
from patience import PATIENCE

from fairseq_aiayn.diagnosis.diagnosis import diagnose
from fairseq_aiayn.diagnosis.evidence import Evidence, read_evidence
from fairseq_aiayn.paper import ROWS

STOCK = ["--task", "translation", "--arch", "transformer_tiny", "--cpu", "--optimizer", "adam"]
STOCK += ["--criterion", "label_smoothed_cross_entropy", "--lr-scheduler", "inverse_sqrt"]
STOCK += ["--lr", "0.001", "--max-tokens", "256", "--num-workers", "0", "--log-format", "json"]
SEARCH = "fairseq-generate ... "
SEARCHED = {
    "stock": f"{' '.join(PLUGIN)} --task translation --cpu --path",
    "ours": f"{' '.join(TRANSLATE)} --path",
}
KINDS = {"stock": STOCK, "ours": [*PLUGIN, *SMALL]}
# In what a training may differ; what is no option of a kind is not judged for it
DIFFERENT = [
    {"arch": "lightconv"},
    {"task": "language_modeling", "restore_file": "/x/model.pt"},
    {"lr_scheduler": "fixed"},
    {"lr": [0.9], "lr_factor": 9.0, "warmup_updates": 7},
    {"optimizer": "sgd", "criterion": "cross_entropy"},
    {"adam_betas": "(0.9, 0.999)", "clip_norm": 1.0, "weight_decay": 0.1},
    {"dropout": 0.5, "attention_dropout": 0.5, "activation_dropout": 0.5, "patience": 3},
    {"label_smoothing": 0.3, "amp": True, "batch_size": 2, "max_epoch": 3, "max_update": 9},
    {"encoder_layers": 9, "encoder_normalize_before": True, "activation_fn": "gelu"},
    {"no_token_positional_embeddings": True, "initialization": "x"},
    {"share_all_embeddings": False, "untied_embeddings": True},
]
SEARCHES = [
    {"task": task, "beam": 9, "lenpen": 9.0, "max_len_a": 0, "max_len_b": 9, "post_process": None}
    for task in ("translation", "aiayn_translation")
]
# What is also said of the lines of a log
LINES = """x | bin train en-de 900 examples
NOTE: gradient overflow detected
Minimum loss scale reached
ran out of memory, skipping
train: 9 of 9 pairs are left out by --max-tokens 9
x | epoch 001 | valid on 'valid' subset | loss 1 | ppl 9 | num_updates 2
x | epoch 001 | valid on 'valid' subset | loss 9 | ppl 9 | num_updates 3
"""


def said_of(run: Evidence, lines: Evidence) -> set[str]:
    others = [replace(run, options={**run.options, **changed}) for changed in DIFFERENT]
    others += [replace(run, search=search, averaged=1, signature="x") for search in SEARCHES]
    others += [replace(others[10], types=types, missing=3) for types in ([9, 7], [9])]
    found = [diagnose(other, ROWS["tiny"]) for other in (run, *others)]
    named = {name for one in found for name, each in one.findings.items() if each.change}
    assert len(named) > 20, "nearly every aspect says what to type"
    said = {each.change for one in found for each in (*one.events, *one.findings.values())}
    return said | {event.change for event in diagnose(lines, ROWS["base"]).events} - {""}


def shell(line: str, folder: Path) -> None:
    own = environment() | {"PATH": f"{fork_server.programs()}:{os.environ['PATH']}"}
    how = {"capture_output": True, "text": True, "timeout": PATIENCE, "env": own}
    done = subprocess.run(["bash", "-euc", line], check=False, cwd=folder, **how)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def typed(change: str) -> str:
    return change.partition("without ")[0].rstrip(", ").removeprefix(SEARCH)


@pytest.mark.needs_repairs
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_to_be_typed_works(kind, data_bin, tmp_path):
    """Options one by one with fairseq's parser, and all in one training or search; commands."""
    base, log = " ".join(KINDS[kind]), tmp_path / "train.log"
    for name in ("train.en", "train.de", "valid.en", "valid.de"):
        shutil.copy(data_bin.parent / name, tmp_path)
    saved = "--save-dir saved --save-interval-updates 1 --no-epoch-checkpoints --max-update 5"
    shell(f"fairseq-train {data_bin} {base} {saved} > train.log", tmp_path)
    run = read_evidence(log)
    log.write_text(log.read_text() + LINES)
    said = said_of(run, read_evidence(log))
    of_train = [change for change in said if change.startswith(("--", "without"))]
    of_search = [change for change in said if change.startswith(SEARCH)]
    assert len(of_train) > 12 and len(of_search) > 4
    for change in of_train:
        words = typed(change).replace("$(aiayn user-dir)", PLUGIN[1]).split()
        parser = options.get_training_parser("translation")
        with contextlib.redirect_stderr(io.StringIO()):
            options.parse_args_and_arch(parser, ["data", *KINDS[kind], *words])
    commands = sorted(said - {*of_train, *of_search})  # the average comes first
    commands.append(f"fairseq-train ... --save-dir all {' '.join(map(typed, of_train))}")
    for command in commands:
        line = command.replace("FILE", "train.de").replace("joined ...", f"joined {base}")
        line = line.replace("...", f"{data_bin} {base}").replace(" DATA ", f" {data_bin} ")
        shell(line + " --max-update 3 --max-tokens 256" * ("fairseq-train" in line), tmp_path)
    search = " ".join(map(typed, of_search))
    shell(f"fairseq-generate {data_bin} {SEARCHED[kind]} saved/average.pt {search}", tmp_path)
