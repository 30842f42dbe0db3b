"""Explain errors of memory, numbers and options; each function recognizes one kind of error.

The functions are used by error_messages.py: each returns one line for an error that it recognizes,
and None for any other error.
"""

from __future__ import annotations

import errno
import re
import sys
import traceback

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from fairseq_aiayn.plugin.guards.error_frames import command_name, module_name, variables_in

# PyTorch's messages about missing memory: on a CPU, on a GPU, in a process that reads data
NO_MEMORY = re.compile(
    "allocate memory|not enough memory|out of memory|bad_alloc|STATUS_ALLOC_FAILED"
    "|DataLoader worker .* killed by signal: (Killed|Bus error)"
)
ASKED_FOR = re.compile("(?i)allocate ([\\d.]+) (bytes|[KMGTPE]iB)")
LESS_MEMORY = {
    "fairseq-train": "; lower --max-tokens, and raise --update-freq as much to keep the batch",
    "fairseq-validate": "; lower --max-tokens or --batch-size",
    "fairseq-generate": "; lower --max-tokens, --batch-size or --beam",
    "fairseq-interactive": "; lower --buffer-size, --batch-size or --beam",
}
# Functions of fairseq that read options or build objects from them: (module, function, the variable
# with the name of the object, the name to use without such a variable)
USERS_OF_OPTIONS = (
    ("fairseq.modules.fairseq_dropout", "forward", "", "a dropout rate of the checkpoint"),
    ("fairseq.registry", "build_x", "choice", "a part"),
    ("fairseq.models", "build_model", "model_type", "the model"),
    ("fairseq.tasks.translation", "build_model", "", "an option of --eval-bleu"),
    ("fairseq.dataclass.utils", "overwrite_args_by_name", "", "the configuration"),
    ("fairseq.checkpoint_utils", "load_checkpoint_to_cpu", "path", "the checkpoint"),
    ("fairseq.checkpoint_utils", "load_model_ensemble_and_task", "filename", "the checkpoint"),
    ("fairseq.trainer", "load_checkpoint", "filename", "the checkpoint"),
    ("fairseq.dataclass.utils", "convert_namespace_to_omegaconf", "", "an option"),
    ("ast", "literal_eval", "", "an option"),
)
# The errors to which wrong options and configurations lead in these functions
MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError)
MISFITS += (SyntaxError, TypeError, ValueError, OmegaConfBaseException, HydraException)


def no_memory(error: BaseException) -> str | None:
    """Explain that there is not enough memory, and which options to lower."""
    by_torch = isinstance(error, RuntimeError) and NO_MEMORY.search(str(error))
    by_system = isinstance(error, OSError) and error.errno == errno.ENOMEM
    if not (isinstance(error, MemoryError) or by_torch or by_system):
        return None
    what = ""
    if asked_for := ASKED_FOR.search(str(error)):
        number, unit = asked_for.groups()
        if unit == "bytes":
            number, unit = f"{int(number) / 2**20:,.0f}", "MiB"
        what = f" for {number} {unit} more"
    return f"not enough memory{what}{LESS_MEMORY.get(command_name(sys.argv[0]), '')}"


def not_a_number(error: BaseException) -> str | None:
    """Explain that gradients became NaN or infinite, which in float16 ends a training only after
    many attempts.

    fairseq then searches for the layer that is the cause, and this search may raise another error.
    """
    trainer = variables_in(error, "fairseq.trainer", "train_step").get("self")
    if not trainer or FloatingPointError not in (type(error), type(error.__context__)):
        return None
    return (
        f"the loss or its gradient is NaN or infinite in update {trainer.get_num_updates() + 1}:"
        " the learning rate is too high (--lr-factor and --warmup-updates of aiayn_inverse_sqrt,"
        " else --lr), or the checkpoint that the training began with has such weights"
    )


def no_target(error: BaseException) -> str | None:
    """Explain that a training or a validation got data without a target side, which is enough only
    for translating."""
    missing = isinstance(error, TypeError) and "argument: 'prev_output_tokens'" in str(error)
    return "the data must have a target side, has only a source side" if missing else None


def too_large(error: BaseException) -> str | None:
    """Explain that the number of an option is too large for a machine number."""
    large = isinstance(error, OverflowError) and re.search("too (large|big)", str(error))
    return f"a number is too large: {error}" if large else None


def unreadable_option(error: BaseException) -> str | None:
    """Explain that the value of an option could not be read, if argparse does not expect the
    error."""
    variables = variables_in(error, "argparse", "_get_value")
    if not isinstance(error, MISFITS) or not variables:
        return None
    names = variables["action"].option_strings or [variables["action"].dest]
    return f"{names[0]}: cannot be read, got {variables['arg_string'][:60]!r}"


def contradiction(error: BaseException) -> str | None:
    """Explain an error about options that one of fairseq's commands itself raises."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    by_command = frames and module_name(frames[-1].f_globals).startswith("fairseq_cli.")
    if not by_command or not isinstance(error, MISFITS):
        return None
    said = isinstance(error, AssertionError) and str(error)
    return said or f"these options cannot be used ({brief(error)})"


def no_sentences(error: BaseException) -> str | None:
    """Explain a division by the number of translated or validated sentences or tokens if it is
    0."""
    counting = (("fairseq_cli.generate", "_main"), ("fairseq.tasks.fairseq_task", "reduce_metrics"))
    reached = any(variables_in(error, *function) for function in counting)
    return "no sentence is left" if isinstance(error, ZeroDivisionError) and reached else None


def foreign_input(error: BaseException) -> str | None:
    """Explain that the input of fairseq-interactive is not UTF-8."""
    name = variables_in(error, "fairseq_cli.interactive", "buffered_read").get("input")
    if not name or not isinstance(error, UnicodeDecodeError):
        return None
    return f"{'standard input' if name == '-' else name}: must be UTF-8, is not"


def no_architecture(error: BaseException) -> str | None:
    """Explain that --arch is missing; the error that fairseq-train raises then has no message."""
    parsing = variables_in(error, "fairseq.options", "parse_args_and_arch")
    return "--arch is required" if parsing and repr(error) == "RuntimeError()" else None


def misfit(error: BaseException) -> str | None:
    """Explain that fairseq cannot build an object from options or from a checkpoint's
    configuration."""
    for module, function, name, otherwise in USERS_OF_OPTIONS:
        variables = variables_in(error, module, function)
        if variables and isinstance(error, MISFITS):
            what = variables.get(name) or otherwise
            return f"{what}: cannot be used as it is given ({brief(error)})"
    return None


def brief(error: BaseException) -> str:
    """Return the type of an error and the beginning of its message."""
    return f"{type(error).__name__}: {str(error)[:120]}"
