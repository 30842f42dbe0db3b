"""what "Attention Is All You Need" needs and fairseq lacks

The usual order:
  aiayn rows
  fairseq-train DATA --user-dir $(aiayn user-dir) --task aiayn_translation \\
      $(aiayn flags base --gpus 8)
  aiayn average --last 5 --dir checkpoints --output checkpoints/average.pt
  fairseq-generate DATA --user-dir $(aiayn user-dir) --task aiayn_translation \\
      --path checkpoints/average.pt ...
  aiayn bleu --hypothesis test.hyp --reference test.de --target-lang de
  aiayn attention --source "Select the cells." --output heads.html

and for constituency parsing (section 6.3):
  aiayn linearize section_02.mrg --words train.words > train.tree
  aiayn parse --checkpoint average.pt --data-bin bin "The board met ."
  aiayn delinearize test.tree --words test.words > predicted.trees
  aiayn evalb gold.trees predicted.trees

`aiayn COMMAND --help` explains a command. Bad input gives an error of one line and exit status 2;
AIAYN_DEBUG=1 in the environment gives the traceback.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import Any, NoReturn

from fairseq_aiayn.console import missing_package, note, shortened
from fairseq_aiayn.nn.kept_shapes import keep_few_shapes

__all__ = ["main"]

# Where each command is: a function that declares its options, if it has any, and one that runs it,
# whose docstring is its help. Only the module of the command that runs is imported.
COMMANDS = {
    "rows": "configurations",
    "flags": "configurations",
    "cost": "configurations",
    "check": "check",
    "user-dir": "configurations",
    "recipes": "configurations",
    "repairs": "repairs",
    "average": "results",
    "bleu": "results",
    "compare": "results",
    "diagnose": "results",
    "attention": "attention",
    "export": "export",
    "translate": "sentences",
    "linearize": "trees",
    "parse": "sentences",
    "delinearize": "trees",
    "evalb": "trees",
}

BAD_INPUT = 2
MEMORY_ERRORS = ("allocate memory", "out of memory")  # in RuntimeErrors for a CPU and for a GPU
INTERRUPTED = 128 + 2  # what a shell reports for SIGINT
NO_READER = 128 + 13  # what a shell reports for SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    if argv is None:  # as a program, whose environment is its own
        keep_few_shapes()
    words = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]
    if isinstance(sys.stdout, TextIOWrapper):  # a notebook has another
        # As what is read, in any locale; names of files may have other bytes
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    command = words[0] if not words[0].startswith("-") else None
    if command and command not in COMMANDS:
        nearest = difflib.get_close_matches(command, COMMANDS, 1) or ["--help"]
        note(f"aiayn: no command {command!r}, try aiayn {nearest[0]}")
        return BAD_INPUT
    arguments = build_parser([command] if command else COMMANDS).parse_args(words)
    try:
        try:
            arguments.run(arguments)
        finally:
            _flush_output()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return NO_READER
    except Exception as error:
        message = _message(error)
        if message is None or os.environ.get("AIAYN_DEBUG") == "1":
            raise
        note(f"aiayn {arguments.command}: {message}")
        return BAD_INPUT
    return 0


def _flush_output() -> None:
    try:
        print(end="", flush=True)  # also if standard output is closed
    except OSError:
        # Python would flush again on exit and report the same failure in its own words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _message(error: Exception) -> str | None:
    """Return what a user is told of an error; None for a fault of this program."""
    is_torchs = isinstance(error, RuntimeError) and any(
        words in str(error) for words in MEMORY_ERRORS
    )
    if isinstance(error, MemoryError) or is_torchs:
        return "there is not enough memory for this"
    if isinstance(error, ImportError):
        return missing_package(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) if isinstance(error, ValueError | OSError | OverflowError) else None


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors show what was typed on one line."""

    def error(self, message: str) -> NoReturn:
        super().error(shortened(message))


def utf_8(text: str) -> str:
    """Return a text; raises ArgumentTypeError unless it was UTF-8."""
    try:
        return text.encode().decode()
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError(f"expected UTF-8, got {text!r}") from error


def build_parser(names: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of `aiayn`, with the commands of these names."""
    parser = CommandParser(prog="aiayn", **_help(sys.modules[__name__]))
    parser.add_argument("--version", action="version", version=_versions())
    if len(names) > 1:
        import shtab  # takes a third of the time that a command takes to start

        shtab.add_argument_to(parser, help="print the completion of a shell, to be sourced by it")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        module = importlib.import_module(f"fairseq_aiayn.cli.{COMMANDS[name]}")
        function = name.replace("-", "_")
        run = getattr(module, f"run_{function}")
        texts = _help(run)
        command = commands.add_parser(name, help=texts["description"], **texts)
        # Of arguments without a type; names of files have one, Path or str, as any bytes may be one
        command.register("type", None, utf_8)
        if declare := getattr(module, f"declare_{function}", None):
            declare(command)
        command.set_defaults(run=run)
    return parser


def _help(documented: object) -> dict[str, Any]:
    """Return a docstring as texts of a parser: its first line, and the rest after the options."""
    summary, _, details = (inspect.getdoc(documented) or "").partition("\n")
    kept = argparse.RawDescriptionHelpFormatter
    return {"description": summary, "epilog": details.strip("\n"), "formatter_class": kept}


def _versions() -> str:
    """Return the versions that a bug report needs."""
    versions = []
    for name in ("fairseq-aiayn", "fairseq", "fairseq-fixed", "torch"):
        with suppress(PackageNotFoundError):
            versions.append(f"{name} {version(name)}")
    return ", ".join([*versions, f"Python {sys.version.split()[0]}"])
