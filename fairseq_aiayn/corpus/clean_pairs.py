"""Tokenize pairs of lines and drop unusable pairs, as Moses' clean-corpus-n.perl does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from unicodedata import category

from fairseq_aiayn.corpus.moses import moses_tokenizer

Pair = tuple[bytes, bytes]

TOKENIZERS = ("moses", "none")
REASONS = ("empty", "too long", "ratio", "not UTF-8")
LONGEST_WORD = 1000  # characters, as in clean-corpus-n.perl


@dataclass(frozen=True)
class Settings:
    """How text is tokenized and which pairs are kept; raises ValueError for a wrong value."""

    languages: tuple[str, str]
    tokenizer: str  # one of TOKENIZERS; "none" only reduces white space to single spaces
    normalize: bool  # only for "moses"; see moses_tokenizer
    max_length: int  # tokens per side
    max_ratio: float | None  # longer side / shorter side, in tokens
    lowercase: bool = False  # only for "moses"; see moses_tokenizer

    def __post_init__(self) -> None:
        if self.tokenizer not in TOKENIZERS:
            raise ValueError(f"tokenizer must be moses or none, got {self.tokenizer}")
        for name in ("normalize", "lowercase"):
            if getattr(self, name) and self.tokenizer != "moses":
                raise ValueError(f"{name} must come with the tokenizer moses, got none")
        if self.max_length < 1:
            raise ValueError(f"max-length must be at least 1, got {self.max_length}")
        if self.max_ratio is not None and not self.max_ratio >= 1:
            raise ValueError(f"max-ratio must be at least 1, got {self.max_ratio}")

    def record(self) -> dict[str, object]:
        """Return everything that a text's tokens depend on, ready for json.dump."""
        library = version("sacremoses") if self.tokenizer == "moses" else None
        return {**asdict(self), "languages": list(self.languages), "sacremoses": library}


def clean(
    pairs: Sequence[Pair], settings: Settings
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Return the kept pairs, as tokens separated by spaces, and the counts.

    The counts are the pairs read, kept, and dropped for each of REASONS.
    """
    tokenizers = [_tokenizer(settings, language) for language in settings.languages]
    counts: Counter[str] = Counter()
    kept = []
    for pair in pairs:
        try:
            sides = [tokenize(line.decode()) for tokenize, line in zip(tokenizers, pair)]
        except UnicodeDecodeError:
            counts["not UTF-8"] += 1
            continue
        source, target = (side.split() for side in sides)
        reason = reason_to_drop(source, target, settings)
        counts[reason or "kept"] += 1
        if reason is None:
            kept.append((" ".join(source), " ".join(target)))
    return kept, {"read": len(pairs), **{name: counts[name] for name in ("kept", *REASONS)}}


def reason_to_drop(source: Sequence[str], target: Sequence[str], settings: Settings) -> str | None:
    """Return why a pair is dropped, or None if it is kept."""
    shorter, longer = sorted((len(source), len(target)))
    if not shorter:
        return "empty"
    if longer > settings.max_length or max(map(len, (*source, *target))) > LONGEST_WORD:
        return "too long"
    if settings.max_ratio is not None and longer / shorter > settings.max_ratio:
        return "ratio"
    return None


def visible(line: str) -> str:
    """Return a line without words of control and format characters alone: sentencepiece makes no
    piece of them."""
    if "".join(line.split()).isprintable():
        return line
    return " ".join(word for word in line.split() if any(category(c)[0] != "C" for c in word))


@cache
def _tokenizer(settings: Settings, language: str) -> Callable[[str], str]:
    if settings.tokenizer == "none":
        return visible
    return moses_tokenizer(language, settings.normalize, settings.lowercase)
