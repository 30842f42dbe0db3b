"""How bad input is refused."""

from collections.abc import Callable

import pytest


def fault_of(action: Callable, *arguments: object) -> str:
    """The message of the ValueError that an action ends with."""
    with pytest.raises(ValueError) as caught:
        action(*arguments)
    return str(caught.value)
