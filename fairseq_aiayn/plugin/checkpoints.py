"""Let fairseq's commands load checkpoints on PyTorch 2.6 and later, with weights_only on."""

import torch
from fairseq.distributed.utils import _TensorPlaceholder

from fairseq_aiayn.evaluation import checkpoint_files

# On resuming, the first process sends the loaded checkpoint to the others by torch.save and
# torch.load, with this frozen dataclass of one index in place of each tensor; no file has it.
SENT_BETWEEN_PROCESSES = (_TensorPlaceholder,)


def allow_fairseq_checkpoints() -> None:
    """Add the plain data that fairseq's checkpoints hold to what torch.load accepts."""
    checkpoint_files.allow_fairseq_checkpoints()
    torch.serialization.add_safe_globals(list(SENT_BETWEEN_PROCESSES))
