"""How fairseq's commands begin, log and end, for stock models, too."""

from __future__ import annotations

import errno
import logging
import os
import re
import resource
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import partial, wraps
from multiprocessing.util import Finalize
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any, NoReturn

import torch
from fairseq import checkpoint_utils, options, utils
from fairseq.data import data_utils
from fairseq.dataclass.configs import OptimizationConfig
from fairseq.logging import progress_bar
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask

from fairseq_aiayn.checkpoints import plain_configuration, read_checkpoint
from fairseq_aiayn.plugin.advice import TRAIN, advice
from fairseq_aiayn.plugin.checkpoints import require_known_names
from fairseq_aiayn.runs.logs import flat_options
from fairseq_aiayn.text import shortened

LANGUAGES = ("source_lang", "target_lang")
SEARCHING = ("fairseq-generate", "fairseq-interactive", "fairseq-validate")
HIGHER_IS_BETTER = ("bleu", "f1", "accuracy")  # figures of a validation
# What is wrong with a file that an option names; fairseq's own errors have no number
NO_SUCH_FILE = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES)
# Functions of fairseq within which an error is none of the options'
WORK = {"train", "validate_and_save", "train_step", "valid_step", "inference_step"}
CHOICES = re.compile(r"invalid choice: '(.*?)' \(choose from (.*)\)$")
KIB, MIB = 2**10, 2**20
logger = logging.getLogger(__name__)


def install() -> None:
    """Put these changes around fairseq's functions."""
    command, given = command_name(sys.argv[0]), dict[str, Any]()
    if command is not None:
        sys.excepthook = with_last_line(command, sys.excepthook, given)
    if command == "fairseq-train":
        Finalize(None, log_peak_memory, exitpriority=0)  # atexit does not run in forked processes
    if command in SEARCHING:
        checkpoint_utils.load_model_ensemble_and_task = checking_direction(
            checkpoint_utils.load_model_ensemble_and_task, given
        )
    options.parse_args_and_arch = checking_options(options.parse_args_and_arch, given)
    progress_bar.progress_bar = opening_log_once(progress_bar.progress_bar)


def command_name(program: str) -> str | None:
    """Return the name of the fairseq command that was started as `program`, else None."""
    path = Path(program)
    if path.stem.startswith("fairseq-"):
        return path.stem
    if path.parent.name == "fairseq_cli":  # python -m fairseq_cli.train, torchrun
        return f"fairseq-{path.stem.replace('_', '-')}"
    return None


def training_program() -> Any:
    """Return the module whose functions fairseq-train calls; None in other commands. A program
    started with `python -m fairseq_cli.train`, or by torchrun, is `__main__`."""
    program = sys.modules["__main__"]
    return program if hasattr(program, "validate_and_save") else sys.modules.get(TRAIN)


def with_last_line(command: str, previous: Callable, given: Mapping[str, Any]) -> Callable:
    """Return a sys.excepthook that prints `one_line` of an error if there is one. Other errors, and
    with AIAYN_DEBUG=1 all of them, go to the `previous` hook; `advice` on the options that were
    given follows, also in --log-file."""

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        short = None if os.environ.get("AIAYN_DEBUG") else one_line(error, trace)
        if short is None:
            previous(kind, error, error.__traceback__)
        line = short or advice(command, error, given)
        if line:
            line = f"{command}: error: {shortened(line)}"
            print(line, file=sys.stderr)
            if short is None and given.get("log_file"):
                with suppress(OSError), open(given["log_file"], "a", encoding="utf-8") as file:
                    print(line, file=file)

    return report


def one_line(error: BaseException, trace: TracebackType | None) -> str | None:
    """Return what to print of a ValueError that this package raised, of Ctrl-C, and of what fairseq
    says of options and files before the work begins; None for other errors."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    frames = [frame for frame, _ in walk_tb(trace)]
    raised_in = frames[-1].f_globals.get("__name__", "") if frames else ""
    if isinstance(error, ValueError):
        return str(error) if raised_in.startswith("fairseq_aiayn.") else None
    of_files = isinstance(error, OSError) and error.errno in NO_SUCH_FILE
    of_options = isinstance(error, AssertionError | NotImplementedError)
    if of_files or (of_options and raised_in.partition(".")[0] in ("fairseq", "fairseq_cli")):
        return None if WORK & {frame.f_code.co_name for frame in frames} else str(error) or None
    return None


def refuse(parser: ArgumentParser, message: str) -> NoReturn:
    """End a command with one line on its options, with the nearest choices."""
    if match := CHOICES.search(message):
        names = re.findall(r"[^',\s]+", match[2])
        near = ", ".join(get_close_matches(match[1], names) or names[:9])
        message = f"{message[: match.start()]}expected {near}, got {match[1]!r}"
    parser.exit(2, f"{parser.prog}: error: {shortened(message)}\n")


def checking_options(parse_args_and_arch: Callable, given: dict[str, Any]) -> Callable:
    """Wrap the parser of options: without torch_xla, --bf16 does not ask for a TPU. It raises
    ValueError without the --task that a command needs, and as `require_matching` and, before a
    training, `require_known_names` do. What was parsed is also in `given`."""

    @wraps(parse_args_and_arch)
    def wrapped(parser: ArgumentParser, *arguments: object, **named: object) -> object:
        setattr(parser, "error", partial(refuse, parser))  # noqa: B010
        try:
            parsed = parse_args_and_arch(parser, *arguments, **named)
        except KeyError as error:
            if error.args != (None,):  # the key with which fairseq looks for the task
                raise
            raise ValueError("expected --task, such as --task aiayn_translation") from error
        if isinstance(parsed, Namespace):  # not also the options that are unknown
            if training_program() is not None:
                name_languages(parsed)
            given.update(vars(parsed))
            require_matching(vars(parsed))
            # Else nothing could load its checkpoints; fairseq-generate has an --arch, too: wav2vec2
            if "max_update" in parsed and not parsed.no_save:
                require_known_names({"args": parsed})
            if utils.xm is None and "tpu" in parsed and parsed.bf16:  # fairseq sets both
                parsed.tpu = False
        return parsed

    return wrapped


def name_languages(parsed: Namespace) -> None:
    """Set the languages that the task would find in the names of the data's files, in place, so
    that checkpoints have them."""
    task = TASK_REGISTRY.get(getattr(parsed, "task", None))
    if task is None or not issubclass(task, TranslationTask):
        return
    directory = utils.split_paths(parsed.data)[0]
    if None in (parsed.source_lang, parsed.target_lang) and os.path.isdir(directory):
        languages = data_utils.infer_language_pair(directory)
        if None not in languages:
            parsed.source_lang, parsed.target_lang = languages


def require_matching(given: Mapping[str, object]) -> None:
    """Raise ValueError for an option without the one it needs, which fairseq misses later, if at
    all; warn of an --lr that nothing reads."""
    metric = given.get("best_checkpoint_metric")
    if given.get(f"eval_{metric}") is False:
        raise ValueError(f"--best-checkpoint-metric {metric}: expected --eval-{metric}, too")
    if metric in HIGHER_IS_BETTER and not given.get("maximize_best_checkpoint_metric"):
        raise ValueError(
            f"--best-checkpoint-metric {metric}: expected --maximize-best-checkpoint-metric, too"
        )
    if given.get("memory_efficient_fp16") and given.get("optimizer") == "aiayn_adam":
        raise ValueError("--memory-efficient-fp16: expected --optimizer adam, or --fp16 instead")
    if given.get("tokenizer") == "moses" and None in map(given.get, LANGUAGES):
        raise ValueError("--tokenizer moses: expected --source-lang and --target-lang, got none")
    rate = given.get("lr")
    if given.get("lr_scheduler") == "aiayn_inverse_sqrt" and rate != OptimizationConfig().lr:
        logger.warning("--lr is not read by aiayn_inverse_sqrt, only --lr-factor is: got %s", rate)


def checking_direction(load_models: Callable, given: Mapping[str, Any]) -> Callable:
    """Wrap the function that loads models: it raises ValueError for one that translates the other
    way round, unless --model-overrides names the languages."""

    @wraps(load_models)
    def wrapped(
        filenames: list[str], arg_overrides: Any = None, task: Any = None, *rest: Any, **named: Any
    ) -> object:
        models = load_models(filenames, arg_overrides, task, *rest, **named)
        options = Namespace(**given) if task is None else task.cfg
        used = [getattr(options, name, None) for name in LANGUAGES]
        is_pair = task is None or isinstance(task, TranslationTask)
        if is_pair and len({*used, None}) == 3 and "_lang" not in given.get("model_overrides", ""):
            for path in filter(os.path.isfile, filenames):
                configuration = flat_options(
                    plain_configuration(read_checkpoint(Path(path), False))
                )
                trained = [configuration.get(name) for name in LANGUAGES]
                if trained == used[::-1]:
                    raise ValueError(
                        "{}: expected -s {} -t {}, got -s {} -t {}".format(path, *trained, *used)
                    )
        return models

    return wrapped


def opening_log_once(make_bar: Callable) -> Callable:
    """Wrap the function that makes the progress bar of an epoch: it opens --log-file only once.
    fairseq opens the file again at every epoch, so that a line of epoch 80 stands there 80 times,
    and a training of a thousand epochs has no file descriptors left."""

    @wraps(make_bar)
    def wrapped(iterator: Iterable, log_file: str | None = None, **named: object) -> object:
        handlers = progress_bar.logger.handlers
        opened = {handler.baseFilename for handler in handlers if hasattr(handler, "baseFilename")}
        is_open = log_file is not None and os.path.abspath(log_file) in opened
        return make_bar(iterator, log_file=None if is_open else log_file, **named)

    return wrapped


def log_peak_memory() -> None:
    """Write the peak memory as the last line of a training's log, which runs/ reads."""
    unit = 1 if sys.platform == "darwin" else KIB
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // MIB
    gpu = ""
    if torch.cuda.is_initialized():
        gpu = f", of the GPU {torch.cuda.max_memory_reserved() // MIB} MiB"
    # fairseq writes only this logger to --log-file, and silences it on all ranks but the first
    logging.getLogger(TRAIN).info("peak memory: %d MiB%s", host, gpu)
