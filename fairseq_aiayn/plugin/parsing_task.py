"""Constituency parsing (section 6.3) as a fairseq task: from word pieces to a linearized tree."""

from argparse import Namespace
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.data import Dictionary, data_utils
from fairseq.tasks import register_task
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import Continuations, Search
from fairseq_aiayn.decoding.tree_constraint import ConstrainedContinuations
from fairseq_aiayn.inference.engine import tree_symbols
from fairseq_aiayn.paper import PARSING_DECODING
from fairseq_aiayn.plugin.development_f1 import DevelopmentTrees, log_f1, read_development_trees
from fairseq_aiayn.plugin.generator import BeamSearchGenerator
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.task import AiaynTranslationConfig, AiaynTranslationTask
from fairseq_aiayn.treebank.linearization import MAX_OPEN

SOURCE, TARGET = "words", "tree"
DEVELOPMENT = "valid"  # the subset whose trees --eval-f1 reads
WORD_BEGINS = "\u2581"  # the first character of the first piece of every word


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

    @property
    def search_class(self) -> type[BeamSearchGenerator]:
        """The search, which is constrained with --constrained."""
        return TreeGenerator if self.cfg.constrained else BeamSearchGenerator
