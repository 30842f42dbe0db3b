"""fairseq's translation task with the paper's beam search."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass, field

from fairseq.data import FairseqDataset
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_aiayn.decoding.beam_search import Search
from fairseq_aiayn.nn.cpu_kernels import PRODUCT_TYPES
from fairseq_aiayn.paper import TRANSLATION, Decoding
from fairseq_aiayn.plugin.batches import PairsByLength
from fairseq_aiayn.plugin.generator import BeamSearchGenerator
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.settings import argument, generate_options

# fairseq's generation options that the paper's search does not have, with the values that turn them
# off
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
    """Return the options of the search with their defaults, under fairseq's names: the paper's
    options, then fairseq's own."""
    papers = {argument(option): value for option, value in generate_options(decoding).items()}
    return papers | {"min_len": 1, "nbest": 1, "unnormalized": False}


@dataclass
class AiaynTranslationConfig(TranslationConfig):
    """fairseq's translation options, and the precision of the search."""

    search_precision: ChoiceEnum([*PRODUCT_TYPES]) = field(
        default="float32",
        metadata={"help": "precision of the search's matrix products; works with --cpu, too"},
    )


@register_task("aiayn_translation", dataclass=AiaynTranslationConfig)
class AiaynTranslationTask(TranslationTask):
    """The task of section 6.1: beam 4, α 0.6, output length at most input length + 50, and a search
    that stops as early as possible."""

    name = "aiayn_translation"
    decoding = TRANSLATION
    search_class = BeamSearchGenerator

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Declare the options; the defaults of --beam, --lenpen and --max-len-a/-b are the paper's.

        The default of --required-batch-size-multiple is 1. With fairseq's 8, up to seven sentences
        of a test set, the longest ones, are silently left out of the last batch.
        """
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
        batches as an undisturbed one.

        fairseq would draw them once, with a seed that depends on the epoch when the process starts.
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
        """Build the search with these options (--lenpen is α).

        Raises ValueError for an option that the paper's search does not have, a value out of range,
        and a model that is not an aiayn_* model.
        """
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
        options = Search(
            beam=chosen["beam"],
            alpha=0.0 if chosen["unnormalized"] else chosen["lenpen"],
            b=chosen["max_len_b"],
            a=chosen["max_len_a"],
            min_length=chosen["min_len"],
            nbest=chosen["nbest"],
        )
        return self.search_class(
            self.source_dictionary,
            self.target_dictionary,
            options.over(len(self.target_dictionary)),
            PRODUCT_TYPES[self.cfg.search_precision],
        )


def refuse_foreign_options(args: Namespace) -> None:
    """Raise ValueError for a generation option that the paper's search does not have."""
    for name, off in REFUSED.items():
        if getattr(args, name, off) not in (off, None):
            raise ValueError(
                f"--{name.replace('_', '-')} is not part of the paper's search: use"
                " --task translation for it"
            )
