"""Section 6.1: a beam finds what a greedy search misses; the length penalty decides between two."""

from __future__ import annotations

import math

from fairseq_aiayn.decoding.beam_search import length_penalty, plain_beam_search
from fairseq_aiayn.report.document import Table

WORDS = ("</s>", "it", "there", "rains", "is", "rain", "some", "heavy", "today")
END = 0
LONGEST = 6  # words
ALPHA = 0.6
OUTPUTS = 5  # that are shown
ALL = len(WORDS) ** (LONGEST + 1)  # a beam that leaves out nothing
# P(next word) after each beginning; words that are not named have probability 0.
NEXT: dict[str, dict[str, float]] = {
    "": {"it": 0.4, "there": 0.6},
    "it": {"rains": 0.9, "is": 0.1},
    "it rains": {"</s>": 0.53, "today": 0.47},
    "it is": {"rain": 1.0},
    "there": {"is": 1.0},
    "there is": {"rain": 0.4, "some": 0.3, "heavy": 0.3},
    "there is rain": {"</s>": 0.52, "today": 0.48},
    "there is some": {"rain": 1.0},
    "there is heavy": {"rain": 1.0},
    "there is heavy rain": {"</s>": 0.5, "today": 0.5},
}


def model(tokens: tuple[int, ...]) -> list[float]:
    """Return log P of every next word."""
    after = NEXT.get(" ".join(WORDS[token] for token in tokens), {"</s>": 1.0})
    return [math.log(after[word]) if word in after else -math.inf for word in WORDS]


def beams() -> Table:
    """Return what beams of 1, 2 and 4 find, and the best of all outputs."""
    found = {str(k): plain_beam_search(model, END, k, ALPHA, LONGEST)[0] for k in (1, 2, 4)}
    found["all outputs"] = plain_beam_search(model, END, ALL, ALPHA, LONGEST)[0]
    rows = [
        [name, text(tokens), f"{math.exp(log_probability(tokens)):.3f}", f"{score:.3f}"]
        for name, (score, tokens) in found.items()
    ]
    return Table(["beam", "output", "P(Y|X)", "log P(Y|X) / lp(Y)"], rows, left=2)


def penalties() -> Table:
    """Return the scores of the outputs for several α; the best of each α is marked."""
    alphas = (0.0, 0.6, 1.0, 2.0)
    found = plain_beam_search(model, END, ALL, 0.0, LONGEST)
    outputs = [tokens for score, tokens in found if score > -math.inf][:OUTPUTS]
    rows = [[text(y), str(len(y)), f"{log_probability(y):.2f}"] for y in outputs]
    for alpha in alphas:
        scores = [log_probability(y) / length_penalty(len(y), alpha) for y in outputs]
        for row, score in zip(rows, scores, strict=True):
            row.append(f"**{score:.2f}**" if score == max(scores) else f"{score:.2f}")
    header = ["output", "|Y|", "log P", *(f"α = {alpha:g}" for alpha in alphas)]
    return Table(header, rows)


def log_probability(tokens: tuple[int, ...]) -> float:
    """Return log P(Y|X) of an output, in nats."""
    return sum(model(tokens[:i])[token] for i, token in enumerate(tokens))


def text(tokens: tuple[int, ...]) -> str:
    """Return the words of an output without its end."""
    return " ".join(WORDS[token] for token in tokens[:-1])
