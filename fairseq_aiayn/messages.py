"""Messages as short as one reads them."""

LONGEST_MESSAGE = 300  # characters; what a file holds, or a name, may have any number


def shortened(message: str) -> str:
    """Return a message on one line; of a long one the beginning and the end."""
    line = " ".join(message.splitlines())
    half = LONGEST_MESSAGE // 2
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:half]} ... {line[-half:]}"
