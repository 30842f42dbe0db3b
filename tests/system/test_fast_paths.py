"""The fast paths compared with their reference implementations, over hundreds of updates of
fairseq-train itself."""

from __future__ import annotations

from pathlib import Path

import torch
from fairseq_commands import PLUGIN, SMALL, Run, losses

from fairseq_aiayn.checkpoints import read_checkpoint

REFERENCE = Path(__file__).with_name("reference_training.py")


def train(run: Run, kind: str, data_bin: Path, folder: Path, *options: str) -> list[float]:
    """The unrounded loss of every update, in nats per token."""
    quiet = ("--no-save", "--save-dir", folder, "--disable-validation", "--log-format", "none")
    # At the rates of SMALL, 20 times those of a real row, rounding errors double every few updates
    rates = ("--warmup-updates", "1000")
    run(
        *("python", REFERENCE, kind, folder / "losses", data_bin),
        *(*PLUGIN, *SMALL, *quiet, *rates, *options),
    )
    return [float(line) for line in (folder / "losses").read_text().splitlines()]


def test_the_loss_curves_of_fast_and_naive_paths_agree(run, data_bin, tmp_path):
    """200 updates from the same parameters on the same batches. Breaks if the packed projections,
    the fused attention, the loss in chunks or the fused Adam compute a different result."""
    curves = [
        train(run, kind, data_bin, tmp_path, "--max-update", "200", "--seed", "3")
        for kind in ("fast", "reference")
    ]
    fast, reference = (torch.tensor(curve) for curve in curves)
    assert len(fast) == 200 and fast[-1] < fast[0] / 1.3, "it learns"
    torch.testing.assert_close(fast, reference, rtol=0.0, atol=1e-3)
    other = torch.tensor(train(run, "fast", data_bin, tmp_path, "--max-update", "9", "--seed", "4"))
    assert (other - reference[:9]).abs().max() > 0.01, "the tolerance tells two curves apart"


def test_autocast_on_a_cpu_learns_and_keeps_float32_checkpoints(run, data_bin, tmp_path):
    """Breaks if weights are rounded to 8 bits, as by fairseq's own --bf16."""
    done = run(
        *("fairseq-train", data_bin, *PLUGIN, *SMALL, "--save-dir", tmp_path),
        *("--max-update", "60", "--autocast", "bfloat16", "--no-epoch-checkpoints"),
    )
    by_update = losses(done.stdout + done.stderr)
    assert len(by_update) == 60 and float(by_update[60]) < float(by_update[1])
    model = read_checkpoint(tmp_path / "checkpoint_last.pt")["model"]
    assert {value.dtype for value in model.values()} == {torch.float32}
    assert any((value != value.bfloat16().float()).any() for value in model.values())
