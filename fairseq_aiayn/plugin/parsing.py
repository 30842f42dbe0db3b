"""Section 6.3 as a fairseq task: from word pieces to a linearized tree, and F1 while training."""

from argparse import Namespace
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.tasks import register_task
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import Continuations
from fairseq_aiayn.decoding.tree_constraint import ConstrainedContinuations
from fairseq_aiayn.inference.engine import tree_symbols
from fairseq_aiayn.paper import PARSING_DECODING
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.translation import (
    REFUSED,
    AiaynTranslationConfig,
    AiaynTranslationTask,
    BeamSearchGenerator,
)
from fairseq_aiayn.text import stream_lines
from fairseq_aiayn.treebank.evalb import Status, score_sentence
from fairseq_aiayn.treebank.linearization import MAX_OPEN
from fairseq_aiayn.treebank.repair import repair
from fairseq_aiayn.treebank.trees import read_symbols, write_tree

DEVELOPMENT = "valid"  # the subset whose trees --eval-f1 reads
WORD_BEGINS = "\u2581"  # the first character of the first piece of every word
COUNTS = ("matched", "gold", "predicted")  # constituents, as EVALB counts them
LOGGED = "_f1_{}"  # fairseq does not print figures whose names begin with "_"


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

    def __post_init__(self) -> None:
        """Raise ValueError for a target dictionary without trees."""
        super().__post_init__()
        self.tree_symbols = tree_symbols(self.target_dictionary.symbols, self.symbols.end)
        self.begins_word = torch.tensor(
            [symbol.startswith(WORD_BEGINS) for symbol in self.source_dictionary.symbols]
        )

    def continuations(
        self, models: list[AiaynModel], sample: dict, max_lengths: Tensor
    ) -> Continuations:
        """Return the continuations of the ensemble that can still become trees; the pieces that
        begin a word are counted, and <unk> begins none."""
        src_tokens = sample["net_input"]["src_tokens"]
        words = self.begins_word.to(src_tokens.device)[src_tokens].sum(dim=1)
        return ConstrainedContinuations(
            super().continuations(models, sample, max_lengths),
            self.tree_symbols,
            words,
            max_lengths,
            MAX_OPEN,
        )


def read_development_trees(data: Path, sentences: int) -> tuple[list[list[str]], list[str]]:
    """Return the words and the tree of every development sentence, from the directory of the
    binarized data.

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
    return words, gold


@register_task("aiayn_parsing", dataclass=AiaynParsingConfig)
class AiaynParsingTask(AiaynTranslationTask):
    """The task of section 6.3: beam 21, α 0.3, output length at most input length + 300."""

    name = "aiayn_parsing"
    decoding = PARSING_DECODING

    def __init__(self, cfg: AiaynParsingConfig, source: Dictionary, target: Dictionary):
        """With --constrained, the words of a tree decide how short it may be, and how it begins."""
        super().__init__(cfg, source, target)
        if cfg.constrained:
            self.generator = TreeGenerator
            self.refused = {**REFUSED, "min_len": 1, "prefix_size": 0}

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: object
    ) -> None:
        """Load a split; raises ValueError with --eval-f1 for one whose trees are not known."""
        if self.cfg.eval_f1 and split not in (DEVELOPMENT, self.cfg.train_subset):
            raise ValueError(
                f"--eval-f1: only of the subset {DEVELOPMENT}, not of {split}; for a checkpoint"
                " that was trained with it: --model-overrides \"{'eval_f1': False}\""
            )
        super().load_dataset(split, epoch, combine, **kwargs)

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
        if self.cfg.eval_f1 and sample:
            log |= self.count_constituents(sample, model)
        return loss, size, log

    def count_constituents(self, sample: dict, model: AiaynModel) -> dict[str, int]:
        """Parse a batch of the development set and count constituents, for a logging output."""
        words, gold = self.development_trees
        total = dict.fromkeys(COUNTS, 0)
        parses = self.development_search.generate([model], sample)
        for number, hypotheses in zip(sample["id"].tolist(), parses, strict=True):
            tokens = hypotheses[0]["tokens"][:-1].tolist()
            symbols = [self.target_dictionary[token] for token in tokens]
            score = score_sentence(gold[number], write_tree(repair(symbols, words[number]).tree))
            if score.status is Status.VALID:
                for name in COUNTS:
                    total[name] += len(getattr(score, name))
        return {LOGGED.format(name): count for name, count in total.items()}

    @cached_property
    def development_trees(self) -> tuple[list[list[str]], list[str]]:
        """The words and the trees of the development set."""
        data = Path(utils.split_paths(self.cfg.data)[0])
        return read_development_trees(data, len(self.datasets[DEVELOPMENT]))

    def reduce_metrics(self, logging_outputs: list[dict], criterion: FairseqCriterion) -> None:
        """Log the figures of the criterion, and F1 if it was measured."""
        super().reduce_metrics(logging_outputs, criterion)
        keys = [LOGGED.format(name) for name in COUNTS]
        if not any(keys[0] in log for log in logging_outputs):
            return
        for key in keys:
            metrics.log_scalar_sum(key, sum(log.get(key, 0) for log in logging_outputs))
        metrics.log_derived("f1", lambda meters: f1(*(meters[key].sum for key in keys)))


def f1(matched: float, gold: float, predicted: float) -> float:
    """Return F1 in percent, rounded to two decimal places; 0 if nothing was predicted."""
    return round(200 * float(matched) / max(1.0, float(gold + predicted)), 2)
