"""The faster library is measured once for a processor and a number of threads, and then kept."""

import pytest
import torch

from fairseq_aiayn.nn import products
from fairseq_aiayn.nn.products import Faster, kept_file, onednn_is_faster, trial


@pytest.fixture
def trials(monkeypatch, tmp_path):
    """Trials that find other things each time, and how many there were."""
    found = [Faster(True, False), Faster(False, True), Faster(True, True)]
    monkeypatch.setattr(products, "trial", lambda: found.pop(0))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    onednn_is_faster.cache_clear()
    yield found
    onednn_is_faster.cache_clear()


def again(threads: int) -> Faster:
    """What another process takes."""
    onednn_is_faster.cache_clear()
    return onednn_is_faster(threads)


def test_a_training_that_goes_on_computes_the_same(trials):
    assert [again(1), again(1), again(2), again(1)] == [(True, False)] * 2 + [(False, True)] + [
        (True, False)
    ]
    assert len(trials) == 1 and len([*kept_file(1).parent.iterdir()]) == 2


@pytest.mark.parametrize("content", ["", "{}", "[1, 2]", "\x00"])
def test_a_damaged_file_or_none_is_no_error(trials, content, tmp_path, monkeypatch):
    kept_file(1).parent.mkdir(parents=True)
    kept_file(1).write_text(content)
    assert again(1) == (True, False) and kept_file(1).read_text() == content
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept_file(1)))  # below a file, nothing can be written
    assert again(1) == (False, True)


def test_a_trial_leaves_the_random_numbers_alone():
    before = torch.get_rng_state()
    assert {*map(type, trial())} == {bool}
    assert torch.equal(before, torch.get_rng_state())
