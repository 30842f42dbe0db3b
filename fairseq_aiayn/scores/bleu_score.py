"""What `aiayn bleu` measures, apart from how: without the packages that compute it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bleu:
    """A corpus score with its parts."""

    score: float  # 0 to 100
    precisions: tuple[float, ...]  # per cent, of 1-grams to 4-grams
    brevity_penalty: float  # exp(1 - reference_length / hypothesis_length), at most 1
    length_ratio: float  # hypothesis_length / reference_length
    hypothesis_length: int  # tokens
    reference_length: int  # tokens
    signature: str


@dataclass(frozen=True)
class Scores:
    """The scores of one set of sentences."""

    sentences: int
    paper: Bleu
    sacrebleu: Bleu
    tokens: Bleu | None = None  # see token_bleu
