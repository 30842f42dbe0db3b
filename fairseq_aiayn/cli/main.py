"""the commands of "Attention Is All You Need" that fairseq does not have

The usual order:
  aiayn rows
  fairseq-train DATA --user-dir $(aiayn user-dir) --task aiayn_translation \\
      $(aiayn flags base --gpus 8)
  aiayn average --last 5 --dir checkpoints --output checkpoints/average.pt
  fairseq-generate DATA --user-dir $(aiayn user-dir) --task aiayn_translation \\
      --path checkpoints/average.pt ...
  aiayn bleu --hypothesis test.hyp --reference test.de --target-lang de
  aiayn attention exp/demo/aiayn-tiny-1 --source "..." \\
      --output attention.html

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
import importlib
import inspect
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from fairseq_aiayn.text import shortened

# Where each command is: a function that declares its options and one that runs it, whose docstring
# is its help. Only the module of the command that runs is imported.
COMMANDS = {
    "rows": "configurations",
    "flags": "configurations",
    "cost": "configurations",
    "user-dir": "configurations",
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
NO_MEMORY = "allocate memory"  # in the RuntimeError that PyTorch raises without enough memory
INTERRUPTED = 128 + 2  # what a shell reports for SIGINT
NO_READER = 128 + 13  # what a shell reports for SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    if not _open_streams():
        print("aiayn: standard output is closed", file=sys.stderr)
        return BAD_INPUT
    names = words[:1] if words and words[0] in COMMANDS else [*COMMANDS]
    arguments = build_parser(names).parse_args(words)
    try:
        try:
            arguments.run(arguments)
        finally:
            _flush_stdout()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return NO_READER
    except Exception as error:
        message = _message(error)
        if message is None or os.environ.get("AIAYN_DEBUG") == "1":
            raise
        print(f"aiayn {arguments.command}: {shortened(message)}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _message(error: Exception) -> str | None:
    """Return what a user is told of an error; None for a fault of this program."""
    if isinstance(error, MemoryError) or NO_MEMORY in str(error):
        return "there is not enough memory for this"
    if isinstance(error, OverflowError):
        return "a number is too large"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) if isinstance(error, ValueError | OSError) else None


class Parser(argparse.ArgumentParser):
    """argparse's parser, with error messages shortened like all others."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the shortened message, and exit."""
        super().error(shortened(message))


def build_parser(names: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the parser of `aiayn`, with the commands of these names."""
    summary, details = _help(sys.modules[__name__])
    parser = Parser(
        prog="aiayn",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_versions())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        module = importlib.import_module(f"fairseq_aiayn.cli.{COMMANDS[name]}")
        run = getattr(module, f"run_{name.replace('-', '_')}")
        summary, details = _help(run)
        command = commands.add_parser(
            name,
            help=summary.replace("%", "%%"),
            description=summary,
            epilog=details,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        getattr(module, f"declare_{name.replace('-', '_')}")(command)
        command.set_defaults(run=run)
    return parser


def _help(documented: object) -> tuple[str, str]:
    """Return the first line of a docstring and the rest of it."""
    summary, _, details = (inspect.getdoc(documented) or "").partition("\n")
    return summary, details.strip("\n")


def _versions() -> str:
    """Return the versions that a bug report needs."""
    versions = []
    for name in ("fairseq-aiayn", "fairseq", "fairseq-fixed", "torch"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join([*versions, f"Python {sys.version.split()[0]}"])


def _open_streams() -> bool:
    """Replace closed streams but standard output; return whether standard output is open.

    Python sets a closed stream to None. A closed standard input becomes an empty one.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    return sys.stdout is not None


def _flush_stdout() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        # Python would flush again on exit and report the same failure in its own words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
