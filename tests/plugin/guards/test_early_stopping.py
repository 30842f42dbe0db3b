"""--patience of a training that resumes from a checkpoint."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq_cli import train

from fairseq_aiayn.plugin.guards.early_stopping import counting_on

PATIENCE = 3


def write_log(path: Path, *validations: tuple[int, float]) -> Path:
    lines = [
        json.dumps({"epoch": 1, "valid_loss": str(loss), "valid_num_updates": str(update)})
        for update, loss in validations
    ]
    path.write_text("".join(f"text\n{line}\n" for line in lines))
    return path


def configuration(log: Path | None, patience: int = PATIENCE, maximize: bool = False):
    return SimpleNamespace(
        common=SimpleNamespace(log_file=log and str(log)),
        dataset=SimpleNamespace(valid_subset="valid"),
        checkpoint=SimpleNamespace(
            patience=patience,
            best_checkpoint_metric="loss",
            maximize_best_checkpoint_metric=maximize,
        ),
    )


@pytest.fixture
def should_stop_early():
    """fairseq's own function, which counts in its attributes."""
    yield train.should_stop_early
    for name in ("best", "num_runs"):
        if hasattr(train.should_stop_early, name):
            delattr(train.should_stop_early, name)


def go_on(cfg, should_stop_early, updates: int, losses: list[float]) -> list[bool]:
    """Whether fairseq stops at each of the validations that follow this number of updates."""
    trainer = SimpleNamespace(get_num_updates=lambda: updates)
    step = counting_on(lambda cfg, trainer, loss: should_stop_early(cfg, loss), should_stop_early)
    return [step(cfg, trainer, loss) for loss in losses]


def test_the_count_goes_on_after_the_best_validation_of_the_log(tmp_path, should_stop_early):
    log = write_log(tmp_path / "train.log", (10, 5.0), (20, 4.0), (30, 4.5))
    assert go_on(configuration(log), should_stop_early, 31, [4.1, 4.2]) == [False, True]


def test_a_better_validation_starts_the_count_anew(tmp_path, should_stop_early):
    log = write_log(tmp_path / "train.log", (10, 4.0), (20, 4.5), (30, 4.5))
    found = go_on(configuration(log), should_stop_early, 31, [3.9, 4.0, 4.0, 4.0])
    assert found == [False, False, False, True]


def test_what_the_checkpoint_does_not_know_does_not_count(tmp_path, should_stop_early):
    """The training was killed after update 40, and resumes from the checkpoint of update 20."""
    log = write_log(tmp_path / "train.log", (10, 5.0), (20, 4.0), (30, 4.5), (40, 3.0))
    found = go_on(configuration(log), should_stop_early, 21, [4.5, 4.5, 4.5])
    assert found == [False, False, True]


def test_what_an_earlier_start_did_again_counts_once(tmp_path, should_stop_early):
    log = write_log(tmp_path / "train.log", (10, 4.0), (20, 4.5), (30, 4.5), (20, 4.5))
    assert go_on(configuration(log), should_stop_early, 21, [4.5, 4.5]) == [False, True]


def test_the_best_is_the_largest_where_the_metric_is_to_grow(tmp_path, should_stop_early):
    log = write_log(tmp_path / "train.log", (10, 4.0), (20, 5.0), (30, 4.0))
    cfg = configuration(log, maximize=True)
    assert go_on(cfg, should_stop_early, 31, [4.9, 4.9]) == [False, True]


@pytest.mark.parametrize("missing", [True, False])
def test_a_training_without_a_log_counts_as_fairseq_does(tmp_path, should_stop_early, missing):
    log = tmp_path / "none.log" if missing else None
    found = go_on(configuration(log), should_stop_early, 31, [5.0, 5.0, 5.0, 5.0])
    assert found == [False, False, False, True]
