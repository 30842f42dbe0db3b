"""fairseq's translation task with the paper's beam search."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from fairseq.data import FairseqDataset
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_aiayn.decoding.beam_search import SearchOptions
from fairseq_aiayn.paper import TRANSLATION, Decoding
from fairseq_aiayn.plugin.batches import PairsByLength
from fairseq_aiayn.plugin.generator import BeamSearchGenerator, MaximumLength
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.regime.search import search_options

# fairseq's generation options that the paper's search does not have, with the value that leaves
# them off
REFUSED = {
    "constraints": None,
    "diverse_beam_groups": -1,
    "diversity_rate": -1.0,
    "iter_decode_with_beam": 1,
    "lm_path": None,
    "match_source_len": False,
    "no_early_stop": False,
    "no_repeat_ngram_size": 0,
    "prefix_allowed_tokens_fn": None,
    "print_alignment": None,
    "print_step": False,
    "replace_unk": None,
    "retain_dropout": False,
    "retain_iter_history": False,
    "sampling": False,
    "temperature": 1.0,
    "unkpen": 0,
}


def search_defaults(decoding: Decoding) -> dict[str, float]:
    """The options that the search reads, under fairseq's names: the paper's, then fairseq's own."""
    papers = search_options(decoding).items()
    papers = {name.removeprefix("--").replace("-", "_"): value for name, value in papers}
    return papers | {"min_len": 1, "nbest": 1, "unnormalized": False}


@dataclass
class AiaynTranslationConfig(TranslationConfig):
    """fairseq's translation options, as a class of their own: fairseq registers a task by it."""


@register_task("aiayn_translation", dataclass=AiaynTranslationConfig)
class AiaynTranslationTask(TranslationTask):
    """Section 6.1: beam 4, α 0.6, output at most input + 50, ended as early as possible."""

    name = "aiayn_translation"
    decoding = TRANSLATION

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Declare the options; --beam, --lenpen and --max-len-a/-b default to the paper's.

        --required-batch-size-multiple is 1: with fairseq's 8, up to seven sentences of a test set,
        the longest, are silently left out of the last batch.
        """
        super().add_args(parser)
        parser.set_defaults(**search_defaults(cls.decoding), required_batch_size_multiple=1)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: object
    ) -> None:
        """Load a split; the training pairs get in order by both their lengths."""
        super().load_dataset(split, epoch, combine, **kwargs)
        if split == self.cfg.train_subset and not self.cfg.num_batch_buckets:
            if self.datasets[split].tgt is None:
                raise ValueError(f"{split}: must have a target side, has a source side alone")
            self.datasets[split] = PairsByLength(self.datasets[split])

    def can_reuse_epoch_itr(self, dataset: FairseqDataset) -> bool:
        """Draw the batches anew every epoch, so that a resumed run sees an undisturbed one's.

        fairseq would draw them once, with a seed that depends on the epoch of the process's start.
        """
        return False

    def build_generator(
        self,
        models: list[AiaynModel],
        args: Namespace,
        seq_gen_cls: type | None = None,
        extra_gen_cls_kwargs: dict | None = None,
        prefix_allowed_tokens_fn: Callable | None = None,
    ) -> object:
        """Build the search of these options (--lenpen is α); ValueError for those it lacks."""
        if getattr(args, "score_reference", False):
            return super().build_generator(models, args, seq_gen_cls, extra_gen_cls_kwargs)
        refuse_foreign_options(args)
        if prefix_allowed_tokens_fn is not None:
            raise ValueError("aiayn tasks have no prefix_allowed_tokens_fn; use --task translation")
        for model in models:
            if not isinstance(model, AiaynModel):
                raise ValueError(
                    f"--task {self.name} decodes aiayn_* models, not a "
                    f"{type(model).__name__}: use --task translation"
                )
        defaults = search_defaults(self.decoding)
        chosen = {name: getattr(args, name, default) for name, default in defaults.items()}
        # A larger one is a slip of the finger; there would be a decoding state for each hypothesis.
        largest = max(len(self.target_dictionary), self.decoding.beam)
        if chosen["beam"] > largest:
            raise ValueError(
                f"the beam size must be at most {largest:,}, the types of the target dictionary,"
                f" got {chosen['beam']:,}"
            )
        options = SearchOptions(
            beam=chosen["beam"],
            alpha=0.0 if chosen["unnormalized"] else chosen["lenpen"],
            min_length=chosen["min_len"],
            nbest=chosen["nbest"],
        )
        maximum_length = MaximumLength(chosen["max_len_a"], chosen["max_len_b"])
        return self.build_search(options, maximum_length)

    def build_search(
        self, options: SearchOptions, maximum_length: MaximumLength
    ) -> BeamSearchGenerator:
        """Build the search itself."""
        return BeamSearchGenerator(
            self.source_dictionary, self.target_dictionary, options, maximum_length
        )


def refuse_foreign_options(args: Namespace) -> None:
    """Raise ValueError for a generation option that the paper's search does not have."""
    for name, off in REFUSED.items():
        if getattr(args, name, off) not in (off, None):
            raise ValueError(
                f"--{name.replace('_', '-')} is not part of the paper's search: use"
                " --task translation for it"
            )
