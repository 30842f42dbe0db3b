"""The Transformer of fairseq_aiayn.nn as a model for fairseq's trainer, generators and hub."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TypedDict

import torch
from fairseq.data import Dictionary
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
)
from fairseq.tasks import FairseqTask
from torch import Tensor

from fairseq_aiayn.nn.cpu_kernels import PRODUCT_TYPES, products_in
from fairseq_aiayn.nn.decoder_state import DecoderState
from fairseq_aiayn.nn.layers import LONGEST_SINUSOIDS
from fairseq_aiayn.nn.transformer import (
    Decoder,
    Transformer,
    create_transformer,
    needed_mask,
)
from fairseq_aiayn.plugin.architectures import (
    MODEL_NAME,
    add_model_options,
    read_dimensions,
    read_initialization,
    read_sharing,
    register_rows,
)


class EncoderOut(TypedDict):
    """The encoder's output for the decoder."""

    memory: Tensor  # [B, S, d_model]
    source_mask: Tensor | None  # [B, 1, 1, S]


class AiaynEncoder(FairseqEncoder):
    """The encoder stack for a batch of fairseq; padding may be on either side."""

    def __init__(self, dictionary: Dictionary, transformer: Transformer, longest: int):
        super().__init__(dictionary)
        self.stack = transformer.encoder
        self.encode = transformer.encode
        self.longest = longest

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None) -> EncoderOut:
        """Encode src_tokens [B, S]; src_lengths is ignored, because the padding gives the mask."""
        source_mask = needed_mask(src_tokens, self.dictionary.pad())
        return {"memory": self.encode(src_tokens, source_mask), "source_mask": source_mask}

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Select rows new_order [B'] of every tensor; fairseq's own search copies sentences in this
        way."""
        memory, mask = encoder_out["memory"], encoder_out["source_mask"]
        return {
            "memory": memory.index_select(0, new_order),
            "source_mask": None if mask is None else mask.index_select(0, new_order),
        }

    def max_positions(self) -> int:
        """Return the maximum length of a source."""
        return self.longest


class AiaynDecoder(FairseqIncrementalDecoder):
    """The decoder stack, over a whole target, or step by step with an incremental state."""

    def __init__(self, dictionary: Dictionary, stack: Decoder, longest: int):
        super().__init__(dictionary)
        self.stack = stack
        self.longest = longest

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: dict[str, DecoderState] | None = None,
    ) -> tuple[Tensor, dict[str, list[None]]]:
        """Return the logits [B, T, V] of prev_output_tokens [B, T]; with an incremental state, only
        those of the last token, [B, 1, V]."""
        features, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return self.output_layer(features), extra

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: dict[str, DecoderState] | None = None,
    ) -> tuple[Tensor, dict[str, list[None]]]:
        """Return the features before the projection, [B, T, d_model]; arguments as in `forward`."""
        no_attention = {"attn": [None]}
        memory, source_mask = encoder_out["memory"], encoder_out["source_mask"]
        if incremental_state is None:
            return self.stack(prev_output_tokens, memory, source_mask), no_attention
        if "aiayn" not in incremental_state:
            incremental_state["aiayn"] = self.stack.start(memory, source_mask)
        return self.stack.step(prev_output_tokens[:, -1:], incremental_state["aiayn"]), no_attention

    def output_layer(self, features: Tensor) -> Tensor:
        """features [B, T, d_model] → logits [B, T, V]."""
        return self.stack.projection.project(features)

    def reorder_incremental_state(
        self, incremental_state: dict[str, DecoderState], new_order: Tensor
    ) -> None:
        """Reorder the state for fairseq's own search, where every beam is a separate sentence, even
        on the source side."""
        state = incremental_state["aiayn"]
        state.reorder_beams(new_order)
        state.keep_sources(new_order)

    def max_positions(self) -> int:
        """Return the maximum length of a target."""
        return self.longest


@register_model(MODEL_NAME)
class AiaynModel(FairseqEncoderDecoderModel):
    """The paper's Transformer; its --arch names are the rows of paper.py."""

    encoder: AiaynEncoder
    decoder: AiaynDecoder
    transformer: Transformer

    def __init__(
        self,
        transformer: Transformer,
        source: Dictionary,
        target: Dictionary,
        lengths: tuple[int, int],
        autocast: torch.dtype | None = None,
    ):
        """`lengths` are the maximum lengths of a source and of a target."""
        super().__init__(
            AiaynEncoder(source, transformer, lengths[0]),
            AiaynDecoder(target, transformer.decoder, lengths[1]),
        )
        # It is no submodule: its stacks are, and checkpoints have their names.
        self.__dict__["transformer"] = transformer
        self.autocast = autocast

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        features_only: bool = False,
    ) -> tuple[Tensor, dict[str, list[None]]]:
        """Return the logits [B, T, V], or with `features_only` the features [B, T, d_model] before
        the projection."""
        with products_in(self.autocast, src_tokens.device):
            encoder_out = self.encoder(src_tokens, src_lengths)
            decode = self.decoder.extract_features if features_only else self.decoder
            return decode(prev_output_tokens, encoder_out)

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Declare the model's options."""
        add_model_options(parser)

    @classmethod
    def build_model(cls, args: Namespace, task: FairseqTask) -> AiaynModel:
        """Build the model that completed options describe; raises ValueError for options that fit
        no model."""
        source, target = task.source_dictionary, task.target_dictionary
        sharing = read_sharing(args)
        if getattr(args, "left_pad_target", False):
            raise ValueError("--left-pad-target: aiayn models read targets padded on the right")
        if sharing == "all" and source != target:
            raise ValueError(
                f"the source dictionary ({len(source)} types) and the target dictionary "
                f"({len(target)} types) differ, so they cannot share one matrix (section 3.4): "
                "preprocess with --joined-dictionary, or pass --share-decoder-input-output-embed "
                "or --untied-embeddings"
            )
        lengths = (args.max_source_positions, args.max_target_positions)
        if args.learned_positions and min(lengths) < 1:
            raise ValueError(
                "--learned-positions: --max-source-positions and --max-target-positions must be at"
                f" least 1, got {lengths[0]} and {lengths[1]}"
            )
        transformer = create_transformer(
            read_dimensions(args),
            len(source),
            len(target),
            source.pad(),
            sharing,
            learned_lengths=lengths if args.learned_positions else None,
            initialization=read_initialization(args),
        )
        if not args.learned_positions:
            lengths = (LONGEST_SINUSOIDS, LONGEST_SINUSOIDS)
        return cls(transformer, source, target, lengths, PRODUCT_TYPES[args.autocast or "float32"])


register_rows()
