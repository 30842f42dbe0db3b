"""A model for CTranslate2, an engine in C++ that searches on CPUs and GPUs without PyTorch.

config.json, model.bin, *_vocabulary.json   what CTranslate2 reads
aiayn.json                                  config.json of a model folder: the search, the text
codes or pieces.model                       as in a model folder

CTranslate2 has the paper's model: norms after the residual sums, ReLU, no bias where there is none.
Its layer norm takes our epsilon. Its heads have one size, so that the smaller of d_k and d_v is
filled up with zeros, which change no product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import cast

import ctranslate2
import torch
from ctranslate2.specs import attention_spec, common_spec, model_spec, transformer_spec

from fairseq_aiayn.decoding.beam_search import Search, length_penalty
from fairseq_aiayn.inference.engine import (
    BATCH_TOKENS,
    Engine,
    Translation,
    empty_output,
    most_tokens,
    pieces_of,
    search_options,
)
from fairseq_aiayn.inference.folder import (
    END,
    OF_OTHERS,
    PADDING,
    SPECIAL,
    Config,
    Model,
    copy_pieces_file,
    read_text_processing,
    write_config,
)
from fairseq_aiayn.inference.marian import longest_sequence, wide_projections
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.layers import LAYER_NORM_EPSILON, AddAndNorm, LearnedPositions, sinusoids
from fairseq_aiayn.nn.transformer import Decoder, DecoderLayer, Encoder, EncoderLayer
from fairseq_aiayn.text import whole_folder

FINISHED_PER_BEAM = 2


def write_ctranslate2(model: Model, quantization: str, path: Path) -> None:
    """Write a directory for CTranslate2; it appears whole or not at all.

    `quantization` is CTranslate2's name of the type of the weights. Raises ValueError if `path`
    exists, and OSError if a file cannot be read or written.
    """
    with whole_folder(path) as part:
        specification = _specification(model)
        specification.validate()
        specification.optimize(quantization)
        specification.save(str(part))
        copy_pieces_file(model, part)
        write_config(model.config, part / OF_OTHERS)


class CTranslate2Translator:
    """A model that `write_ctranslate2` wrote: text in, text out, ranked as in section 6.1.

    CTranslate2 divides log P by |Y|^α, the paper by ((5 + |Y|)/6)^α. So CTranslate2 is asked for
    all outputs that its search finished, with plain log P, and they are ranked here. Its search
    ends when twice as many outputs are finished as there are beams; ours, when no open one could
    become better.
    """

    def __init__(
        self,
        path: Path,
        device: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        threads: int | None = None,
    ):
        """Load a model; CTranslate2 chooses the device or the number of threads that is None.

        Raises OSError or ValueError for a directory, a device or a number that cannot be used.
        """
        self.config, self.cut, self.join = read_text_processing(path)
        self.batch_tokens = batch_tokens
        try:
            self.translator = ctranslate2.Translator(
                str(path), device or "auto", intra_threads=threads or 0
            )
        except (RuntimeError, ValueError) as error:  # a damaged model is a RuntimeError
            raise ValueError(f"{path}: {error}") from error

    def engine(
        self, beam: int | None = None, alpha: float | None = None, nbest: int = 1
    ) -> Engine[str, list[str], list[Translation]]:
        """Return the engine of a search, with the outputs of `Translator.engine`."""
        options = search_options(self.config, beam, alpha, nbest)
        read = partial(pieces_of, cut=self.cut, longest=most_tokens(self.config)[0])
        run = partial(self._search, options=options)
        return Engine(read, run, empty_output, self.batch_tokens)

    def _search(
        self, sources: Sequence[Sequence[str]], options: Search
    ) -> Iterator[list[Translation]]:
        """Search sources of equal length together: CTranslate2 has one longest output per call.

        CTranslate2 excludes a token by a softmax over the others, which would change log P. So
        what our search excludes, empty outputs and padding, is left out afterwards.
        """
        for _, group in groupby(sources, key=len):
            sources = list(group)
            for source, outputs in zip(sources, self._outputs(sources, options.beam), strict=True):
                usable = [output for output in outputs if _is_usable(output[0])]
                usable = usable or self._restricted_outputs(source, options.beam)
                translations = [self._translation(*output, options.alpha) for output in usable]
                translations.sort(key=lambda translation: translation.score, reverse=True)
                yield translations[: options.nbest]

    def _restricted_outputs(
        self, source: Sequence[str], beam: int
    ) -> list[tuple[Sequence[str], float]]:
        """Search a source whose outputs are all empty, have padding or reached the longest length
        without an end token, and compute log P of what is found alone."""
        (outputs,) = self._outputs([source], beam, restricted=True)
        pieces = [_without_end(tokens) for tokens, _ in outputs]
        results = self.translator.score_batch([source] * len(pieces), pieces, max_input_length=0)
        totals = [sum(result.log_probs) for result in results]
        return list(zip(pieces, totals, strict=True))

    def _outputs(
        self, sources: Sequence[Sequence[str]], beam: int, restricted: bool = False
    ) -> list[list[tuple[Sequence[str], float]]]:
        """Return all outputs of CTranslate2's search for sources of one length, with log P."""
        more = FINISHED_PER_BEAM if beam > 1 else 1  # with one beam, it takes the best token
        results = self.translator.translate_batch(
            sources,
            beam_size=beam,
            patience=more,
            num_hypotheses=beam * more,
            length_penalty=0,
            suppress_sequences=[[SPECIAL[PADDING]]] if restricted else None,
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
            min_decoding_length=int(restricted),
            max_decoding_length=min(
                len(sources[0]) + self.config.search.extra_length, most_tokens(self.config)[2]
            ),
        )
        return [list(zip(result.hypotheses, result.scores, strict=True)) for result in results]

    def _translation(self, tokens: Sequence[str], log_p: float, alpha: float) -> Translation:
        pieces = _without_end(tokens)
        score = log_p / length_penalty(len(pieces) + 1, alpha)
        return Translation(self.join(pieces), score, log_p, tuple(pieces))


def _is_usable(tokens: Sequence[str]) -> bool:
    """Return whether an output has pieces, no padding, and the end token."""
    return len(tokens) > 1 and tokens[-1] == SPECIAL[END] and SPECIAL[PADDING] not in tokens


def _without_end(tokens: Sequence[str]) -> list[str]:
    return [piece for piece in tokens if piece != SPECIAL[END]]


def _specification(model: Model) -> transformer_spec.TransformerSpec:
    """Return CTranslate2's description of a model, with all weights."""
    sizes = model.config.sizes
    heads = {"num_layers": sizes.N, "num_heads": sizes.h, "head_dim": max(sizes.d_k, sizes.d_v)}
    encoder = transformer_spec.TransformerEncoderSpec(pre_norm=False, **heads)
    decoder = transformer_spec.TransformerDecoderSpec(pre_norm=False, **heads)
    ours = deepcopy(model.transformer)  # quantizing writes into the weights
    _fill_stack(encoder, encoder.embeddings[0], ours.encoder, model.config)
    _fill_stack(decoder, decoder.embeddings, ours.decoder, model.config)
    decoder.projection.weight = ours.decoder.projection.weight
    specification = transformer_spec.TransformerSpec(encoder, decoder)
    specification.register_source_vocabulary(list(model.source.types))
    specification.register_target_vocabulary(list(model.target.types))
    specification.config.layer_norm_epsilon = LAYER_NORM_EPSILON
    specification.config.decoder_start_token = SPECIAL[END]
    specification.config.add_source_eos = True
    return specification


def _fill_stack(
    spec: model_spec.LayerSpec,
    embeddings: common_spec.EmbeddingsSpec,
    stack: Encoder | Decoder,
    config: Config,
) -> None:
    embeddings.weight = stack.embedding.weight
    spec.position_encodings.encodings = (
        stack.position.weight
        if isinstance(stack.position, LearnedPositions)
        else sinusoids(longest_sequence(config), config.sizes.d_model)
    )
    layers = cast("list[EncoderLayer | DecoderLayer]", stack.layers)
    for layer, ours in zip(spec.layer, layers, strict=True):
        _fill_attention(layer.self_attention, ours.self_attention, ours.self_attention_norm)
        if isinstance(ours, DecoderLayer):
            _fill_attention(layer.attention, ours.cross_attention, ours.cross_attention_norm)
        network = ours.feed_forward
        for linear, W in ((layer.ffn.linear_0, network.W_1), (layer.ffn.linear_1, network.W_2)):
            linear.weight, linear.bias = W.weight, W.bias
        _fill_norm(layer.ffn.layer_norm, ours.feed_forward_norm)


def _fill_attention(
    spec: attention_spec.MultiHeadAttentionSpec, ours: MultiHeadAttention, norm: AddAndNorm
) -> None:
    """Give the specification of a self-attention [QKV, O] or of any other [Q, KV, O] its weights;
    the scale is 1/√d_k of the true d_k."""
    Q, K, V, O = wide_projections(ours, max(ours.projection_sizes) // ours.h)
    is_self_attention = len(spec.linear) == 2
    weights = [torch.cat([Q, K, V]), O] if is_self_attention else [Q, torch.cat([K, V]), O]
    for linear, weight in zip(spec.linear, weights, strict=True):
        linear.weight = weight
    spec.queries_scale = 1 / math.sqrt(ours.projection_sizes[0] // ours.h)
    _fill_norm(spec.layer_norm, norm)


def _fill_norm(spec: common_spec.LayerNormSpec, ours: AddAndNorm) -> None:
    spec.gamma, spec.beta = ours.norm.weight, ours.norm.bias
