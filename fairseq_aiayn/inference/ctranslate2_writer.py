"""The files for CTranslate2 in a model folder, which ctranslate2.py reads.

CTranslate2 has the paper's model: norms after the residual sums, ReLU, no bias where there is none.
Its layer norm takes our epsilon. Its heads have one size, so that the smaller of d_k and d_v is
filled up with zeros, which change no product.
"""

from __future__ import annotations

import math
from copy import deepcopy
from pathlib import Path
from typing import cast

import torch
from ctranslate2.specs import attention_spec, common_spec, model_spec, transformer_spec
from torch import Tensor, nn
from torch.nn.functional import pad

from fairseq_aiayn.inference.description import END, LONGEST, SPECIAL, Config, Model
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.layers import LearnedPositions, sinusoids
from fairseq_aiayn.nn.transformer import Decoder, DecoderLayer, Encoder, EncoderLayer


def write_ctranslate2(model: Model, folder: Path) -> None:
    """Write CTranslate2's files into a new folder, in float32; raises OSError if it cannot be."""
    folder.mkdir()
    specification = _specification(model)
    specification.validate()
    specification.optimize("float32")
    specification.save(str(folder))


def _specification(model: Model) -> transformer_spec.TransformerSpec:
    """Return CTranslate2's description of a model, with all weights."""
    sizes = model.config.sizes
    heads = {"num_layers": sizes.N, "num_heads": sizes.h, "head_dim": max(sizes.d_k, sizes.d_v)}
    encoder = transformer_spec.TransformerEncoderSpec(pre_norm=False, **heads)
    decoder = transformer_spec.TransformerDecoderSpec(pre_norm=False, **heads)
    # A copy, because quantizing writes into the weights; rounded as those of the folder are
    ours = deepcopy(model.transformer).to(getattr(torch, model.config.precision)).float()
    _fill_stack(encoder, encoder.embeddings[0], ours.encoder, model.config)
    _fill_stack(decoder, decoder.embeddings, ours.decoder, model.config)
    decoder.projection.weight = ours.decoder.projection.weight
    specification = transformer_spec.TransformerSpec(encoder, decoder)
    specification.register_source_vocabulary(list(model.source.types))
    specification.register_target_vocabulary(list(model.target.types))
    norms = (module for module in ours.modules() if isinstance(module, nn.LayerNorm))
    specification.config.layer_norm_epsilon = next(norms).eps
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
        else sinusoids(LONGEST + config.search.extra_length + 1, config.sizes.d_model)
    )
    layers = cast("list[EncoderLayer | DecoderLayer]", stack.layers)
    for layer, ours in zip(spec.layer, layers, strict=True):
        _fill_attention(layer.self_attention, ours.self_attention, ours.self_attention_norm.norm)
        if isinstance(ours, DecoderLayer):
            _fill_attention(layer.attention, ours.cross_attention, ours.cross_attention_norm.norm)
        network = ours.feed_forward
        for linear, W in ((layer.ffn.linear_0, network.W_1), (layer.ffn.linear_1, network.W_2)):
            linear.weight, linear.bias = W.weight, W.bias
        _fill_norm(layer.ffn.layer_norm, ours.feed_forward_norm.norm)


def _fill_attention(
    spec: attention_spec.MultiHeadAttentionSpec, ours: MultiHeadAttention, norm: nn.LayerNorm
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


def wide_projections(ours: MultiHeadAttention, size: int) -> list[Tensor]:
    """Return W^Q, W^K and W^V [h·size, d_model] and W^O [d_model, h·size] of an attention, with
    zeros after the d_k or d_v components of each head."""
    wide = []
    for rows in (*ours.W_QKV.weight.split(ours.projection_sizes), ours.W_O.weight.T):
        heads = rows.unflatten(0, (ours.h, -1))
        wide.append(pad(heads, (0, 0, 0, size - heads.size(1))).flatten(0, 1))
    return [*wide[:3], wide[3].T]


def _fill_norm(spec: common_spec.LayerNormSpec, ours: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = ours.weight, ours.bias
