"""Sentences of the command line, of standard input or typed in a terminal, through an engine."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from fairseq_aiayn.text import not_utf8, optional

if TYPE_CHECKING:
    from fairseq_aiayn.inference.engine import Engine

Output = TypeVar("Output")


def outputs_of(
    engine: Engine[str, Any, Output], sentences: Sequence[str], skip_invalid: bool
) -> Iterator[Output | None]:
    """Yield the output of each sentence, or of what a terminal or else standard input has; None
    for an invalid sentence that is skipped."""
    if sentences or not sys.stdin.isatty():
        yield from outputs_in_order(engine, sentences, skip_invalid)
    else:
        yield from outputs_in_terminal(engine)


def outputs_in_order(
    engine: Engine[str, Any, Output], sentences: Sequence[str], skip_invalid: bool
) -> Iterator[Output | None]:
    """Yield the output of each sentence or, if there is none, of each line of standard input.

    An invalid sentence raises ValueError with its number, after all outputs before it. With
    `skip_invalid`, the error is printed on standard error and the output is None.
    """
    from fairseq_aiayn.inference.engine import raise_error

    errors: list[ValueError] = []

    def skip(error: ValueError) -> None:
        print(f"skipped: {error}", file=sys.stderr)
        errors.append(error)

    invalid = skip if skip_invalid else raise_error
    if sentences:
        yield from engine.stream(sentences, invalid=invalid)
    else:
        lines = lines_engine(engine)
        yield from lines.stream(input_lines(), where="standard input:", invalid=invalid)
    if errors:
        print(f"skipped {len(errors)} invalid sentences", file=sys.stderr)


def outputs_in_terminal(engine: Engine[str, Any, Output]) -> Iterator[Output]:
    """Ask for a sentence after the other, and yield the output of each; print the error of an
    invalid one."""

    def complain(error: ValueError) -> None:
        print(error.__cause__, file=sys.stderr)

    outputs = lines_engine(engine).stream(asked_for(sys.stdin.buffer), at_once=1, invalid=complain)
    return (output for output in outputs if output is not None)


def lines_engine(engine: Engine[str, Any, Output]) -> Engine[bytes, Any, Output]:
    """Return an engine that reads lines of UTF-8."""
    from fairseq_aiayn.inference.engine import Engine

    def read(line: bytes) -> Any:
        try:
            return engine.read(line.rstrip(b"\r\n").decode())
        except UnicodeDecodeError as error:
            raise ValueError(not_utf8(error)) from error

    return Engine(read, engine.run, engine.empty, engine.batch_tokens)


def input_lines() -> Iterator[bytes]:
    """Yield the lines of standard input without its byte order mark, and show progress in a
    terminal."""
    with optional("tqdm"):
        from tqdm import tqdm
    for number, line in enumerate(tqdm(sys.stdin.buffer, unit=" sentences", disable=None)):
        yield line if number else line.removeprefix(codecs.BOM_UTF8)


def asked_for(terminal: BinaryIO) -> Iterator[bytes]:
    """Ask for sentences until the terminal ends."""
    print("A sentence a line; Ctrl-D ends.", file=sys.stderr)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = terminal.readline()
        if not line:
            print(file=sys.stderr)
            return
        yield line
