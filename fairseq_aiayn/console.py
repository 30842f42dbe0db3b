"""Say things on a terminal: messages of one line, aligned columns, the frame of a script."""

from __future__ import annotations

import re
import sys
import unicodedata
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

LONGEST_MESSAGE = 600  # characters
EXTRAS = {  # the extra of this package that brings another package
    "fairseq": "fairseq",
    "omegaconf": "fairseq",
    "matplotlib": "plot",
    "ctranslate2": "ctranslate2",
}
# A quoted text, a path, a number; an apostrophe within a word quotes nothing
LONG_VALUE = re.compile(r"(?<!\w)'[^']{200,}'(?!\w)|\"[^\"]{200,}\"|\S{200,}")


def note(message: str) -> None:
    """Print a message on standard error, `shortened`."""
    print(shortened(message), file=sys.stderr)


def shortened(message: str) -> str:
    """Return a message on one line as in `one_line`, with long values shortened."""
    line = one_line(message)
    line = LONG_VALUE.sub(lambda value: f"{value[0][:100]}...{value[0][-60:]}", line)
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}..."


def one_line(text: str) -> str:
    """Return a text on one line; a character that is not seen, or that changes how others are seen,
    such as U+202E, is written as in Python."""
    return "".join(map(_visible, " ".join(text.splitlines())))


def _visible(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


def missing_package(error: ImportError) -> str | None:
    """Return how to install a package that is missing; None for one that is there but fails, and
    for a module of this package."""
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package in ("", "fairseq_aiayn"):
        return None
    extra = EXTRAS.get(package)
    wanted = f"'fairseq-aiayn[{extra}]'" if extra else package.replace("_", "-")
    return f"{package} is needed for this: pip install {wanted}"


@contextmanager
def script(description: str) -> Iterator[ArgumentParser]:
    """Yield the parser of a script, whose help is its docstring; the block reads the options and
    does the work. ValueError, OSError or a missing package in it ends the script with status 1 and
    one line, which begins with its name."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    name = parser.prog.removesuffix(".py")
    try:
        yield parser
    except ImportError as error:
        raise SystemExit(f"{name}: {missing_package(error) or error}") from error
    except (OSError, ValueError) as error:
        raise SystemExit(f"{name}: {shortened(str(error))}") from error


def aligned_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one line per row: the first column aligned to the left, the others to the right."""
    return ["  ".join(row).rstrip() for row in aligned(rows)]


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[list[str]]:
    """Return rows whose cells are as wide as their column, the first `left` filled up on the right,
    the others on the left."""
    columns = []
    for index, column in enumerate(zip(*rows, strict=True)):
        width, fill_up = max(map(len, column)), str.ljust if index < left else str.rjust
        columns.append([fill_up(cell, width) for cell in column])
    return [[*row] for row in zip(*columns, strict=True)]
