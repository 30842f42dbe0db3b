"""How a training resumes: its patience, and copies of checkpoints that are cut short. The place in
the epoch is tested by trainings (tests/system/test_several_processes.py)."""

import json
import os
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq_cli import train

from fairseq_aiayn.plugin import resuming
from fairseq_aiayn.plugin.resuming import from_whole_file, repair_copies, unless_done

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
        optimization=SimpleNamespace(max_update=1000),
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


def go_on(
    cfg, should_stop_early, updates: int, losses: list[float], first: bool = True, broadcast=None
) -> list[bool]:
    """Whether fairseq stops at each of the validations that follow this number of updates; the
    process is the first one of all, or another one."""
    trainer = SimpleNamespace(
        get_num_updates=lambda: updates,
        is_data_parallel_master=first,
        data_parallel_world_size=1 if broadcast is None else 2,
        data_parallel_process_group=None,
        device="cpu",
    )

    def train(cfg, trainer, *losses: float) -> tuple[list[bool], bool]:
        return [should_stop_early(cfg, loss) for loss in losses], False

    return unless_done(train, should_stop_early)(cfg, trainer, *losses)[0]


def test_the_count_goes_on_after_the_best_validation_of_the_log(tmp_path, should_stop_early):
    log = write_log(tmp_path / "train.log", (10, 5.0), (20, 4.0), (30, 4.5))
    assert go_on(configuration(log), should_stop_early, 30, [4.1, 4.2]) == [False, True]


def test_a_better_validation_starts_the_count_anew(tmp_path, should_stop_early):
    log = write_log(tmp_path / "train.log", (10, 4.0), (20, 4.5), (30, 4.5))
    found = go_on(configuration(log), should_stop_early, 30, [3.9, 4.0, 4.0, 4.0])
    assert found == [False, False, False, True]


def test_what_the_checkpoint_does_not_know_does_not_count(tmp_path, should_stop_early):
    """The training was killed after update 40, and resumes from the checkpoint of update 20."""
    log = write_log(tmp_path / "train.log", (10, 5.0), (20, 4.0), (30, 4.5), (40, 3.0))
    found = go_on(configuration(log), should_stop_early, 20, [4.5, 4.5, 4.5])
    assert found == [False, False, True]


def test_what_an_earlier_start_did_again_counts_once(tmp_path, should_stop_early):
    log = write_log(tmp_path / "train.log", (10, 4.0), (20, 4.5), (30, 4.5), (20, 4.5))
    assert go_on(configuration(log), should_stop_early, 20, [4.5, 4.5]) == [False, True]


def test_the_best_is_the_largest_where_the_metric_is_to_grow(tmp_path, should_stop_early):
    log = write_log(tmp_path / "train.log", (10, 4.0), (20, 5.0), (30, 4.0))
    cfg = configuration(log, maximize=True)
    assert go_on(cfg, should_stop_early, 30, [4.9, 4.9]) == [False, True]


@pytest.mark.parametrize("missing", [True, False])
def test_a_training_without_a_log_counts_as_fairseq_does(tmp_path, should_stop_early, missing):
    log = tmp_path / "none.log" if missing else None
    found = go_on(configuration(log), should_stop_early, 30, [5.0, 5.0, 5.0, 5.0])
    assert found == [False, False, False, True]


def test_all_processes_count_as_the_first_one_does(tmp_path, should_stop_early, monkeypatch):
    """Breaks if a process on another machine, without the log, goes on alone and waits forever."""
    log = write_log(tmp_path / "train.log", (10, 5.0), (20, 4.0), (30, 4.5))
    sent = []
    monkeypatch.setattr(
        resuming.distributed_utils,
        "broadcast_object",
        lambda counted, *_, **__: sent.append(counted) or (4.0, 1),
    )
    for cfg, first in ((configuration(log), True), (configuration(tmp_path / "none"), False)):
        found = go_on(cfg, should_stop_early, 30, [4.1, 4.2], first, broadcast=True)
        assert found == [False, True]
    assert sent == [(4.0, 1), None]


def write_checkpoints(directory: Path, **kinds: bool) -> dict[str, Path]:
    """Write checkpoints in this order: whole ones, and halves."""
    paths = {}
    for number, (name, is_whole) in enumerate(kinds.items()):
        paths[name] = path = directory / f"checkpoint{name if name[0] == '_' else '_' + name}.pt"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data", name)
        if not is_whole:
            path.write_bytes(path.read_bytes()[:20])
        os.utime(path, (number, number))
    return paths


def test_half_a_copy_is_made_again_from_what_was_written_last(tmp_path):
    """Not from the one with the most updates, which may be of an earlier training."""
    paths = write_checkpoints(tmp_path, _9_900=True, _1_20=True, _1_30=True, best=False, last=False)
    repair_copies(tmp_path)
    for name in ("best", "last"):
        assert paths[name].read_bytes() == paths["_1_30"].read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted(paths.values())


def test_a_kill_before_the_first_copy_loses_nothing(tmp_path):
    (written,) = write_checkpoints(tmp_path, _1_20=True).values()
    repair_copies(tmp_path)
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == written.read_bytes()
    assert len(list(tmp_path.iterdir())) == 2, "there is no best one"


def test_whole_checkpoints_and_half_of_the_only_one_stay(tmp_path):
    paths = write_checkpoints(tmp_path, last=True, _1_20=True, best=True)
    before = {path: path.read_bytes() for path in paths.values()}
    repair_copies(tmp_path)
    assert {path: path.read_bytes() for path in paths.values()} == before
    for path in paths.values():
        path.write_bytes(b"half")
    repair_copies(tmp_path)
    assert all(path.read_bytes() == b"half" for path in paths.values())


@pytest.mark.parametrize("option", ["restore_file", "finetune_from_model"])
def test_a_directory_is_no_checkpoint_to_begin_with(option, tmp_path):
    """Breaks if fairseq starts with new weights, and says so in one line of its log only."""
    cfg = SimpleNamespace(restore_file="checkpoint_last.pt", finetune_from_model=None)
    setattr(cfg, option, str(tmp_path))
    with pytest.raises(ValueError, match="a plain file"):
        from_whole_file(lambda *_: None)(cfg, None)
