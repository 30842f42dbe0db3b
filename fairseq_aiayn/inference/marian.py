"""A translation model as a directory of Hugging Face's MarianMTModel, whose layers are the paper's.

Marian's sinusoids are those of section 3.5 with all sines before all cosines. So every vector of
d_model components is stored in this order; layer norms and residual connections do not depend on
it. Marian's heads have d_model/h components: smaller ones get zeros.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_aiayn.inference.ctranslate2 import longest_sequence, wider_heads
from fairseq_aiayn.inference.engine import LONGEST
from fairseq_aiayn.inference.folder import (
    END,
    OF_OTHERS,
    PADDING,
    PIECES_FILES,
    SPECIAL,
    TRANSLATION,
    WORD_PIECES,
    Config,
    Model,
    Vocabulary,
    copy_pieces_file,
    model_card,
    read_config,
    require_task,
    require_unchanged,
    saving_weights,
    write_config,
)
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.layers import LAYER_NORM_EPSILON, Dimensions
from fairseq_aiayn.nn.transformer import DecoderLayer, EncoderLayer, Transformer
from fairseq_aiayn.text import read_json, whole_folder

if TYPE_CHECKING:
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

SOURCE, TARGET = "vocab.json", "target_vocab.json"
USE = """This directory is for transformers. MarianMTModel has layer norms with ε = 1e-5,
and its search divides log P by |Y|^α; `load` sets this model's ε = {epsilon:g} and
((5 + |Y|)/6)^α. The maximum length is one for a batch, and at it the end token costs nothing.

    from fairseq_aiayn.inference.marian import load
    translator = load("THIS_FOLDER")
    print(translator.translate(["A sentence."]))
"""


def write_marian(model: Model, path: Path) -> None:
    """Write a directory that MarianMTModel.from_pretrained loads; it appears whole or not at all.

    Raises ValueError if `path` exists or Marian cannot be this model, and OSError if a file cannot
    be written.
    """
    require_marian(model)
    marian = marian_model(model)
    model = replace(model, config=replace(model.config, precision="float32"))
    with whole_folder(path) as part, saving_weights(path):
        marian.save_pretrained(part)
        for name, vocabulary in ((SOURCE, model.source), (TARGET, model.target)):
            content = json.dumps(vocabulary.number, ensure_ascii=False)
            (part / name).write_text(f"{content}\n", encoding="utf-8")
        copy_pieces_file(model, part)
        if model.config.text.pieces == WORD_PIECES:
            _write_tokenizer(model.config, part)
        card = model_card(model, USE.format(epsilon=LAYER_NORM_EPSILON))
        (part / "README.md").write_text(card, encoding="utf-8")
        write_config(model.config, part / OF_OTHERS)


def load(path: str | Path) -> MarianTranslator:
    """Load a directory that `write_marian` wrote; raises OSError or ValueError for one that cannot
    be used."""
    return MarianTranslator(Path(path))


class MarianTranslator:
    """transformers' model and search, with this model's ε and length penalty: text in, text out."""

    def __init__(self, path: Path):
        self.config = read_config(path / OF_OTHERS)
        pieces_file = require_unchanged(path, self.config)
        from transformers import MarianMTModel

        self.model = MarianMTModel.from_pretrained(path).eval()
        for module in self.model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = LAYER_NORM_EPSILON
        self.model.generation_config.length_penalty = LengthPenalty(self.config.search.alpha)
        self.source, self.target = (read_numbers(path / name) for name in (SOURCE, TARGET))
        self.cut = self.config.text.cutter(self.config.source_lang, pieces_file)
        self.join = self.config.text.joiner(self.config.target_lang)

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Return the best translation of each sentence; none may be empty.

        Sources are padded on the right, because Marian counts positions from the first column.
        """
        rows = [torch.tensor(self.source.numbers(self.cut(sentence))) for sentence in sentences]
        batch = pad_sequence(rows, batch_first=True, padding_value=PADDING)
        longest = batch.size(1) + self.config.search.extra_length
        found = self.model.generate(batch, attention_mask=batch.ne(PADDING), max_new_tokens=longest)
        return [
            self.join([piece for piece in self.target.pieces(row) if piece != SPECIAL[PADDING]])
            for row in found.tolist()
        ]


def read_numbers(path: Path) -> Vocabulary:
    """Read a vocabulary from a JSON object of the number of each type."""
    numbers = cast("dict[str, int]", read_json(path))
    types = {number: piece for piece, number in numbers.items()}
    return Vocabulary(tuple(types.get(number, "") for number in range(max(types) + 1)))


class LengthPenalty(float):
    """α of lp(Y) = ((5 + |Y|)/6)^α, where transformers computes |Y| ** α."""

    def __rpow__(self, length: float, _modulo: None = None, /) -> Any:  # as of float
        return ((5 + length) / 6) ** float(self)


def require_marian(model: Model) -> None:
    """Raise ValueError, with the reason, if Marian cannot compute what this model computes."""
    require_task(model.config, TRANSLATION, f"Marian: {model.name}")
    sizes = model.config.sizes
    if model.config.learned_lengths is not None:
        raise ValueError(f"Marian: {model.name}: expected sinusoids, got learned positions")
    if sizes.d_model % sizes.h or max(sizes.d_k, sizes.d_v) * sizes.h > sizes.d_model:
        raise ValueError(
            f"Marian: {model.name}: expected d_k and d_v of at most d_model/h, a whole number, got "
            f"d_model {sizes.d_model}, h {sizes.h}, d_k {sizes.d_k}, d_v {sizes.d_v}"
        )


def marian_model(model: Model) -> MarianMTModel:
    """Return a MarianMTModel that computes the same as a model that `require_marian` accepts.

    Marian's layer norms have ε = 1e-5, and its configuration has no name for it.
    """
    from transformers import MarianMTModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    marian = MarianMTModel(marian_config(model)).eval()
    own = dict(marian_weights(model.transformer, model.config.sizes))
    if model.config.sharing == "all":
        own["model.shared.weight"] = own["lm_head.weight"]
    marian.load_state_dict(marian.state_dict() | own)  # keeps Marian's own sinusoids
    marian.generation_config = generation_config(model.config)
    return marian


def marian_config(model: Model) -> MarianConfig:
    """Return Marian's configuration with the sizes of a model."""
    from transformers import MarianConfig

    sizes, sharing = model.config.sizes, model.config.sharing
    return MarianConfig(
        vocab_size=len(model.source),
        decoder_vocab_size=len(model.target),
        max_position_embeddings=longest_sequence(model.config) + 1,
        encoder_layers=sizes.N,
        decoder_layers=sizes.N,
        encoder_ffn_dim=sizes.d_ff,
        decoder_ffn_dim=sizes.d_ff,
        encoder_attention_heads=sizes.h,
        decoder_attention_heads=sizes.h,
        d_model=sizes.d_model,
        dropout=sizes.P_drop,
        attention_dropout=sizes.attention_dropout,
        activation_function="relu",
        scale_embedding=True,
        decoder_start_token_id=END,
        pad_token_id=PADDING,
        eos_token_id=END,
        forced_eos_token_id=None,  # belongs to the search
        share_encoder_decoder_embeddings=sharing == "all",
        tie_word_embeddings=sharing != "none",
    )


def generation_config(config: Config) -> GenerationConfig:
    """Return the search of section 6.1, as far as transformers has it.

    transformers divides log P by |Y|^α; `load` makes that the paper's ((5 + |Y|)/6)^α. The longest
    output is one for a batch.
    """
    from transformers import GenerationConfig

    is_beam = config.search.beam > 1  # otherwise the two are refused
    return GenerationConfig(
        num_beams=config.search.beam,
        length_penalty=config.search.alpha if is_beam else None,
        early_stopping="never" if is_beam else None,  # when no other output can become the best
        min_new_tokens=1,
        max_new_tokens=longest_sequence(config),
        suppress_tokens=[PADDING],
        forced_eos_token_id=END,
        decoder_start_token_id=END,
        pad_token_id=PADDING,
        eos_token_id=END,
    )


def marian_weights(transformer: Transformer, sizes: Dimensions) -> Iterator[tuple[str, Tensor]]:
    """Yield Marian's parameters by their names; `transformer` has sinusoids."""
    d_model = sizes.d_model  # in Marian's vectors, all sines come first
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
    decoder = transformer.decoder
    yield "model.encoder.embed_tokens.weight", transformer.encoder.embedding.weight[:, order]
    yield "model.decoder.embed_tokens.weight", decoder.embedding.weight[:, order]
    yield "lm_head.weight", decoder.projection.weight[:, order]
    for side, stack in (("encoder", transformer.encoder), ("decoder", decoder)):
        layers = cast("list[EncoderLayer | DecoderLayer]", stack.layers)
        for number, layer in enumerate(layers):
            for name, weight in layer_weights(layer, sizes, order):
                yield f"model.{side}.layers.{number}.{name}", weight


def layer_weights(
    layer: EncoderLayer | DecoderLayer, sizes: Dimensions, order: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters of a layer by Marian's names."""
    attentions: dict[str, MultiHeadAttention] = {"self_attn": layer.self_attention}
    norms = {
        "self_attn_layer_norm": layer.self_attention_norm,
        "final_layer_norm": layer.feed_forward_norm,
    }
    if isinstance(layer, DecoderLayer):
        attentions["encoder_attn"] = layer.cross_attention
        norms["encoder_attn_layer_norm"] = layer.cross_attention_norm
    for name, attention in attentions.items():
        for projection, weight in projection_weights(attention, sizes, order):
            yield f"{name}.{projection}", weight
    for name, norm in norms.items():
        yield f"{name}.weight", norm.norm.weight[order]
        yield f"{name}.bias", norm.norm.bias[order]
    network = layer.feed_forward
    yield "fc1.weight", network.W_1.weight[:, order]
    yield "fc1.bias", network.W_1.bias
    yield "fc2.weight", network.W_2.weight[order]
    yield "fc2.bias", network.W_2.bias[order]


def projection_weights(
    own: MultiHeadAttention, sizes: Dimensions, order: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """Yield the four projections [d_model, d_model] of Marian's attention and their biases, 0.

    Marian divides QKᵀ by √(d_model/h), so W^Q makes up for a smaller d_k.
    """
    size = sizes.d_model // sizes.h
    Q, K, V = own.W_QKV.weight[:, order].split(own.projection_sizes)
    yield "q_proj.weight", wider_heads(Q * math.sqrt(size / sizes.d_k), sizes.h, size)
    yield "k_proj.weight", wider_heads(K, sizes.h, size)
    yield "v_proj.weight", wider_heads(V, sizes.h, size)
    yield "out_proj.weight", wider_heads(own.W_O.weight[order].T, sizes.h, size).T
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        yield f"{name}.bias", torch.zeros(sizes.d_model)


def _write_tokenizer(config: Config, folder: Path) -> None:
    """Write the files of MarianTokenizer, which cuts text into word pieces but not byte pairs."""
    from transformers import MarianTokenizer

    file = str(folder / PIECES_FILES[WORD_PIECES])
    MarianTokenizer(
        source_spm=file,
        target_spm=file,
        vocab=str(folder / SOURCE),
        target_vocab_file=str(folder / TARGET),
        separate_vocabs=True,
        source_lang=config.source_lang,
        target_lang=config.target_lang,
        model_max_length=LONGEST,
    ).save_pretrained(folder)
