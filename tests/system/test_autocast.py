"""fairseq-train with products in bfloat16."""

import torch
from fairseq_commands import PLUGIN, SMALL, losses

from fairseq_aiayn.checkpoints import read_checkpoint


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
