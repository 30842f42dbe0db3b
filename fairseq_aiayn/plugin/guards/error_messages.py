"""End fairseq's commands with one line instead of a traceback if the user can act on an error.

An error that a plugin raises normally ends in Python's traceback. In fairseq's commands, and only
there, `install` adds a hook. The hook tries the functions of RECOGNIZERS on the error, and on the
errors that it replaced. An error that none of them recognizes keeps its traceback. Processes that
fairseq starts report to the first process, whose traceback includes theirs.
"""

from __future__ import annotations

import errno
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType

from fairseq_aiayn.checkpoints import explain_load_error
from fairseq_aiayn.plugin.guards import run_errors
from fairseq_aiayn.plugin.guards.error_frames import command_name, file_in
from fairseq_aiayn.text import shortened

Recognizer = Callable[[BaseException], str | None]

# Variables of fairseq and torch that hold the checkpoint in use: (module, function, variable), in
# order of preference. Errors raised in these functions do not name the checkpoint.
CHECKPOINT_VARIABLES = (
    ("torch.serialization", "load", "f"),
    ("fairseq.trainer", "load_checkpoint", "filename"),
    ("fairseq.checkpoint_utils", "load_model_ensemble_and_task", "filename"),
    ("fairseq.checkpoint_utils", "torch_persistent_save", "filename"),
)

# Messages of fairseq, and of the libraries it calls, in exceptions of the classes in BARE, about
# something that is missing, does not fit or is impossible
UNUSABLE = re.compile(
    "^(Model file|Dataset) not found: "
    "|^Could not infer language pair"
    "|^Size of sample #\\d+ is invalid"
    "|^Sentences lengths should not exceed max_tokens"
    "|^The dataset is empty"
    "|^Source and target must contain the same number of examples"
    "|^Unknown post_process option"
    "|^This version of the model is no longer supported"
    "|^file .* not found$"
    "|^INTERNAL: could not parse ModelProto"
    "|^Torch not compiled with CUDA enabled$"
    "|^(Found no NVIDIA driver|No CUDA GPUs are available)"
    "|^Unsupported optimizer: "
    "|^(Criterion|Optimizer) does not match; "
    "|^--[a-z]"
    "|^world size is "
    "|^[a-z_]+ is required!$"
    "|^(num_workers option should|Seed must|shard_id must) be "
)
BARE = (Exception, AssertionError, NotImplementedError, OSError, RuntimeError, ValueError)
BY_THE_SYSTEM = (FileNotFoundError, FileExistsError, PermissionError)
BY_THE_SYSTEM += (NotADirectoryError, IsADirectoryError)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def install() -> None:
    """Add the hook in front of the present sys.excepthook if this is one of fairseq's commands."""
    command = command_name(sys.argv[0])
    if command is None:
        return
    previous = sys.excepthook

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType) -> None:
        line = explain(error)
        if line is None:
            previous(kind, error, trace)
        else:
            print(f"{command}: error: {line}", file=sys.stderr)

    sys.excepthook = report


def explain(error: BaseException) -> str | None:
    """Return one line about an error that the user can act on; None for any other error.

    The line begins with the name of the checkpoint in use, unless it already names a file.
    """
    errors = list(_behind(error))
    for recognize in RECOGNIZERS:
        for each in errors:
            message = recognize(each)
            if message is None:
                continue
            path = next(filter(None, map(_checkpoint_of, errors)), None)
            unnamed = path and path not in message and not getattr(each, "filename", None)
            return shortened((f"{path}: " if unnamed else "") + " ".join(message.split()))
    return None


def no_room(error: BaseException) -> str | None:
    """Explain a full disk or an exceeded quota.

    fairseq first writes a new checkpoint under another name, so earlier checkpoints stay intact.
    But it then copies the new one over checkpoint_last and checkpoint_best in place.
    """
    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    if error.filename2:
        return (
            f"{error.filename2}: {error.strerror}; this copy is incomplete, {error.filename} is "
            f"not: continue with --restore-file {error.filename}"
        )
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def unusable_file(error: BaseException) -> str | None:
    """Explain that a checkpoint, data or another file is missing, not readable or not usable."""
    if isinstance(error, BY_THE_SYSTEM):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    known = type(error) in BARE and UNUSABLE.search(str(error))
    to_install = isinstance(error, ImportError) and "install" in str(error)
    return str(error) if known or to_install else None


def unreadable_checkpoint(error: BaseException) -> str | None:
    """Explain that torch.load refused a file: it holds a class that is not plain data, or is
    broken."""
    loading = file_in(error, "torch.serialization", "load", "f") is not None
    return explain_load_error(error) if loading and isinstance(error, Exception) else None


def other_parameters(error: BaseException) -> str | None:
    """Explain that a checkpoint of one of fairseq's own models has a different architecture or
    vocabulary."""
    lines = str(error).splitlines()
    if not isinstance(error, RuntimeError) or "loading state_dict" not in str(error):
        return None
    details = textwrap.shorten(" ".join(lines[1:] or lines), width=300, placeholder=" ...")
    return f"the checkpoint does not fit the model: {details}"


def our_value_error(error: BaseException) -> str | None:
    """Explain a ValueError that this package raised, by its own message."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = frames and frames[-1].f_globals.get("__name__", "").split(".")[0] == "fairseq_aiayn"
    return str(error) if isinstance(error, ValueError) and ours else None


# Tried in this order: an error of the disk explains the errors that follow from it.
RECOGNIZERS: tuple[Recognizer, ...] = (
    no_room,
    run_errors.no_memory,
    run_errors.not_a_number,
    unusable_file,
    unreadable_checkpoint,
    other_parameters,
    our_value_error,
    run_errors.no_sentences,
    run_errors.no_target,
    run_errors.foreign_input,
    run_errors.contradiction,
    run_errors.too_large,
    run_errors.unreadable_option,
    run_errors.no_architecture,
    run_errors.misfit,
)


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and the errors that it replaced.

    fairseq's trainer raises a bare Exception for any error that stops a checkpoint from loading,
    and torch raises a RuntimeError for a failed write. Any other error that is raised while one is
    handled is a separate fault.
    """
    while error is not None:
        yield error
        replaces = type(error) in (Exception, RuntimeError, OSError)
        handled = error.__context__ if replaces and not error.__suppress_context__ else None
        error = error.__cause__ or handled


def _checkpoint_of(error: BaseException) -> str | None:
    found = (file_in(error, *where) for where in CHECKPOINT_VARIABLES)
    return next(filter(None, found), None)
