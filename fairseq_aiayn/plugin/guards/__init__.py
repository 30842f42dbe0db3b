"""What the plugin puts around fairseq's own functions: checks before files, options and checkpoints
are used, one line for an error that a user can act on, and an orderly end.

Each guard is a module with a function `install`. They work for stock models, too.
"""

from fairseq_aiayn.plugin.guards import (
    checkpoints,
    dictionaries,
    error_messages,
    interval_checkpoints,
    log_file,
    number_options,
    peak_memory,
    prefetch,
    processes,
    resuming,
    signals,
)

GUARDS = (
    error_messages,  # first, because the others may raise errors
    checkpoints,
    dictionaries,
    number_options,
    prefetch,
    peak_memory,
    processes,
    resuming,
    interval_checkpoints,
    signals,  # after it, so that it is called first
    log_file,
)


def install() -> None:
    """Put all guards in place."""
    for guard in GUARDS:
        guard.install()
