"""The entry point for fairseq: importing it registers the architectures, the criterion, the
learning-rate schedule, the optimizer and the tasks, and mends what fairseq's commands lack."""

from fairseq_aiayn.plugin import (
    checkpoints,
    commands,
    model,  # noqa: F401
    parsing,  # noqa: F401
    resuming,
    training,  # noqa: F401
    translation,  # noqa: F401
)

commands.install()
checkpoints.install()
resuming.install()
