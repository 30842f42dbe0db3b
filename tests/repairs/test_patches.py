"""What a fairseq-train with this plugin has in place of fairseq's own functions."""

import logging
import sys

import fairseq_cli.train  # noqa: F401  (a process that trains has all repairs)
import pytest
from fairseq.data import iterators
from fairseq.file_io import PathManager
from originals import original

import fairseq_aiayn.plugin  # noqa: F401
from fairseq_aiayn.repairs.patches import PATCHES, install
from fairseq_aiayn.repairs.program import TRAIN


@pytest.fixture(autouse=True)
def _a_program_that_has_begun(monkeypatch):
    """fairseq-generate and fairseq-train in one, without repairs; all they replace is restored."""
    monkeypatch.setattr(sys, "argv", ["fairseq-generate"])
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.delenv("AIAYN_REPAIRS", raising=False)
    for patch in [patch for patches in PATCHES.values() for patch in patches]:
        monkeypatch.setattr(*patch.where(), original(patch))


def installed() -> set[str]:
    found = {}
    for name, patches in PATCHES.items():
        places = [patch.where() for patch in patches]
        now = [vars(owner)[name] for owner, name in places]
        found[name] = [new is not original(patch) for new, patch in zip(now, patches, strict=True)]
        assert len({*found[name]}) == 1
    return {name for name, replaced in found.items() if all(replaced)}


@pytest.mark.parametrize(
    ("variable", "out"),
    [(None, ""), ("", ""), ("copies,finished", "copies finished"), ("off", " ".join(PATCHES))],
)
def test_every_repair_is_in_place_unless_it_is_left_out(variable, out, monkeypatch):
    if variable is not None:
        monkeypatch.setenv("AIAYN_REPAIRS", variable)
    install()
    assert installed() == {*PATCHES} - {*out.split()}


class OlderEpochs(iterators.EpochBatchIterator):
    """As in fairseq 0.12.2."""

    def __init__(self, dataset, collate_fn, batch_sampler, seed, num_shards, shard_id):
        super().__init__(dataset, collate_fn, batch_sampler, seed, num_shards, shard_id)


def test_a_function_that_was_not_reviewed_keeps_its_repair_out(monkeypatch, caplog):
    """But not what fairseq's versions, or distributions of Python, have in other forms."""
    monkeypatch.setattr(PathManager, "copy", lambda source, target, overwrite, new: None)
    monkeypatch.delattr("fairseq.trainer.Trainer._log_oom")
    monkeypatch.setattr(sys, "excepthook", lambda *error: None)
    monkeypatch.setattr(iterators, "EpochBatchIterator", OlderEpochs)
    install()
    warnings = [line for line in caplog.messages if "is left out" in line]
    assert [line.split()[2] for line in warnings] == ["copies", "memory"]
    assert "(src_path, dst_path, overwrite), got (source, target, overwrite, new)" in warnings[0]


def test_the_log_of_a_training_says_once_which_are_on(monkeypatch, caplog):
    caplog.set_level(logging.INFO, TRAIN)
    monkeypatch.setattr(sys, "argv", ["fairseq-train"])
    monkeypatch.setenv("AIAYN_REPAIRS", "copies")
    install()
    logging.getLogger(TRAIN).info("first")
    logging.getLogger(TRAIN).info("second")
    assert [line for line in caplog.messages if line in ("first", "second")] == ["first", "second"]
    on = ", ".join(name for name in PATCHES if name != "copies")
    assert caplog.messages[0] == f"repairs of fairseq that are on: {on}; left out: copies"
    assert len(caplog.messages) == 3


def test_a_name_that_is_none_is_said_in_one_line(monkeypatch, capsys):
    monkeypatch.setenv("AIAYN_REPAIRS", "copy")
    with pytest.raises(ValueError, match="expected off or loading, copies") as caught:
        install()
    sys.excepthook(caught.type, caught.value, caught.tb)
    assert capsys.readouterr().err.splitlines() == [f"fairseq-generate: error: {caught.value}"]


def test_they_can_be_listed(aiayn, monkeypatch):
    monkeypatch.setenv("AIAYN_REPAIRS", "copies")
    status, output, _ = aiayn("repairs")
    assert status == 0
    states = [line for line in output.splitlines() if not line.startswith(" ")]
    others = [f"{name}: on" for name in PATCHES if name != "copies"]
    assert sorted(states) == sorted(["copies: off (AIAYN_REPAIRS)", *others])
    assert all(patch.target in output for patches in PATCHES.values() for patch in patches)
