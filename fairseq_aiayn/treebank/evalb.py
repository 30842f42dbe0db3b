"""EVALB, the scorer of constituency trees that published WSJ results use (section 6.3, Table 4).

It compares labelled spans of words. Its rules, with the parameters of COLLINS.prm:

1. A line is a sentence, in both files. An empty predicted line is skipped (status 2).
2. Words tagged `-NONE-` , : `` '' or . are deleted on both sides; constituents that hold no other
   word do not count, nor does TOP. An empty root label, `( (S ...))`, does count.
3. The words that are left must be the same, else the sentence is an error (status 1) and counts
   nowhere but in the number of errors; so is one whose brackets do not balance.
4. From a label all that follows the first - or = is cut: NP-SBJ and NP=2 are NP. Tags stay.
5. A predicted constituent matches one gold constituent of its span and label; ADVP equals PRT. What
   occurs n times in gold and m times in the prediction matches min(n, m) times.
6. Recall is matched / gold, precision matched / predicted, F1 their harmonic mean, over all valid
   sentences together. Crossing is a predicted constituent that overlaps some gold one. Tagging
   accuracy is over the words that are left.
7. A second summary has the sentences of at most 40 words, gold punctuation counted, traces not.

What differs from the C program, on purpose:

- It has no limits. The C program stops after MAX_ERROR errors, splits lines of 5,000 bytes, and
  writes outside of its arrays from 200 words or constituents or longer labels on.
- Text outside of `(TAG word)` is a ValueError that names the line; there the C program reports the
  same error without end until MAX_ERROR stops it. `(TAG word )`, which it takes for that, is read.
- Different numbers of lines and empty files are a ValueError; it prints a summary of what it read.
- F1 is 0 where recall and precision are, not NaN.
- A closing bracket too many is always an error; it forgives one for which another is not closed
  later, and the figures on such a sentence's own line depend on what its memory held before.
- Text must be UTF-8; a byte order mark is dropped.
- A parameter file with an unknown keyword or a wrong value is a ValueError, not a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from fairseq_aiayn.treebank.evalb_bracketing import read_bracketing
from fairseq_aiayn.treebank.evalb_fast import FastScorer
from fairseq_aiayn.treebank.evalb_files import read_line_pairs
from fairseq_aiayn.treebank.evalb_parameters import COLLINS, Parameters
from fairseq_aiayn.treebank.evalb_processes import in_order
from fairseq_aiayn.treebank.evalb_sentence import SentenceScore, score_bracketings
from fairseq_aiayn.treebank.evalb_summary import Scores, summarize
from fairseq_aiayn.treebank.lines import source_name

BATCH = 500  # sentences that a process is given at a time

_scorer = lru_cache(maxsize=4)(FastScorer)  # kept, because it remembers texts it has read


def score_sentence(gold: str, predicted: str, parameters: Parameters = COLLINS) -> SentenceScore:
    """Score a predicted tree; raises ValueError for text outside of `(TAG word)`."""
    return _scorer(parameters).score(gold, predicted) or score_plainly(gold, predicted, parameters)


def score_plainly(
    gold: str,
    predicted: str,
    parameters: Parameters,
    where: tuple[str, str] = ("gold tree", "predicted tree"),
) -> SentenceScore:
    """Score any predicted tree step by step; raises ValueError, which begins with `where`, for text
    outside of `(TAG word)`."""
    return score_bracketings(
        read_bracketing(gold, where[0], parameters),
        read_bracketing(predicted, where[1], parameters),
        parameters,
    )


def score(pairs: Iterable[tuple[str, str]], parameters: Parameters = COLLINS) -> Scores:
    """Score pairs of a gold and a predicted tree, each on one line; raises as `score_sentence`."""
    return summarize(
        (score_sentence(gold, predicted, parameters) for gold, predicted in pairs), parameters
    )


class _Batch(NamedTuple):
    """Pairs of lines, the number of the first, and why there are no more, if there is an error."""

    first: int
    pairs: list[tuple[str, str]]
    error: OSError | ValueError | None


def score_files(
    gold: str | Path, predicted: str | Path, parameters: Parameters = COLLINS, workers: int = 1
) -> Iterator[SentenceScore]:
    """Score the lines of two files one after the other; each may be gzip, one of them "-".

    A long file is scored by `workers` processes. Raises OSError where a file cannot be read or a
    process is killed, and ValueError naming file and line for text outside of `(TAG word)` or that
    is not UTF-8, an empty file, or different numbers of lines.
    """
    names = source_name(gold), source_name(predicted)
    batches = _batches(read_line_pairs(gold, predicted))
    for scores, error in in_order(partial(_score_batch, parameters, names), batches, workers):
        yield from scores
        if error:
            raise error


def _batches(pairs: Iterator[tuple[str, str]]) -> Iterator[_Batch]:
    """Put pairs of lines together; an error comes in the batch of the pairs before it."""
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
    """Score the pairs of lines up to one that is refused; return the error too."""
    score_fast = _scorer(parameters).score
    scores = []
    for number, (gold, predicted) in enumerate(batch.pairs, start=batch.first):
        scored = score_fast(gold, predicted)
        if scored is None:
            where = f"{names[0]}:{number}", f"{names[1]}:{number}"
            try:
                scored = score_plainly(gold, predicted, parameters, where)
            except ValueError as error:
                return scores, error
        scores.append(scored)
    return scores, batch.error
