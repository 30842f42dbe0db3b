"""What trains also loads, with every criterion, task, optimizer and schedule of fairseq."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_repairs

PROGRAM = Path(__file__).parent / "every_choice.py"
KNOWN_TO_TRAIN = {
    "criterion": {"cross_entropy", "label_smoothed_cross_entropy_with_rdrop"}
    | {"label_smoothed_cross_entropy_with_alignment", "aiayn_label_smoothed_cross_entropy"},
    "task": {"translation", "translation_lev", "aiayn_translation"},
    "optimizer": {"adafactor", "adam", "nag", "sgd", "aiayn_adam"},
    "lr_scheduler": {"cosine", "manual", "polynomial_decay", "triangular"},
}


@pytest.mark.parametrize(
    ("arch", "kind"),
    [*(("aiayn_tiny", kind) for kind in KNOWN_TO_TRAIN), ("transformer", "criterion")],
)
def test_every_choice_of_a_registry(arch, kind, run, data_bin):
    lines = run("python", PROGRAM, data_bin, arch, kind).stdout.splitlines()
    results = {name: (done, reason) for name, done, reason in map(json.loads, lines)}
    trained = {name for name, (done, _) in results.items() if done}
    assert trained >= KNOWN_TO_TRAIN[kind]
    assert {name: results[name] for name in trained if results[name][0] < 4} == {}
