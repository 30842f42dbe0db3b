"""End fairseq's commands with one line where the user can act on an error, not with a traceback.

fairseq lets what a plugin raises run into Python's own traceback. `install` puts a hook in front of
it, in fairseq's commands only, that tries the recognisers of RECOGNISERS on the error and on what
it was raised in place of. An error that none of them knows keeps its traceback. Processes that
fairseq starts itself report to the first one, whose traceback has theirs in it.
"""

from __future__ import annotations

import errno
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from fairseq_aiayn.checkpoints.reading import explain_load_error
from fairseq_aiayn.messages import shortened
from fairseq_aiayn.plugin import run_errors
from fairseq_aiayn.plugin.error_frames import command_name, file_in

Recogniser = Callable[[BaseException], str | None]

# Where a function of fairseq or torch has the checkpoint that it works on: (module, function,
# variable), in the order of preference. The errors raised inside do not name it.
CHECKPOINT_VARIABLES = (
    ("torch.serialization", "load", "f"),
    ("fairseq.trainer", "load_checkpoint", "filename"),
    ("fairseq.checkpoint_utils", "load_model_ensemble_and_task", "filename"),
    ("fairseq.checkpoint_utils", "torch_persistent_save", "filename"),
)

# fairseq's own words, and those of what it calls, in bare exceptions, for what is not there, does
# not fit or cannot be
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
    """Put the hook before the present sys.excepthook if this is one of fairseq's commands."""
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
    """Return one line about an error that the user can act on, None for any other.

    The line begins with the checkpoint that was in hand, unless it names a file already.
    """
    errors = list(_behind(error))
    for recognise in RECOGNISERS:
        for each in errors:
            message = recognise(each)
            if message is None:
                continue
            path = next(filter(None, map(_checkpoint_of, errors)), None)
            unnamed = path and path not in message and not getattr(each, "filename", None)
            return shortened((f"{path}: " if unnamed else "") + " ".join(message.split()))
    return None


@contextmanager
def explained() -> Iterator[None]:
    """Raise ValueError with that line in place of an error that torch or fairseq raises inside."""
    try:
        yield
    except Exception as error:  # they raise whatever they please
        reason = explain(error)
        if reason is None:
            raise
        raise ValueError(reason) from error


def no_room(error: BaseException) -> str | None:
    """A full disk, or a quota.

    fairseq writes a new checkpoint under another name first, so the ones before it stay whole; but
    it copies that one over checkpoint_last and checkpoint_best in place.
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
    """A checkpoint, data or another file that is not there, may not be read or cannot be used."""
    if isinstance(error, BY_THE_SYSTEM):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    known = type(error) in BARE and UNUSABLE.search(str(error))
    to_install = isinstance(error, ImportError) and "install" in str(error)
    return str(error) if known or to_install else None


def unreadable_checkpoint(error: BaseException) -> str | None:
    """A file that torch.load refused: another class than plain data, or broken."""
    loading = file_in(error, "torch.serialization", "load", "f") is not None
    return explain_load_error(error) if loading and isinstance(error, Exception) else None


def other_parameters(error: BaseException) -> str | None:
    """A checkpoint of another architecture or vocabulary, in one of fairseq's own models."""
    lines = str(error).splitlines()
    if not isinstance(error, RuntimeError) or "loading state_dict" not in str(error):
        return None
    details = textwrap.shorten(" ".join(lines[1:] or lines), width=300, placeholder=" ...")
    return f"the checkpoint does not fit the model: {details}"


def our_value_error(error: BaseException) -> str | None:
    """A ValueError that this package raised, whose message says what to do."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = frames and frames[-1].f_globals.get("__name__", "").split(".")[0] == "fairseq_aiayn"
    return str(error) if isinstance(error, ValueError) and ours else None


# Tried in this order: what went wrong on the disk explains the errors that follow from it.
RECOGNISERS: tuple[Recogniser, ...] = (
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
    """Yield the error and those it was raised in place of.

    fairseq's trainer raises a bare Exception for whatever stops a checkpoint from loading, torch a
    RuntimeError for a failed write. Any other error raised while one was handled is a fault of its
    own.
    """
    while error is not None:
        yield error
        replaces = type(error) in (Exception, RuntimeError, OSError)
        handled = error.__context__ if replaces and not error.__suppress_context__ else None
        error = error.__cause__ or handled


def _checkpoint_of(error: BaseException) -> str | None:
    found = (file_in(error, *where) for where in CHECKPOINT_VARIABLES)
    return next(filter(None, found), None)
