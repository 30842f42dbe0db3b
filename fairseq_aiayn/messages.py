"""Messages of one short line, and scripts that end with one."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_MESSAGE = 300  # characters; a message may quote a name or a file's content of any length


def shortened(message: str) -> str:
    """Return a message on one line; a long one is reduced to its beginning and its end."""
    line = " ".join(message.splitlines())
    half = LONGEST_MESSAGE // 2
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:half]} ... {line[-half:]}"


@contextmanager
def one_line_errors(script: str) -> Iterator[None]:
    """End a script with status 1 and one line, which begins with the script's name, if its input
    or files raise ValueError or OSError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise SystemExit(f"{script}: {shortened(str(error))}") from None


@contextmanager
def script(description: str) -> Iterator[ArgumentParser]:
    """Yield the parser of a script, whose help is its docstring; the block reads the options and
    does the work. An error in it ends the script as in `one_line_errors`."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    with one_line_errors(parser.prog.removesuffix(".py")):
        yield parser


@contextmanager
def optional(*packages: str) -> Iterator[None]:
    """Turn a failing import of optional packages into a ValueError with the line that installs
    them."""
    try:
        yield
    except ImportError as error:
        raise ValueError(
            f"{error.name or packages[0]} is needed for this: pip install {' '.join(packages)}"
        ) from None
