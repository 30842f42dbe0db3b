"""Write a model for CTranslate2, an engine in C++ that searches on CPUs and GPUs without PyTorch.

config.json, model.bin, *_vocabulary.json   what CTranslate2 reads
aiayn.json                                  config.json of a model folder: the search, the text
codes or pieces.model                       as in a model folder

CTranslate2 has the paper's model: norms after the residual sums, ReLU, no bias where there is none.
Its layer norm takes our epsilon. Its heads have one size, so that the smaller of d_k and d_v is
filled up with zeros, which change no product.
"""

from __future__ import annotations

import json
import math
import shutil
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path

import torch
from ctranslate2.specs import attention_spec, common_spec, model_spec, transformer_spec

from fairseq_aiayn.exchange.fixed_sizes import position_table, wider_heads
from fairseq_aiayn.files.whole import whole_folder
from fairseq_aiayn.model_folder.config import OF_CTRANSLATE2, Config
from fairseq_aiayn.model_folder.folder import Model, sha256_of
from fairseq_aiayn.model_folder.text import PIECES_FILES
from fairseq_aiayn.model_folder.vocabulary import END, SPECIAL
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.decoder import Decoder
from fairseq_aiayn.nn.encoder import Encoder
from fairseq_aiayn.nn.feed_forward import FeedForward
from fairseq_aiayn.nn.residual import LAYER_NORM_EPSILON, AddAndNorm


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
        config = replace(model.config, sha256={})
        if model.pieces_file:
            name = PIECES_FILES[config.text.pieces]
            shutil.copyfile(model.pieces_file, part / name)
            config.sha256[name] = sha256_of(part / name)
        content = json.dumps(asdict(config), indent=2, ensure_ascii=False)
        (part / OF_CTRANSLATE2).write_text(f"{content}\n", encoding="utf-8")


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
    spec.position_encodings.encodings = position_table(stack.position, config)
    for layer, ours in zip(spec.layer, stack.layers, strict=True):
        _fill_attention(layer.self_attention, ours.self_attention, ours.self_attention_norm)
        if isinstance(stack, Decoder):
            _fill_attention(layer.attention, ours.cross_attention, ours.cross_attention_norm)
        _fill_feed_forward(layer.ffn, ours.feed_forward, ours.feed_forward_norm)


def _fill_attention(
    spec: attention_spec.MultiHeadAttentionSpec, ours: MultiHeadAttention, norm: AddAndNorm
) -> None:
    """Give the specification of a self-attention [QKV, O] or of any other [Q, KV, O] its weights;
    the scale is 1/√d_k of the true d_k."""
    h = ours.h
    d_k, _, d_v = (size // h for size in ours.projection_sizes)
    Q, K, V = (
        wider_heads(rows, h, max(d_k, d_v))
        for rows in ours.W_QKV.weight.split(ours.projection_sizes)
    )
    O = wider_heads(ours.W_O.weight.T, h, max(d_k, d_v)).T
    is_self_attention = len(spec.linear) == 2
    weights = [torch.cat([Q, K, V]), O] if is_self_attention else [Q, torch.cat([K, V]), O]
    for linear, weight in zip(spec.linear, weights, strict=True):
        linear.weight = weight
    spec.queries_scale = 1 / math.sqrt(d_k)
    _fill_norm(spec.layer_norm, norm)


def _fill_feed_forward(
    spec: transformer_spec.FeedForwardSpec, ours: FeedForward, norm: AddAndNorm
) -> None:
    for linear, W in ((spec.linear_0, ours.W_1), (spec.linear_1, ours.W_2)):
        linear.weight, linear.bias = W.weight, W.bias
    _fill_norm(spec.layer_norm, norm)


def _fill_norm(spec: common_spec.LayerNormSpec, ours: AddAndNorm) -> None:
    spec.gamma, spec.beta = ours.norm.weight, ours.norm.bias
