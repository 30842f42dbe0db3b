"""How most repairs are written: as a function that is called in place of one of fairseq's, and gets
it before the arguments of the call."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def around(replacement: Callable[..., Any]) -> Callable[[Callable], Callable]:
    """Return a function that wraps another one, for `replacement` to be called in its place."""

    def wrapper(original: Callable) -> Callable:
        @wraps(original)
        def wrapped(*arguments: object, **named: object) -> object:
            return replacement(original, *arguments, **named)

        return wrapped

    return wrapper
