"""How subword-nmt and SentencePiece mark which pieces make a word."""

import re

__all__ = ["BEGINS", "GOES_ON", "MARK"]

GOES_ON = "@@"  # subword-nmt: ends every piece of a word but its last
BEGINS = "\u2581"  # SentencePiece: begins the first piece of a word
MARK = re.compile(f"{GOES_ON}(?= |$)|{BEGINS}", re.MULTILINE)
