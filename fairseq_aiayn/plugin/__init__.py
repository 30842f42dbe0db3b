"""The entry point for fairseq: importing it registers the architectures, the criterion, the
learning-rate schedule, the optimizer and the tasks, and installs the guards."""

from fairseq_aiayn.plugin import (  # noqa: F401
    criterion,
    guards,
    lr_scheduler,
    model,
    optimizer,
    parsing_task,
    task,
)

guards.install()
