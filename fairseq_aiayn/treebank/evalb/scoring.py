"""Scores of sentences, and of files of trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from fairseq_aiayn.files.lines import source_name
from fairseq_aiayn.processes import in_order
from fairseq_aiayn.treebank.evalb.bracketing import read_bracketing
from fairseq_aiayn.treebank.evalb.fast import FastScorer
from fairseq_aiayn.treebank.evalb.files import read_line_pairs
from fairseq_aiayn.treebank.evalb.parameters import COLLINS, Parameters
from fairseq_aiayn.treebank.evalb.sentence import SentenceScore, score_bracketings
from fairseq_aiayn.treebank.evalb.summary import Scores, summarize

BATCH = 500  # sentences that a process gets at a time
ALONE = 10  # batches that take less time than starting the processes

_scorer = lru_cache(maxsize=4)(FastScorer)  # cached, because a scorer remembers texts it has read


def score_sentence(gold: str, predicted: str, parameters: Parameters = COLLINS) -> SentenceScore:
    """Score a predicted tree; raises ValueError for text outside of `(TAG word)`."""
    return _scorer(parameters).score(gold, predicted) or reference_score(
        gold, predicted, parameters
    )


def reference_score(
    gold: str,
    predicted: str,
    parameters: Parameters,
    where: tuple[str, str] = ("gold tree", "predicted tree"),
) -> SentenceScore:
    """Score any predicted tree step by step, as the reference for `FastScorer`; raises ValueError,
    with a message that begins with `where`, for text outside of `(TAG word)`."""
    return score_bracketings(
        read_bracketing(gold, where[0], parameters),
        read_bracketing(predicted, where[1], parameters),
        parameters,
    )


def score(pairs: Iterable[tuple[str, str]], parameters: Parameters = COLLINS) -> Scores:
    """Score pairs of a gold and a predicted tree, each on one line.

    Raises ValueError like `score_sentence`.
    """
    return summarize(
        (score_sentence(gold, predicted, parameters) for gold, predicted in pairs), parameters
    )


class _Batch(NamedTuple):
    """Pairs of lines, the number of the first pair, and the error that ended the input, if any."""

    first: int
    pairs: list[tuple[str, str]]
    error: OSError | ValueError | None


def score_files(
    gold: str | Path, predicted: str | Path, parameters: Parameters = COLLINS, workers: int = 1
) -> Iterator[SentenceScore]:
    """Yield the scores of the lines of two files; either may be gzip and one may be "-", standard
    input.

    `workers` processes score a long file. Raises OSError if a file cannot be read or a process is
    killed. Raises ValueError, with file and line, for text outside of `(TAG word)` or not in UTF-8,
    for an empty file, and for different numbers of lines.
    """
    names = source_name(gold), source_name(predicted)
    batches = _batches(read_line_pairs(gold, predicted))
    score_batch = partial(_score_batch, parameters, names)
    first = map(score_batch, islice(batches, ALONE if workers > 1 else None))
    for scores, error in chain(first, in_order(score_batch, batches, workers)):
        yield from scores
        if error:
            raise error


def _batches(pairs: Iterator[tuple[str, str]]) -> Iterator[_Batch]:
    """Group pairs of lines into batches; an error comes in the batch of the pairs before it."""
    batch = _Batch(1, [], None)
    try:
        for pair in pairs:
            batch.pairs.append(pair)
            if len(batch.pairs) == BATCH:
                yield batch
                batch = _Batch(batch.first + BATCH, [], None)
    except (OSError, ValueError) as error:
        batch = batch._replace(error=error)
    yield batch


def _score_batch(
    parameters: Parameters, names: tuple[str, str], batch: _Batch
) -> tuple[list[SentenceScore], OSError | ValueError | None]:
    """Score the pairs of lines up to the first that is refused; return the scores and the error,
    None if there is none."""
    score_fast = _scorer(parameters).score
    scores = []
    for number, (gold, predicted) in enumerate(batch.pairs, start=batch.first):
        scored = score_fast(gold, predicted)
        if scored is None:
            where = f"{names[0]}:{number}", f"{names[1]}:{number}"
            try:
                scored = reference_score(gold, predicted, parameters, where)
            except ValueError as error:
                return scores, error
        scores.append(scored)
    return scores, batch.error
