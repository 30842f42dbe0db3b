"""Put a check before a function of fairseq."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps


def checked(function: Callable, check: Callable) -> Callable:
    """Wrap a function: `check`, called first with the same arguments, may raise ValueError."""

    @wraps(function)
    def call(*arguments: object, **options: object) -> object:
        check(*arguments, **options)
        return function(*arguments, **options)

    return call
