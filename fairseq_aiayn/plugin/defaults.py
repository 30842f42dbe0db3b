"""fairseq's own defaults for the options of a training, as its parser and its dataclasses say."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from contextlib import redirect_stderr
from dataclasses import fields
from io import StringIO

from fairseq import options as fairseq_options
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_REGISTRY
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_aiayn.settings import SIZE_ARGUMENTS, option

PARTS = {
    "task": TASK_REGISTRY,
    "arch": ARCH_MODEL_REGISTRY,
    "criterion": CRITERION_REGISTRY,
    "optimizer": OPTIMIZER_REGISTRY,
    "lr_scheduler": LR_SCHEDULER_REGISTRY,
}
# Machines, logs, checkpoints, order of reading and other commands change no update
WITHOUT_INFLUENCE = (
    *("common", "common_eval", "distributed_training", "dataset", "checkpoint"),
    *("generation", "eval_lm", "interactive"),
)


def influential_defaults(options: Mapping[str, object]) -> dict[str, object]:
    """Return the defaults of a training with this task, model, loss, optimizer and schedule.

    Options that change no update are left out.
    """
    words = ["data", "--arch", "transformer"]
    for name, registry in PARTS.items():
        if options.get(name) in registry:
            words += [option(name), str(options[name])]
    words += [f"{option(name)}={options[name]}" for name in SIZE_ARGUMENTS if name in options]
    try:
        with redirect_stderr(StringIO()):
            parser = fairseq_options.get_training_parser()
            defaults = fairseq_options.parse_args_and_arch(parser, words)
    except SystemExit:  # it has an option without a default
        defaults = Namespace()
    groups = (getattr(FairseqConfig(), name) for name in WITHOUT_INFLUENCE)
    ignored = {each.name for group in groups for each in fields(group)}
    return {name: value for name, value in vars(defaults).items() if name not in ignored}
