"""fairseq misses options that need one another in the middle of a training, or never, and shows
wrong words as pages of usage. Here, each is refused at once, in one line."""

from __future__ import annotations

import logging
import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, NoReturn

from fairseq import utils
from fairseq.data import data_utils
from fairseq.dataclass.configs import OptimizationConfig
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask

from fairseq_aiayn.console import shortened
from fairseq_aiayn.repairs.program import LANGUAGES, given, training_program

HIGHER_IS_BETTER = ("bleu", "f1", "accuracy")  # figures of a validation
CHOICES = re.compile(r"invalid choice: '(.*?)' \(choose from (.*)\)$")
# What fairseq says where it needs one: the key with which it looks for the task, and nothing
MISSING = {(None,): "--task, such as --task aiayn_translation", (): "--arch, such as aiayn_base"}
logger = logging.getLogger(__name__)


def refuse(parser: ArgumentParser, message: str) -> NoReturn:
    """End a command with one line on its options, with the nearest choices."""
    if match := CHOICES.search(message):
        names = re.findall(r"[^',\s]+", match[2])
        message = message[: match.start()] + unlike(match[1], names)
    parser.exit(2, f"{parser.prog}: error: {shortened(message)}\n")


def unlike(name: str, names: Sequence[str]) -> str:
    """Return which of the names were expected in place of this one: the nearest."""
    return f"expected {', '.join(get_close_matches(name, names) or names[:9])}, got {name!r}"


def checking_options(
    parse_args_and_arch: Callable, parser: ArgumentParser, *arguments: object, **named: object
) -> object:
    """Parse options, also into `given`; without torch_xla, --bf16 does not ask for a TPU. Raises
    ValueError without the --task or --arch that a command needs, and as `require_matching` does."""
    setattr(parser, "error", partial(refuse, parser))  # noqa: B010
    try:
        parsed = parse_args_and_arch(parser, *arguments, **named)
    except (KeyError, RuntimeError) as error:
        if error.args not in MISSING:
            raise
        raise ValueError(f"expected {MISSING[error.args]}") from error
    if isinstance(parsed, Namespace):  # not also the options that are unknown
        if training_program() is not None:
            name_languages(parsed.task, parsed)
        given.update(vars(parsed))
        require_matching(vars(parsed))
        if utils.xm is None and "tpu" in parsed and parsed.bf16:  # fairseq sets both
            parsed.tpu = False
    return parsed


def name_languages(task_name: str, options: Any) -> None:
    """Set the languages that the task would find in the names of the data's files, in place, so
    that checkpoints have them."""
    task = TASK_REGISTRY.get(task_name)
    if task is None or not issubclass(task, TranslationTask):
        return
    if options.data is None:  # of Hydra, in which nothing is required
        raise ValueError("--data: expected what fairseq-preprocess wrote, got nothing")
    directory = utils.split_paths(options.data)[0]
    if None in (options.source_lang, options.target_lang) and os.path.isdir(directory):
        languages = data_utils.infer_language_pair(directory)
        if None not in languages:
            options.source_lang, options.target_lang = languages


def require_matching(chosen: Mapping[str, object]) -> None:
    """Raise ValueError for an option whose companion is missing, which fairseq notices late or
    never; warn of an --lr that nothing reads."""
    metric = chosen.get("best_checkpoint_metric")
    if chosen.get(f"eval_{metric}") is False:
        raise ValueError(f"--best-checkpoint-metric {metric}: expected --eval-{metric}, too")
    if metric in HIGHER_IS_BETTER and not chosen.get("maximize_best_checkpoint_metric"):
        raise ValueError(
            f"--best-checkpoint-metric {metric}: expected --maximize-best-checkpoint-metric, too"
        )
    if chosen.get("memory_efficient_fp16") and chosen.get("optimizer") == "aiayn_adam":
        raise ValueError("--memory-efficient-fp16: expected --optimizer adam, or --fp16 instead")
    if chosen.get("tokenizer") == "moses" and None in map(chosen.get, LANGUAGES):
        raise ValueError("--tokenizer moses: expected --source-lang and --target-lang, got none")
    rate = chosen.get("lr")
    if chosen.get("lr_scheduler") == "aiayn_inverse_sqrt" and rate != OptimizationConfig().lr:
        logger.warning("--lr is not read by aiayn_inverse_sqrt, only --lr-factor is: got %s", rate)
