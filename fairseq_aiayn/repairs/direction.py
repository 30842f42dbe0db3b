"""fairseq-generate translates with a model of the other direction, into nonsense, without a word.
Here, it is refused."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq.tasks.translation import TranslationTask

from fairseq_aiayn.checkpoints import read_checkpoint
from fairseq_aiayn.configuration import flat_options, plain_configuration
from fairseq_aiayn.repairs.program import LANGUAGES, given


def checking_direction(
    load_models: Callable,
    filenames: list[str],
    arg_overrides: Any = None,
    task: Any = None,
    *rest: Any,
    **named: Any,
) -> object:
    """Load models; raises ValueError for one that translates the other way round, unless
    --model-overrides names the languages."""
    models = load_models(filenames, arg_overrides, task, *rest, **named)
    options = Namespace(**given) if task is None else task.cfg
    used = [getattr(options, name, None) for name in LANGUAGES]
    is_pair = task is None or isinstance(task, TranslationTask)
    if is_pair and len({*used, None}) == 3 and "_lang" not in given.get("model_overrides", ""):
        for path in filter(os.path.isfile, filenames):
            configuration = flat_options(plain_configuration(read_checkpoint(Path(path), False)))
            trained = [configuration.get(name) for name in LANGUAGES]
            if trained == used[::-1]:
                raise ValueError(
                    "{}: expected -s {} -t {}, got -s {} -t {}".format(path, *trained, *used)
                )
    return models
