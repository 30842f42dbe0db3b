"""Section 6.3 as a fairseq task: from word pieces to a linearized tree, and F1 while training."""

from argparse import Namespace
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.data import Dictionary, data_utils
from fairseq.logging import metrics
from fairseq.tasks import register_task
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import Continuations, Search
from fairseq_aiayn.decoding.tree_constraint import ConstrainedContinuations
from fairseq_aiayn.inference.engine import tree_symbols
from fairseq_aiayn.paper import PARSING_DECODING
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.translation import (
    AiaynTranslationConfig,
    AiaynTranslationTask,
    BeamSearchGenerator,
)
from fairseq_aiayn.text import stream_lines
from fairseq_aiayn.treebank.evalb import Status, score_sentence
from fairseq_aiayn.treebank.linearization import MAX_OPEN
from fairseq_aiayn.treebank.repair import repair
from fairseq_aiayn.treebank.trees import read_symbols, write_tree

SOURCE, TARGET = "words", "tree"
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

    def __init__(
        self,
        source_dictionary: Dictionary,
        target_dictionary: Dictionary,
        options: Search,
        product_type: torch.dtype | None,
    ):
        """Raises ValueError for dictionaries without words or trees, and for a minimum length."""
        super().__init__(source_dictionary, target_dictionary, options, product_type)
        if options.min_length > 1:
            raise ValueError(
                f"--min-len {options.min_length} and --constrained: a tree's words decide how"
                " short it may be"
            )
        self.tree_symbols = tree_symbols(target_dictionary.symbols, target_dictionary.eos())
        self.begins_word = torch.tensor(
            [symbol.startswith(WORD_BEGINS) for symbol in source_dictionary.symbols]
        )
        if not self.begins_word.any():
            raise ValueError(
                f"--constrained: no source piece begins with {WORD_BEGINS!r}, so that words cannot"
                " be counted"
            )

    def generate(
        self,
        models: list[AiaynModel],
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
    ) -> list[list[dict]]:
        """Parse a batch; the pieces that begin a word are counted, and <unk> begins none."""
        if prefix_tokens is not None:
            raise ValueError("--constrained has no search from a prefix: leave --prefix-size at 0")
        return super().generate(models, sample, prefix_tokens, constraints)

    def continuations(
        self, models: list[AiaynModel], sample: dict, max_lengths: Tensor
    ) -> Continuations:
        """Return the continuations of the ensemble that can still become trees."""
        src_tokens = sample["net_input"]["src_tokens"]
        words = self.begins_word.to(src_tokens.device)[src_tokens].sum(dim=1)
        return ConstrainedContinuations(
            super().continuations(models, sample, max_lengths),
            self.tree_symbols,
            words,
            max_lengths,
            MAX_OPEN,
        )


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


@register_task("aiayn_parsing", dataclass=AiaynParsingConfig)
class AiaynParsingTask(AiaynTranslationTask):
    """The task of section 6.3: beam 21, α 0.3, output length at most input length + 300."""

    name = "aiayn_parsing"
    decoding = PARSING_DECODING

    @classmethod
    def setup_task(cls, cfg: AiaynParsingConfig, **kwargs: object) -> "AiaynParsingTask":
        """Load the dictionaries; unless options or the names of the data files give the languages,
        they are "words" and "tree"."""
        if cfg.source_lang is None or cfg.target_lang is None:
            data = utils.split_paths(cfg.data)[0]
            if None in data_utils.infer_language_pair(data):
                cfg.source_lang = cfg.source_lang or SOURCE
                cfg.target_lang = cfg.target_lang or TARGET
        return super().setup_task(cfg, **kwargs)

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
            log |= self.development_trees().counts(
                self.development_search, model, sample, self.target_dictionary
            )
        return loss, size, log

    @cache  # noqa: B019 (a process has one task)
    def development_trees(self) -> DevelopmentTrees:
        """The development set as text, read once."""
        data = Path(utils.split_paths(self.cfg.data)[0])
        return read_development_trees(data, len(self.datasets[DEVELOPMENT]))

    def reduce_metrics(self, logging_outputs: list[dict], criterion: FairseqCriterion) -> None:
        """Log the figures of the criterion, and F1 if it was measured."""
        super().reduce_metrics(logging_outputs, criterion)
        log_f1(logging_outputs)

    def generator_class(self) -> type[BeamSearchGenerator]:
        """Return the class of the search, which is constrained with --constrained."""
        return TreeGenerator if self.cfg.constrained else BeamSearchGenerator
