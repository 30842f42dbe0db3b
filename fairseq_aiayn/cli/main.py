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

`aiayn COMMAND --help` explains a command. Bad input gives an error of one line and exit status 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import NoReturn

from fairseq_aiayn.cli import (
    attention,
    average,
    bleu,
    compare,
    complexity,
    cost,
    delinearize,
    diagnose,
    evalb,
    export,
    flags,
    linearize,
    parse,
    rows,
    translate,
    user_dir,
)
from fairseq_aiayn.text import shortened

COMMANDS = (
    *(rows, flags, cost, complexity, user_dir, average, bleu, compare, diagnose, attention),
    *(export, translate),
    *(linearize, parse, delinearize, evalb),
)

BAD_INPUT = 2
NO_MEMORY = "allocate memory"  # in the RuntimeError that PyTorch raises without enough memory
NO_MEMORY_LINE = "there is not enough memory for this"
INTERRUPTED = 128 + 2  # what a shell reports for SIGINT
NO_READER = 128 + 13  # what a shell reports for SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    if not _open_streams():
        print("aiayn: standard output is closed", file=sys.stderr)
        return BAD_INPUT
    arguments = build_parser().parse_args(argv)
    try:
        try:
            arguments.run(arguments)
        finally:
            _flush_stdout()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return NO_READER
    except (ValueError, OSError) as error:
        print(f"aiayn {arguments.command}: {_one_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except (OverflowError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and NO_MEMORY not in str(error):
            raise
        what = "a number is too large" if isinstance(error, OverflowError) else NO_MEMORY_LINE
        print(f"aiayn {arguments.command}: {what}", file=sys.stderr)
        return BAD_INPUT
    return 0


class Parser(argparse.ArgumentParser):
    """argparse's parser, with error messages shortened like all others."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the shortened message, and exit."""
        super().error(shortened(message))


def _open_streams() -> bool:
    """Replace closed streams but standard output; return whether standard output is open.

    Python sets a closed stream to None. A closed standard input becomes an empty one.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    return sys.stdout is not None


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `aiayn`, with one subparser per module of COMMANDS."""
    summary, details = _read_docstring(sys.modules[__name__])
    parser = Parser(
        prog="aiayn",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_versions())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        summary, details = _read_docstring(module)
        command = commands.add_parser(
            module.__name__.rpartition(".")[2].replace("_", "-"),
            help=summary.replace("%", "%%"),
            description=summary,
            epilog=details,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _read_docstring(module: ModuleType) -> tuple[str, str]:
    """Return the first line of a module's docstring and the rest of it."""
    summary, _, details = (module.__doc__ or "").partition("\n")
    return summary, details.strip("\n")


def _versions() -> str:
    """Return the versions that a bug report needs."""
    found = []
    for name in ("fairseq-aiayn", "fairseq", "fairseq-fixed", "torch"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join([*found, f"Python {sys.version.split()[0]}"])


def _flush_stdout() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        # Python would flush again on exit and report the same failure in its own words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _one_line(error: ValueError | OSError) -> str:
    """Return the message of an error; for an OSError, the file and the reason, no error number."""
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        message = str(error)
    return shortened(message)


if __name__ == "__main__":
    sys.exit(main())
