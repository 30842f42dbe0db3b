"""What fairseq sees: importing this package registers the architectures, criterion, schedule and
tasks."""

from fairseq_aiayn.plugin import (  # noqa: F401
    checkpoints,
    clear_errors,
    criterion,
    lr_scheduler,
    model,
    task,
)

checkpoints.allow_fairseq_checkpoints()
clear_errors.install()
