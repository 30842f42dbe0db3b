"""The Transformer of fairseq_aiayn.nn as a model for fairseq's trainer, generators and hub.

Every row of paper.py is an --arch; options that are not given take the values of the row.
"""

# ruff: noqa: RUF009, UP045  (fairseq reads the annotations and does not know "int | None")

from argparse import Namespace
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Optional, TypedDict, cast

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
    register_model_architecture,
)
from fairseq.tasks import FairseqTask
from omegaconf import II, DictConfig
from torch import Tensor

from fairseq_aiayn.attention_maps.weights import weights_of_call
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.cpu_kernels import PRODUCT_TYPES, products_in
from fairseq_aiayn.nn.decoder_state import DecoderState
from fairseq_aiayn.nn.dimensions import Dimensions, Sharing
from fairseq_aiayn.nn.initialization import INITIALIZATIONS
from fairseq_aiayn.nn.layers import positions
from fairseq_aiayn.nn.transformer import (
    Decoder,
    DecoderLayer,
    Encoder,
    Transformer,
    create_transformer,
    needed_mask,
)
from fairseq_aiayn.paper import ROWS, Row
from fairseq_aiayn.settings import ENCODER_AND_DECODER, SHARING, SIDES, SIZE_OPTIONS, option

MODEL_NAME = "aiayn"
# A model's sizes and rates, and their symbols in Dimensions and in a row
DIMENSIONS = SIZE_OPTIONS | {"dropout": "P_drop", "attention_dropout": "attention_dropout"}
# Options of the criterion and the schedule that a row sets, by the field of the row
TRAINING = {"label_smoothing": "epsilon_ls", "warmup_updates": "warmup", "lr_factor": "lr_factor"}


def of_the_row(meaning: str) -> Any:
    """Return the field of an option that has the row's value unless it is given."""
    return field(default=None, metadata={"help": meaning})


@dataclass
class AiaynConfig(FairseqDataclass):
    """Options of the model, for fairseq-train and fairseq-hydra-train."""

    encoder_layers: Optional[int] = of_the_row("N of the encoder and the decoder")
    decoder_layers: Optional[int] = of_the_row("the same")
    encoder_embed_dim: Optional[int] = of_the_row("d_model of the encoder and the decoder")
    decoder_embed_dim: Optional[int] = of_the_row("the same")
    encoder_ffn_embed_dim: Optional[int] = of_the_row("d_ff of the encoder and the decoder")
    decoder_ffn_embed_dim: Optional[int] = of_the_row("the same")
    encoder_attention_heads: Optional[int] = of_the_row("h of the encoder and the decoder")
    decoder_attention_heads: Optional[int] = of_the_row("the same")
    d_k: Optional[int] = of_the_row("size of the queries and keys of each head")
    d_v: Optional[int] = of_the_row("size of the values of each head")
    dropout: Optional[float] = of_the_row("P_drop of section 5.4")
    attention_dropout: Optional[float] = of_the_row("rate for attention weights (section 6.3)")
    learned_positions: Optional[bool] = of_the_row("use learned positions (Table 3, row E)")
    share_all_embeddings: Optional[bool] = of_the_row("one matrix for all (section 3.4)")
    share_decoder_input_output_embed: Optional[bool] = of_the_row("another for the source")
    untied_embeddings: Optional[bool] = of_the_row("separate embeddings and projection")
    initialization: Optional[ChoiceEnum(INITIALIZATIONS)] = of_the_row(  # type: ignore[valid-type]
        "scheme of the initial weights (docs/deviations.md)"
    )
    autocast: Optional[ChoiceEnum(["bfloat16"])] = of_the_row(  # type: ignore[valid-type]
        "precision of matrix products in training; all else, and checkpoints, stay in float32"
    )
    max_source_positions: int = II("task.max_source_positions")
    max_target_positions: int = II("task.max_target_positions")
    left_pad_target: Any = II("task.left_pad_target")  # fairseq takes the text of a bool for true


DecoderOut = tuple[Tensor, dict[str, list[Tensor | None]]]  # and the attention with it


class EncoderOut(TypedDict):
    """The encoder's output for the decoder."""

    memory: Tensor  # [B, S, d_model]
    source_mask: Tensor | None  # [B, 1, 1, S]


class AiaynEncoder(FairseqEncoder):
    """The encoder stack for a batch of fairseq; padding may be on either side."""

    def __init__(self, dictionary: Dictionary, stack: Encoder, longest: int):
        super().__init__(dictionary)
        self.stack = stack
        self.longest = longest

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        is_padded: bool | None = None,
    ) -> EncoderOut:
        """Encode src_tokens [B, S]; src_lengths is ignored, because the padding gives the mask.
        Without `is_padded`, a GPU is asked whether there is padding."""
        padding = self.dictionary.pad()
        source_mask = needed_mask(src_tokens, padding, is_padded)
        memory = self.stack(src_tokens, positions(src_tokens, padding), source_mask)
        return {"memory": memory, "source_mask": source_mask}

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Select rows new_order [B'] of every tensor; fairseq's own search copies sentences in this
        way."""
        memory, mask = encoder_out["memory"], encoder_out["source_mask"]
        return {
            "memory": memory.index_select(0, new_order),
            "source_mask": None if mask is None else mask.index_select(0, new_order),
        }

    def max_positions(self) -> int:
        """Return the maximum length of a source, --max-source-positions of the training."""
        return min(self.longest, self.stack.position.weight.size(0))


class AiaynDecoder(FairseqIncrementalDecoder):
    """The decoder stack, over a whole target, or step by step with an incremental state."""

    def __init__(self, dictionary: Dictionary, stack: Decoder, longest: int):
        super().__init__(dictionary)
        self.stack = stack
        self.longest = longest
        self.aligns = False  # whether the attention of a whole target is also returned

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: dict[str, DecoderState] | None = None,
        features_only: bool = False,
    ) -> DecoderOut:
        """Return the logits [B, T, V] of prev_output_tokens [B, T], or with `features_only` the
        features [B, T, d_model] before the projection; with an incremental state, only those of the
        last token (T = 1).

        With them comes the mean attention of the last layer's heads to the source, [B, T, S], or
        None unless the decoder aligns.
        """
        memory, source_mask = encoder_out["memory"], encoder_out["source_mask"]
        weights: list[Tensor | None] = [None]
        if incremental_state is not None:
            if "aiayn" not in incremental_state:
                incremental_state["aiayn"] = self.stack.start(memory, source_mask)
            features = self.stack.step(prev_output_tokens[:, -1:], incremental_state["aiayn"])
        elif self.aligns:
            features, weights[0] = self.align(prev_output_tokens, memory, source_mask)
        else:
            features = self.stack(prev_output_tokens, memory, source_mask)
        if not features_only:
            features = self.stack.projection.project(features)
        return features, {"attn": weights}

    def align(
        self, tokens: Tensor, memory: Tensor, source_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the features and the attention that `forward` returns."""
        weights = []

        def record(attention: MultiHeadAttention, inputs: tuple) -> None:
            weights.append(weights_of_call(attention, *inputs).mean(dim=1))

        last = cast(DecoderLayer, self.stack.layers[-1])
        with last.cross_attention.register_forward_pre_hook(record):
            return self.stack(tokens, memory, source_mask), weights[0]

    def reorder_incremental_state(
        self, incremental_state: dict[str, DecoderState], new_order: Tensor
    ) -> None:
        """Reorder the state for fairseq's own search, where every beam is a separate sentence, even
        on the source side."""
        state = incremental_state["aiayn"]
        state.reorder_beams(new_order)
        state.keep_sources(new_order)

    def max_positions(self) -> int:
        """Return the maximum length of a target, --max-target-positions of the training."""
        return min(self.longest, self.stack.position.weight.size(0))


@register_model(MODEL_NAME, dataclass=AiaynConfig)
class AiaynModel(FairseqEncoderDecoderModel):
    """The paper's Transformer; its --arch names are the rows of paper.py."""

    encoder: AiaynEncoder
    decoder: AiaynDecoder
    full_context_alignment = True  # --print-alignment reads the attention that `forward` returns

    def __init__(self, encoder: AiaynEncoder, decoder: AiaynDecoder, autocast: torch.dtype | None):
        super().__init__(encoder, decoder)
        self.autocast = autocast

    @property
    def transformer(self) -> Transformer:
        """The two stacks without fairseq, for the paper's search."""
        return Transformer(self.encoder.stack, self.decoder.stack, self.encoder.dictionary.pad())

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        features_only: bool = False,
        is_padded: bool | None = None,
    ) -> DecoderOut:
        """Return the logits [B, T, V], or with `features_only` the features [B, T, d_model] before
        the projection; `is_padded` as in the encoder."""
        with products_in(self.autocast, src_tokens.device):
            encoder_out = self.encoder(src_tokens, src_lengths, is_padded)
            return self.decoder(prev_output_tokens, encoder_out, features_only=features_only)

    def make_generation_fast_(
        self,
        need_attn: str | None = None,
        retain_dropout: bool = False,
        retain_dropout_modules: list[str] | None = None,
        **options: object,
    ) -> None:
        """Prepare for searches: without --autocast, with --print-alignment and --retain-dropout.
        Raises ValueError for modules, which are the stock model's."""
        if retain_dropout_modules:
            raise ValueError("--retain-dropout-modules: aiayn models retain dropout everywhere")
        super().make_generation_fast_(**options)  # from now on, eval() changes no module
        self.autocast = None
        self.decoder.aligns = bool(need_attn)
        for stack in (self.encoder, self.decoder):
            stack.train(retain_dropout)

    @classmethod
    def build_model(cls, args: Namespace, task: FairseqTask) -> "AiaynModel":
        """Build the model that completed options describe; raises ValueError for options that fit
        no model."""
        source, target = task.source_dictionary, task.target_dictionary
        if args.encoder_layers is None:
            raise ValueError(f"--arch {MODEL_NAME}: expected a row, such as aiayn_base")
        sharing = next(kind for name, kind in SHARING.items() if getattr(args, name))
        if utils.eval_bool(str(getattr(args, "left_pad_target", False))):  # may be the text "False"
            raise ValueError("--left-pad-target: aiayn models read targets padded on the right")
        if sharing == "all" and source != target:
            raise ValueError(
                f"the source dictionary ({len(source)} types) and the target dictionary "
                f"({len(target)} types) differ, so they cannot share one matrix (section 3.4): "
                "preprocess with --joined-dictionary, or pass --share-decoder-input-output-embed "
                "or --untied-embeddings"
            )
        lengths = (args.max_source_positions, args.max_target_positions)
        sizes = {symbol: getattr(args, name) for name, symbol in DIMENSIONS.items()}
        transformer = create_transformer(
            Dimensions(**sizes),
            len(source),
            len(target),
            source.pad(),
            sharing,
            learned_lengths=lengths if args.learned_positions else None,
            initialization=args.initialization,
        )
        encoder = AiaynEncoder(source, transformer.encoder, lengths[0])
        decoder = AiaynDecoder(target, transformer.decoder, lengths[1])
        return cls(encoder, decoder, PRODUCT_TYPES[getattr(args, "autocast", None) or "float32"])


# --- the rows of paper.py ---------------------------------------------------------------------


def apply_row(row: Row, args: Namespace | DictConfig) -> None:
    """Complete options from a row, in place; options that were given win. A second call changes
    nothing. Raises ValueError if options contradict each other."""
    for name, symbol in ENCODER_AND_DECODER.items():
        share_size(args, name, symbol)
    for name, symbol in DIMENSIONS.items():
        set_default(args, name, getattr(row, symbol, 0.0))  # a row has no attention dropout
    for name in ("learned_positions", "initialization"):
        set_default(args, name, getattr(row, name))
    set_sharing(args, "all" if row.shared_vocabulary else "target")
    d_model = args.encoder_embed_dim  # of Equation 3; fairseq passes on none
    training = {name: getattr(row, field) for name, field in TRAINING.items()}
    parts: list[Any] = [args]
    if isinstance(args, DictConfig):  # fairseq-hydra-train has criterion and schedule beside it
        root: Any = args._get_root()
        parts = [root.get(group) or {} for group in ("criterion", "lr_scheduler")]
    for options in parts:
        for name, value in (training | {"d_model": d_model}).items():
            if options is args or name in options:
                set_default(options, name, value)
        if getattr(options, "d_model", d_model) != d_model:
            raise ValueError(
                f"--d-model {options.d_model} of the learning-rate schedule differs from the"
                f" model's --encoder-embed-dim {d_model}"
            )


def set_default(args: Namespace | DictConfig, name: str, value: object) -> None:
    """Set args.name unless it was given."""
    if getattr(args, name, None) is None:
        setattr(args, name, value)


def share_size(args: Namespace | DictConfig, name: str, symbol: str) -> None:
    """Set the size of both sides to that of the side where it was given; raises ValueError for two
    sizes."""
    names = [f"{side}_{name}" for side in SIDES]
    given = [getattr(args, one) for one in names if getattr(args, one, None) is not None]
    if len(set(given)) > 1:
        sizes = " and ".join(f"{option(one)} {getattr(args, one)}" for one in names)
        raise ValueError(f"{sizes} differ: encoder and decoder have one {symbol} (section 3.1)")
    for one in names:
        setattr(args, one, given[0] if given else None)


def set_sharing(args: Namespace | DictConfig, row_sharing: Sharing) -> None:
    """Make exactly one of the three options true: the one that was given, or else the row's. Raises
    ValueError if two are given, or false is given for the row's."""
    given = [name for name in SHARING if getattr(args, name, False)]
    if "untied_embeddings" in given and len(given) > 1:
        raise ValueError(f"{option(given[0])} and --untied-embeddings contradict each other")
    # --share-all-embeddings includes what --share-decoder-input-output-embed asks for
    chosen = SHARING[given[0]] if given else row_sharing
    for name, sharing in SHARING.items():
        if sharing == chosen and getattr(args, name, None) is False:
            raise ValueError(f"{option(name)} false: expected {' or '.join(map(option, SHARING))}")
        setattr(args, name, sharing == chosen)


for row in ROWS.values():
    register_model_architecture(MODEL_NAME, row.arch)(partial(apply_row, row))
