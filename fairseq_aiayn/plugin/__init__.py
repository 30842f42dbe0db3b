"""What fairseq sees: importing this package registers the architectures, criterion, schedule and tasks."""

from fairseq_aiayn.plugin import criterion, lr_scheduler, model, task  # noqa: F401
