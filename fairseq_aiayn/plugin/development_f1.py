"""Log the F1 of the development set during the training of a parser (section 6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.logging import metrics

from fairseq_aiayn.plugin.generator import BeamSearchGenerator
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.text import stream_lines
from fairseq_aiayn.treebank.evalb import Status, score_sentence
from fairseq_aiayn.treebank.repair import repair
from fairseq_aiayn.treebank.trees import read_symbols, write_tree

COUNTS = ("matched", "gold", "predicted")  # constituents, as EVALB counts them
LOGGED = "_f1_{}"  # fairseq does not print figures whose names begin with "_"


@dataclass(frozen=True)
class DevelopmentTrees:
    """The development set as text: the words and the tree of every sentence."""

    words: list[list[str]]
    gold: list[str]

    def counts(
        self,
        generator: BeamSearchGenerator,
        model: AiaynModel,
        sample: dict,
        target: Dictionary,
    ) -> dict[str, int]:
        """Parse a batch and count constituents, for a logging output."""
        with torch.no_grad():
            found = generator.generate([model], sample)
        total = dict.fromkeys(COUNTS, 0)
        for number, hypotheses in zip(sample["id"].tolist(), found, strict=True):
            symbols = [target[token] for token in hypotheses[0]["tokens"][:-1].tolist()]
            tree = write_tree(repair(symbols, self.words[number]).tree)
            score = score_sentence(self.gold[number], tree)
            if score.status is Status.VALID:
                for name in COUNTS:
                    total[name] += len(getattr(score, name))
        return {LOGGED.format(name): count for name, count in total.items()}


def read_development_trees(data: Path, sentences: int) -> DevelopmentTrees:
    """Read the development trees from the directory of the binarized data.

    Raises OSError if a file is missing, and ValueError if a file does not have `sentences` lines.
    """
    words = list(read_symbols(data / "held_out" / "valid.words"))
    gold = list(stream_lines(data / "held_out" / "valid.trees"))
    for name, lines in (("words", words), ("trees", gold)):
        if len(lines) != sentences:
            raise ValueError(
                f"{data / 'held_out' / f'valid.{name}'}: must have the {sentences:,} sentences of"
                f" the development set, has {len(lines):,}"
            )
    return DevelopmentTrees(words, gold)


def log_f1(logging_outputs: list[dict]) -> None:
    """Log F1 in percent, from the counts of the batches; log nothing if no batch has counts."""
    keys = [LOGGED.format(name) for name in COUNTS]
    if not any(keys[0] in log for log in logging_outputs):
        return
    for key in keys:
        metrics.log_scalar_sum(key, sum(log.get(key, 0) for log in logging_outputs))
    metrics.log_derived("f1", lambda meters: f1(*(meters[key].sum for key in keys)))


def f1(matched: float, gold: float, predicted: float) -> float:
    """Return F1 in percent, rounded to two decimal places; 0 if nothing was predicted."""
    return round(200 * float(matched) / max(1.0, float(gold + predicted)), 2)
