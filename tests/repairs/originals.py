"""fairseq's own functions and classes, which repairs have replaced."""

from functools import partial
from typing import Any

from fairseq_aiayn.repairs.patches import Patch


def original(patch: Patch) -> Any:
    """What stands in its place without repairs."""
    owner, name = patch.where()
    found = vars(owner)[name]
    if isinstance(found, type):
        return next(one for one in found.__mro__ if not one.__module__.startswith("fairseq_aiayn"))
    while isinstance(found, partial) or hasattr(found, "__wrapped__"):
        found = found.func if isinstance(found, partial) else found.__wrapped__
    return found
