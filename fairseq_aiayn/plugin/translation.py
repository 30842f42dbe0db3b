"""Section 6.1 as a fairseq task: batches by length, and the paper's beam search."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.configs import GenerationConfig
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import Continuations, EnsembleContinuations, beam_search
from fairseq_aiayn.decoding.hypotheses import Hypothesis
from fairseq_aiayn.decoding.search import Search, Symbols
from fairseq_aiayn.nn.cpu_kernels import PRODUCT_TYPES, products_in
from fairseq_aiayn.paper import TRANSLATION, Decoding
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.settings import argument, generate_options, option

# What fairseq's commands obey themselves, and what changes no search
OUTSIDE_THE_SEARCH = {"prefix_size", "score_reference", "sacrebleu", "no_seed_provided", "_name"}


def search_defaults(decoding: Decoding) -> dict[str, Any]:
    """Return the options of the search with their defaults, under fairseq's names: the paper's
    options, then fairseq's own."""
    papers = {argument(option): value for option, value in generate_options(decoding).items()}
    return papers | {"min_len": 1, "nbest": 1, "unnormalized": False}


class BeamSearchGenerator:
    """The generator that fairseq's commands call; hypotheses are returned in fairseq's form."""

    def __init__(self, task: TranslationTask, options: Search):
        self.source, self.target = task.source_dictionary, task.target_dictionary
        self.options = options
        self.product_type = PRODUCT_TYPES[task.cfg.search_precision]  # None: that of the weights
        self.source_symbols = Symbols(self.source.eos(), self.source.pad())
        self.symbols = Symbols(self.target.eos(), self.target.pad())
        self.symbols_to_strip_from_output = {self.target.eos()}

    @torch.no_grad()
    def generate(
        self,
        models: list[AiaynModel],
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
    ) -> list[list[dict]]:
        """Translate a batch; return a list of hypotheses per sentence, best first, with scores in
        nats. `constraints` are of --constraints, which is refused."""
        for model in models:
            model.eval()
        net_input = sample["net_input"]
        longest = min(model.max_decoder_positions() for model in models) - 1  # the end takes one
        max_lengths = self.options.max_lengths(net_input["src_tokens"], self.source_symbols)
        max_lengths = max_lengths.clamp(max=longest)
        with products_in(self.product_type, max_lengths.device):
            continuations = self.continuations(models, sample, max_lengths)
            found = beam_search(
                continuations, max_lengths, self.symbols, self.options, prefix_tokens
            )
        return [[as_fairseq(hypothesis) for hypothesis in sentence] for sentence in found]

    def continuations(
        self, models: list[AiaynModel], sample: dict, max_lengths: Tensor
    ) -> Continuations:
        """Return the continuations that the search scores: the ensemble at the start of a batch."""
        transformers = [model.transformer for model in models]
        return EnsembleContinuations(transformers, sample["net_input"]["src_tokens"])


def as_fairseq(hypothesis: Hypothesis) -> dict:
    """Return a hypothesis in the form that fairseq's commands and --eval-bleu read."""
    return {
        "tokens": hypothesis.tokens,
        "score": torch.tensor(hypothesis.score),
        "positional_scores": hypothesis.token_log_p,
        "attention": None,
        "alignment": torch.empty(0),
    }


@dataclass
class AiaynTranslationConfig(TranslationConfig):
    """fairseq's translation options, and the precision of the search."""

    # fairseq reads the choices from the annotation
    search_precision: ChoiceEnum([*PRODUCT_TYPES]) = field(  # type: ignore[valid-type]
        default="float32",
        metadata={"help": "precision of the search's matrix products; works with --cpu, too"},
    )


@register_task("aiayn_translation", dataclass=AiaynTranslationConfig)
class AiaynTranslationTask(TranslationTask):
    """The task of section 6.1: beam 4, α 0.6, output length at most input length + 50, and a search
    that stops as early as possible."""

    decoding = TRANSLATION
    generator: type[BeamSearchGenerator] = BeamSearchGenerator
    not_obeyed: frozenset[str] = frozenset()  # options that this search does not have, too

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Declare the options; the defaults of --beam, --lenpen and --max-len-a/-b are the paper's.
        The default of --required-batch-size-multiple is 1. With fairseq's 8, up to seven sentences
        of a test set, the longest ones, are silently left out of the last batch."""
        super().add_args(parser)
        parser.set_defaults(**search_defaults(cls.decoding), required_batch_size_multiple=1)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: object
    ) -> None:
        """Load a split; training pairs are ordered by the lengths of both sides. Text without a
        target side, which can be translated, stays in fairseq's order."""
        super().load_dataset(split, epoch, combine, **kwargs)
        is_training = split == self.cfg.train_subset and not self.cfg.num_batch_buckets
        if is_training and self.datasets[split].tgt is not None:
            self.datasets[split] = PairsByLength(self.datasets[split])

    def can_reuse_epoch_itr(self, dataset: FairseqDataset) -> bool:
        """Return False: batches are drawn anew in every epoch, so that a resumed run has the same
        batches as an undisturbed one. fairseq would draw them once, with a seed that depends on the
        epoch when the process starts."""
        return False

    def get_batch_iterator(self, *arguments: object, **named: object) -> EpochBatchIterator:
        """Return the batches of one epoch. Its workers end with it: fairseq keeps them for epochs
        that this iterator does not have."""
        iterator = super().get_batch_iterator(*arguments, **named)
        iterator.persistent_workers = False
        return iterator

    def build_generator(
        self,
        models: list[AiaynModel],
        args: Namespace,
        seq_gen_cls: type | None = None,
        extra_gen_cls_kwargs: dict | None = None,
        prefix_allowed_tokens_fn: Callable | None = None,
    ) -> BeamSearchGenerator | SequenceScorer:
        """Build the search with these options (--lenpen is α); raises ValueError for an option that
        the paper's search does not have, a value out of range, and a model that is not an aiayn_*
        model."""
        if getattr(args, "score_reference", False):
            return super().build_generator(models, args, seq_gen_cls, extra_gen_cls_kwargs)
        defaults = search_defaults(self.decoding)
        obeyed = (defaults.keys() | OUTSIDE_THE_SEARCH) - self.not_obeyed
        refused = [
            option(one.name)
            for one in fields(GenerationConfig)
            if one.name not in obeyed and getattr(args, one.name, None) not in (None, one.default)
        ]
        if prefix_allowed_tokens_fn is not None:
            refused.append("prefix_allowed_tokens_fn")
        if refused:
            raise ValueError(
                f"{refused[0]} is not part of the paper's search: use --task translation for it"
            )
        for model in models:
            if not isinstance(model, AiaynModel):
                raise ValueError(
                    f"this task decodes aiayn_* models, not a {type(model).__name__}: use --task"
                    " translation"
                )
        chosen = {name: getattr(args, name, default) for name, default in defaults.items()}
        options = Search(
            beam=chosen["beam"],
            alpha=0.0 if chosen["unnormalized"] else chosen["lenpen"],
            b=chosen["max_len_b"],
            a=chosen["max_len_a"],
            min_length=chosen["min_len"],
            nbest=chosen["nbest"],
        )
        return self.generator(self, options.over(len(self.target_dictionary)))


class PairsByLength(BaseWrapperDataset):
    """Training pairs in the order of `by_length`, whose batches say on the CPU whether sources are
    padded; pairs with equal lengths keep fairseq's random order. fairseq sorts by source length,
    then by target length. With that order, up to half of the target positions can be padding in a
    batch of usual sentences that spans two source lengths."""

    def ordered_indices(self) -> np.ndarray:
        """Return the numbers of all pairs, in the order in which batches are formed."""
        pairs = self.dataset.ordered_indices()
        return pairs[by_length(self.dataset.src_sizes[pairs], self.dataset.tgt_sizes[pairs])]

    def collater(self, samples: list[dict]) -> dict:
        """Join pairs to a batch."""
        batch = self.dataset.collater(samples)
        if batch:
            source, lengths = (batch["net_input"][f"src_{name}"] for name in ("tokens", "lengths"))
            batch["is_padded"] = bool(lengths.min() < source.size(1))
        return batch


def by_length(source_lengths: np.ndarray, target_lengths: np.ndarray) -> np.ndarray:
    """Return an order of the pairs in which neighbours have similar lengths on both sides.

    The first key is the length of the longer side, which --max-tokens counts. The second key is the
    source length minus the target length. It ascends for even lengths of the longer side and
    descends for odd ones, so that the last pairs of one length resemble the first of the next. The
    sort is stable.
    """
    longer, surplus = np.maximum(source_lengths, target_lengths), source_lengths - target_lengths
    np.negative(surplus, out=surplus, where=longer % 2 == 1)
    if longer.max(initial=0) < 2**15:  # which NumPy sorts in linear time
        longer, surplus = longer.astype(np.int16), surplus.astype(np.int16)
    order = surplus.argsort(kind="stable")
    return order[longer[order].argsort(kind="stable")]
