"""fairseq's commands: a mistake's one line; what imports change; how a process ends; every choice
of a registry; what they do without the repairs, of which tests/repairs/test_faults.py has more."""

import json
import re
import signal

import pytest
from fairseq_commands import PLUGIN, ROOT, SIGNALLED, SMALL, TRANSLATE, installed

# fairseq-train whose first batch asks for more memory than there is
WITHOUT_MEMORY = """
import torch
from fairseq.tasks import FairseqTask
from fairseq_cli.train import cli_main

FairseqTask.train_step = lambda *arguments, **options: torch.empty(10**15)
cli_main()
"""


@pytest.fixture(scope="module")
def checkpoint(data_bin, run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    run("fairseq-train", data_bin, *PLUGIN, *SMALL, "--max-update", "1", "--save-dir", folder)
    return folder / "checkpoint_last.pt"


@pytest.mark.needs_repairs
def test_a_training_without_memory_says_last_what_to_lower(run, data_bin, tmp_path):
    program, log = tmp_path / "fairseq-train.py", tmp_path / "log"
    program.write_text(WITHOUT_MEMORY)
    words = [data_bin, *PLUGIN, *SMALL, "--save-dir", tmp_path, "--log-file", log]
    done = run("python", program, *words, fails=True)
    assert "Traceback" in done.stderr
    for text in (done.stderr, log.read_text()):
        (said,) = re.findall(r"^fairseq-.*", text, re.MULTILINE)
        line = "fairseq-train: error: out of memory: try --max-tokens 128 --update-freq 2 instead"
        assert said.startswith(line)


@pytest.mark.needs_repairs
@pytest.mark.parametrize("name", ["generate", "validate"])
def test_a_model_of_the_other_direction_is_refused(name, run, data_bin, checkpoint):
    """Unless that is overridden. Breaks if all that says so is a BLEU of 0."""
    words = [f"fairseq-{name}", data_bin, *TRANSLATE, "--path", checkpoint]
    reverse = [*words, "-s", "de", "-t", "en"]
    done = run(*reverse, fails=True)
    line = f"fairseq-{name}: error: {checkpoint}: expected -s en -t de, got -s de -t en"
    assert done.stderr.splitlines()[-1] == line
    if name == "generate":
        run(*reverse, "--model-overrides", "{'source_lang': 'de', 'target_lang': 'en'}")
    if name == "validate":
        run(*words, "-s", "en", "-t", "de")


PROGRAM = """
import sys, fairseq_aiayn
assert not {"torch", "fairseq"} & set(sys.modules), "a model folder needs neither"

import importlib, os
import fairseq_cli.generate, fairseq_cli.train, torch
from argparse import Namespace
from pathlib import Path
from fairseq import checkpoint_utils, utils
from fairseq.models import ARCH_MODEL_REGISTRY

def functions():
    for name in [*filter(lambda name: name.split(".")[0] in WATCHED, sys.modules)]:
        owners = [one for one in vars(sys.modules[name]).values() if isinstance(one, type)]
        for owner in (sys.modules[name], *owners):
            for key, value in [*vars(owner).items()]:
                if callable(value) or isinstance(value, (classmethod, staticmethod)):
                    yield (name, getattr(owner, "__qualname__", ""), key), value

def others():
    safe = {*map(str, torch.serialization.get_safe_globals())}
    return dict(os.environ), [*sys.meta_path], sys.excepthook, safe, {*ARCH_MODEL_REGISTRY}

WATCHED = "fairseq", "fairseq_cli", "iopath", "torch"
before, rest = dict(functions()), others()
for path in Path(sys.argv[1]).rglob("*.py"):
    parts = path.relative_to(sys.argv[1]).with_suffix("").parts
    if parts[0] not in ("plugin", "repairs", "__main__"):
        importlib.import_module(".".join(("fairseq_aiayn", *parts)).removesuffix(".__init__"))
after = dict(functions())
assert not [place for place in before if before[place] is not after.get(place)]
assert others() == rest
utils.import_user_module(Namespace(user_dir=sys.argv[1]))
assert "aiayn_base" in ARCH_MODEL_REGISTRY
assert checkpoint_utils.load_checkpoint_to_cpu.__wrapped__

from fairseq.data.iterators import BufferedIterator

class Batches:
    def __len__(self):
        return 10**6
    def __iter__(self):  # nearly always inside a kernel of torch, and far from the end
        for i in range(len(self)):
            yield torch.zeros(1000, 1000).sort()

batches = BufferedIterator(10, Batches())
next(batches)
print("the end")
"""


@pytest.mark.needs_repairs
def test_imports_change_nothing_and_a_reader_does_not_take_the_process_down(run):
    """Tests of training import the package first as --user-dir."""
    ended = run(*installed("python"), "-c", PROGRAM, ROOT / "fairseq_aiayn")
    assert ended.stdout == "the end\n" and "terminate" not in ended.stderr


# One batch holds the whole text, so that every update ends an epoch.
WHOLE = [*PLUGIN, *SMALL, "--max-tokens", "8192", "--save-interval-updates", "1"]
WHOLE += ["--no-epoch-checkpoints", "--max-update", "3"]


@pytest.fixture
def without(monkeypatch):
    return lambda *names: monkeypatch.setenv("AIAYN_REPAIRS", ",".join(names))


def test_a_training_without_repairs(run, data_bin, tmp_path, without):
    """It has no checkpoints of the interval, logs lines three times, and ends not though it has."""
    without("epoch_ends", "finished", "log_file")
    log = tmp_path / "train.log"
    words = [data_bin, *WHOLE, "--log-file", log, "--save-dir", tmp_path / "checkpoints"]
    run("fairseq-train", *words)
    assert not list(tmp_path.glob("checkpoints/checkpoint_[0-9]*"))
    lines = [line for line in log.read_text().splitlines() if '"train_num_updates": "3"' in line]
    assert len(lines) == 3
    assert '"num_updates": "4"' in run("fairseq-train", *words).stdout


def test_a_signal_and_an_error_without_repairs(run, data_bin, tmp_path, monkeypatch, without):
    without("signals", "errors", "options")
    (tmp_path / "train.py").write_text(SIGNALLED)
    monkeypatch.setenv("SIGNAL", "SIGTERM 0 1")
    words = [data_bin, *WHOLE, "--save-interval-updates", "9", "--save-interval", "9"]
    words += ["--save-dir", tmp_path / "exp"]
    ended = run("python", tmp_path / "train.py", *words, fails=True)
    assert ended.returncode == -signal.SIGTERM
    assert not list(tmp_path.glob("exp/*.pt"))
    ended = run("fairseq-train", *words, "--best-checkpoint-metric", "bleu", fails=True)
    assert "Traceback" in ended.stderr  # a KeyError after the first validation


def test_a_search_without_repairs(run, data_bin, tmp_path, without):
    """It translates with a model of the other direction, and does not say what it leaves out."""
    without("direction", "left_out")
    words = [data_bin, *WHOLE, "-s", "de", "-t", "en", "--max-source-positions", "5"]
    words += ["--skip-invalid-size-inputs-valid-test", "--save-dir", tmp_path]
    assert "left out by" not in run("fairseq-train", *words).stdout
    path = tmp_path / "checkpoint_last.pt"
    words = [data_bin, *TRANSLATE, "-s", "en", "-t", "de", "--path", path]
    assert "H-0" in run("fairseq-generate", *words, "--skip-invalid-size-inputs-valid-test").stdout


# What trains also loads
KNOWN_TO_TRAIN = {
    "criterion": {"cross_entropy", "label_smoothed_cross_entropy_with_rdrop"}
    | {"label_smoothed_cross_entropy_with_alignment", "aiayn_label_smoothed_cross_entropy"},
    "task": {"translation", "translation_lev", "aiayn_translation"},
    "optimizer": {"adafactor", "adam", "nag", "sgd", "aiayn_adam"},
    "lr_scheduler": {"cosine", "manual", "polynomial_decay", "triangular"},
}


@pytest.mark.needs_repairs
@pytest.mark.parametrize(
    ("arch", "kind"),
    [*(("aiayn_tiny", kind) for kind in KNOWN_TO_TRAIN), ("transformer", "criterion")],
)
def test_every_choice_of_a_registry(arch, kind, run, data_bin):
    program = ROOT / "tests/system/every_choice.py"
    lines = run("python", program, data_bin, arch, kind).stdout.splitlines()
    results = {name: (done, reason) for name, done, reason in map(json.loads, lines)}
    trained = {name for name, (done, _) in results.items() if done}
    assert trained >= KNOWN_TO_TRAIN[kind]
    assert {name: results[name] for name in trained if results[name][0] < 4} == {}
