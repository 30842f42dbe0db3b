"""Errors of memory, of numbers and of options: each function knows one kind and says what to do.

They are recognisers of error_messages.py: an error in, one line out, or None for any other error.
"""

from __future__ import annotations

import errno
import re
import sys
import traceback

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from fairseq_aiayn.plugin.error_frames import command_name, variables_in

# PyTorch's words for memory that is not there: on a CPU, on a GPU, in a process that reads data
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
# Functions of fairseq that read options or make what they name: (module, function, the variable
# that holds its name, or else what to call it)
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
# What options and configurations of the wrong kind end in there
MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError)
MISFITS += (SyntaxError, TypeError, ValueError, OmegaConfBaseException, HydraException)


def no_memory(error: BaseException) -> str | None:
    """More memory was asked for than there is, and what to lower."""
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
    """A training whose gradients became NaN or infinite, in float16 also after many attempts.

    fairseq's search for the layer that it began in can end in an error of its own.
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
    """Data without a target side, as translating needs none, in a training or a validation."""
    missing = isinstance(error, TypeError) and "argument: 'prev_output_tokens'" in str(error)
    return "the data must have a target side, has a source side alone" if missing else None


def too_large(error: BaseException) -> str | None:
    """An option's number that no machine's number can hold."""
    large = isinstance(error, OverflowError) and re.search("too (large|big)", str(error))
    return f"a number is too large: {error}" if large else None


def unreadable_option(error: BaseException) -> str | None:
    """An option's value that could not be read, by an error that argparse does not expect."""
    variables = variables_in(error, "argparse", "_get_value")
    if not isinstance(error, MISFITS) or not variables:
        return None
    names = variables["action"].option_strings or [variables["action"].dest]
    return f"{names[0]}: cannot be read, got {variables['arg_string'][:60]!r}"


def contradiction(error: BaseException) -> str | None:
    """Options that one of fairseq's commands itself refuses or stumbles over."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    by_command = frames and frames[-1].f_globals.get("__name__", "").startswith("fairseq_cli.")
    if not by_command or not isinstance(error, MISFITS):
        return None
    said = isinstance(error, AssertionError) and str(error)
    return said or f"these options cannot be used ({brief(error)})"


def no_sentences(error: BaseException) -> str | None:
    """fairseq divides by how many sentences, or tokens, it has translated or validated."""
    counting = (("fairseq_cli.generate", "_main"), ("fairseq.tasks.fairseq_task", "reduce_metrics"))
    reached = any(variables_in(error, *function) for function in counting)
    return "no sentence is left" if isinstance(error, ZeroDivisionError) and reached else None


def foreign_input(error: BaseException) -> str | None:
    """What fairseq-interactive reads in another encoding."""
    name = variables_in(error, "fairseq_cli.interactive", "buffered_read").get("input")
    if not name or not isinstance(error, UnicodeDecodeError):
        return None
    return f"{'standard input' if name == '-' else name}: must be UTF-8, is not"


def no_architecture(error: BaseException) -> str | None:
    """fairseq-train without a model, for which fairseq has an error without words."""
    parsing = variables_in(error, "fairseq.options", "parse_args_and_arch")
    return "--arch is required" if parsing and repr(error) == "RuntimeError()" else None


def misfit(error: BaseException) -> str | None:
    """Options, or a checkpoint's configuration, of which fairseq cannot make what they name."""
    for module, function, name, otherwise in USERS_OF_OPTIONS:
        variables = variables_in(error, module, function)
        if variables and isinstance(error, MISFITS):
            what = variables.get(name) or otherwise
            return f"{what}: cannot be used as it is given ({brief(error)})"
    return None


def brief(error: BaseException) -> str:
    """An error's type and the beginning of what it says."""
    return f"{type(error).__name__}: {str(error)[:120]}"
