"""The entry point for fairseq: importing it registers the architectures, the criterion, the
learning-rate schedule, the optimizer and the tasks."""

from fairseq_aiayn.plugin import (  # noqa: F401
    binarized_data,
    checkpoints,
    criterion,
    dictionaries,
    early_stopping,
    error_messages,
    lr_scheduler,
    model,
    number_options,
    optimizer,
    parsing_task,
    peak_memory,
    prefetch,
    task,
)

error_messages.install()  # first, because the next lines may raise errors
checkpoints.allow_fairseq_checkpoints()
dictionaries.look_before_use()
binarized_data.look_before_use()
number_options.look_before_use()
optimizer.look_before_use()
prefetch.stop_at_exit()
peak_memory.log_at_exit()
early_stopping.count_on()
