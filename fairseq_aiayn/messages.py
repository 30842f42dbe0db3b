"""Messages of one short line."""

from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_MESSAGE = 300  # characters; what a file holds, or a name, may have any number


def shortened(message: str) -> str:
    """Return a message on one line; of a long one the beginning and the end."""
    line = " ".join(message.splitlines())
    half = LONGEST_MESSAGE // 2
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:half]} ... {line[-half:]}"


@contextmanager
def one_line_errors(script: str) -> Iterator[None]:
    """End a script with status 1 and one line that begins with its name, where its input or files
    raise ValueError or OSError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise SystemExit(f"{script}: {shortened(str(error))}") from None
