"""The entry point for fairseq: importing it registers the architectures, the criterion, the
learning-rate schedule, the optimizer and the tasks, and mends what fairseq's commands lack."""

from fairseq_aiayn.nn.kept_shapes import keep_few_shapes
from fairseq_aiayn.plugin import (
    advice,
    checkpoints,
    commands,
    left_out,
    model,  # noqa: F401
    parsing,  # noqa: F401
    resuming,
    training,  # noqa: F401
    translation,  # noqa: F401
)

keep_few_shapes()
advice.install()
commands.install()
checkpoints.install()
left_out.install()
resuming.install()
