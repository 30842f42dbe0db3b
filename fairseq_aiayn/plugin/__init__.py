"""What fairseq sees: importing it registers architectures, criterion, schedule and task."""

from fairseq_aiayn.plugin import (  # noqa: F401
    checkpoints,
    clear_errors,
    criterion,
    early_stopping,
    lr_scheduler,
    model,
    optimizer,
    parsing_task,
    peak_memory,
    read_ahead,
    task,
)

clear_errors.install()  # first: the next line may have something to say
checkpoints.allow_fairseq_checkpoints()
read_ahead.stop_at_exit()
peak_memory.log_at_exit()
early_stopping.count_on()
