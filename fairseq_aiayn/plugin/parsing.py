"""Section 6.3 as a fairseq task: from word pieces to a linearized tree, and F1 while training."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from fairseq_aiayn.corpus.pieces import BEGINS
from fairseq_aiayn.decoding.beam_search import Continuations
from fairseq_aiayn.decoding.search import Search
from fairseq_aiayn.decoding.tree_constraint import ConstrainedContinuations, classify_tokens
from fairseq_aiayn.files import stream_lines
from fairseq_aiayn.paper import PARSING_DECODING
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.translation import (
    AiaynTranslationConfig,
    AiaynTranslationTask,
    BeamSearchGenerator,
)
from fairseq_aiayn.treebank.evalb import score_sentence
from fairseq_aiayn.treebank.linearization import MAX_OPEN, split_symbol
from fairseq_aiayn.treebank.repair import repair
from fairseq_aiayn.treebank.trees import symbols_of, write_tree

DEVELOPMENT = "valid"  # the subset whose trees --eval-f1 reads
# Constituents, as EVALB counts them: those that match, and all of both trees. fairseq does not
# print figures whose names begin with "_".
COUNTS = ("_f1_matched", "_f1_all")


@dataclass
class AiaynParsingConfig(AiaynTranslationConfig):
    """fairseq's translation options and the options of section 6.3."""

    constrained: bool = field(
        default=False,
        metadata={"help": "write only trees over as many words as the source has"},
    )
    eval_f1: bool = field(
        default=False,
        metadata={
            "help": "measure the F1 of greedy parses in every validation, with DATA/held_out"
        },
    )


class TreeGenerator(BeamSearchGenerator):
    """The search that writes only trees over as many words as the source has."""

    def __init__(self, task: TranslationTask, options: Search):
        """Raises ValueError for a source dictionary without words or a target one without trees."""
        super().__init__(task, options)
        symbols = [*map(split_symbol, self.target.symbols)]
        self.tree_symbols = classify_tokens(symbols, self.symbols.end)
        self.begins_word = torch.tensor(
            [symbol.startswith(BEGINS) for symbol in self.source.symbols]
        )
        if not self.begins_word.any():
            raise ValueError(f"--constrained: no source token begins a word, with {BEGINS}")

    def continuations(
        self, models: list[AiaynModel], sample: dict, max_lengths: Tensor
    ) -> Continuations:
        """Return the continuations of the ensemble that can still become trees; the pieces that
        begin a word are counted, <unk> begins none, and an empty line is searched as one word."""
        src_tokens = sample["net_input"]["src_tokens"]
        words = self.begins_word.to(src_tokens.device)[src_tokens].sum(dim=1).clamp(min=1)
        return ConstrainedContinuations(
            super().continuations(models, sample, max_lengths),
            self.tree_symbols,
            words,
            max_lengths,
            MAX_OPEN,
        )


@register_task("aiayn_parsing", dataclass=AiaynParsingConfig)
class AiaynParsingTask(AiaynTranslationTask):
    """The task of section 6.3: beam 21, α 0.3, output length at most input length + 300."""

    decoding = PARSING_DECODING

    def __init__(self, cfg: AiaynParsingConfig, source: Dictionary, target: Dictionary):
        """With --constrained, the words of a tree decide how short it may be, and how it begins."""
        super().__init__(cfg, source, target)
        if cfg.constrained:
            self.generator = TreeGenerator
            self.not_obeyed = frozenset({"min_len", "prefix_size"})

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: object
    ) -> None:
        """Load a split, with --eval-f1 the trees of the development set, too; raises ValueError for
        another one, whose trees are not known."""
        if self.cfg.eval_f1 and split not in (DEVELOPMENT, self.cfg.train_subset):
            raise ValueError(
                f"--eval-f1: expected the subset {DEVELOPMENT}, whose trees are known, got {split}"
            )
        super().load_dataset(split, epoch, combine, **kwargs)
        if self.cfg.eval_f1 and split == DEVELOPMENT:
            self.development_trees = self.read_development_trees()

    def build_model(self, cfg: Namespace, from_checkpoint: bool = False) -> AiaynModel:
        """Build the model, and the search for its validation."""
        model = super().build_model(cfg, from_checkpoint)
        if self.cfg.eval_f1:
            self.development_search = self.build_generator([model], Namespace(beam=1))
        return model

    def valid_step(
        self, sample: dict, model: AiaynModel, criterion: FairseqCriterion
    ) -> tuple[Tensor, int, dict]:
        """Compute the loss of a batch and, with --eval-f1, the counts of constituents for F1."""
        loss, size, log = super().valid_step(sample, model, criterion)
        if self.cfg.eval_f1:
            log |= self.count_constituents(sample, model)
        return loss, size, log

    def count_constituents(self, sample: dict, model: AiaynModel) -> dict[str, int]:
        """Parse a batch of the development set and count constituents, for a logging output."""
        counts = dict.fromkeys(COUNTS, 0)
        parses = self.development_search.generate([model], sample)
        for number, hypotheses in zip(sample["id"].tolist(), parses, strict=True):
            words, gold = self.development_trees[number]
            symbols = [self.target_dictionary[t] for t in hypotheses[0]["tokens"][:-1].tolist()]
            matched, *both = score_sentence(gold, write_tree(repair(symbols, words).tree)).counts
            counts["_f1_matched"] += matched
            counts["_f1_all"] += sum(both)
        return counts

    def read_development_trees(self) -> list[tuple[list[str], str]]:
        """Return the words and the tree of every sentence of the development set; raises OSError if
        a file is missing, ValueError if it has not these sentences."""
        held_out = Path(utils.split_paths(self.cfg.data)[0]) / "held_out"
        words = [symbols_of(line) for line in stream_lines(held_out / "valid.words")]
        trees = list(stream_lines(held_out / "valid.trees"))
        sentences = len(self.datasets[DEVELOPMENT])
        if not len(words) == len(trees) == sentences:
            raise ValueError(
                f"{held_out}: expected words and trees of the {sentences:,} sentences of the"
                f" development set, got {len(words):,} and {len(trees):,}"
            )
        return list(zip(words, trees, strict=True))

    def reduce_metrics(self, logging_outputs: list[dict], criterion: FairseqCriterion) -> None:
        """Log the figures of the criterion, and F1 if it was measured."""
        super().reduce_metrics(logging_outputs, criterion)
        if any(COUNTS[0] in log for log in logging_outputs):
            for name in COUNTS:
                metrics.log_scalar_sum(name, sum(log.get(name, 0) for log in logging_outputs))
            metrics.log_derived("f1", f1)


def f1(meters: Mapping[str, Any]) -> float:
    """Return F1 in percent, rounded to two decimal places; 0 if there is no constituent."""
    matched, both = (float(meters[name].sum) for name in COUNTS)
    return round(200 * matched / max(1.0, both), 2)
