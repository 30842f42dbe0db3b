"""A translation model as a directory of Hugging Face's MarianMTModel, whose layers are the paper's.

Marian's sinusoids are those of section 3.5 with all sines before all cosines. So every vector of
d_model components is stored in this order; layer norms and residual connections do not depend on
it. Marian's heads have d_model/h components: smaller ones get zeros.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from fairseq_aiayn.inference.folder import (
    END,
    LONGEST,
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
    read_text_processing,
    require_task,
    write_config,
)
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.layers import LAYER_NORM_EPSILON, Embedding, FeedForward
from fairseq_aiayn.nn.transformer import Transformer
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
    with whole_folder(path) as part:
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


class MarianTranslator:
    """transformers' model and search, with this model's ε and length penalty: text in, text out."""

    def __init__(self, directory: str | Path):
        """Raise OSError or ValueError for a directory that cannot be used."""
        from transformers import MarianMTModel

        path = Path(directory)
        self.config, self.cut, self.join = read_text_processing(path)
        self.model = MarianMTModel.from_pretrained(path).eval()
        for module in self.model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = LAYER_NORM_EPSILON
        self.model.generation_config.length_penalty = LengthPenalty(self.config.search.alpha)
        self.source, self.target = (read_numbers(path / name) for name in (SOURCE, TARGET))

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


load = MarianTranslator  # as the card says


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
    own = dict(marian_weights(model.transformer))
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


PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
NAMES = {  # of our modules in MarianMTModel, replaced in this order
    "decoder.projection": "lm_head",
    "encoder.": "model.encoder.",
    "decoder.": "model.decoder.",
    "embedding": "embed_tokens",
    "self_attention_norm.norm": "self_attn_layer_norm",
    "cross_attention_norm.norm": "encoder_attn_layer_norm",
    "feed_forward_norm.norm": "final_layer_norm",
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "feed_forward": "fc",
}


def marian_weights(transformer: Transformer) -> Iterator[tuple[str, Tensor]]:
    """Yield Marian's parameters by their names; `transformer` has sinusoids."""
    d_model = transformer.encoder.embedding.weight.size(1)
    # In Marian's vectors, all sines come first
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
    for name, module in transformer.named_modules(remove_duplicate=False):
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        if isinstance(module, MultiHeadAttention):
            for projection, weight in zip(PROJECTIONS, projections(module, order), strict=True):
                yield f"{name}.{projection}.weight", weight
                yield f"{name}.{projection}.bias", torch.zeros(d_model)
        elif isinstance(module, FeedForward):
            yield f"{name}1.weight", module.W_1.weight[:, order]
            yield f"{name}1.bias", module.W_1.bias
            yield f"{name}2.weight", module.W_2.weight[order]
            yield f"{name}2.bias", module.W_2.bias[order]
        elif isinstance(module, torch.nn.LayerNorm):
            yield f"{name}.weight", module.weight[order]
            yield f"{name}.bias", module.bias[order]
        elif isinstance(module, Embedding):
            yield f"{name}.weight", module.weight[:, order]


def projections(own: MultiHeadAttention, order: Tensor) -> tuple[Tensor, ...]:
    """Return the four projections [d_model, d_model] of Marian's attention.

    Marian divides QKᵀ by √(d_model/h), so W^Q makes up for a smaller d_k.
    """
    size, d_k = order.numel() // own.h, own.projection_sizes[0] // own.h
    Q, K, V, O = wide_projections(own, size)
    Q = Q * math.sqrt(size / d_k)
    return Q[:, order], K[:, order], V[:, order], O[order]


def wide_projections(ours: MultiHeadAttention, size: int) -> list[Tensor]:
    """Return W^Q, W^K and W^V [h·size, d_model] and W^O [d_model, h·size] of an attention, with
    zeros after the d_k or d_v components of each head."""
    wide = []
    for rows in (*ours.W_QKV.weight.split(ours.projection_sizes), ours.W_O.weight.T):
        heads = rows.unflatten(0, (ours.h, -1))
        wide.append(pad(heads, (0, 0, 0, size - heads.size(1))).flatten(0, 1))
    return [*wide[:3], wide[3].T]


def longest_sequence(config: Config) -> int:
    """Return how many positions a table of sinusoids gets: those of the longest source that we
    translate, of what an output may be longer, and of the end token."""
    return LONGEST + config.search.extra_length + 1


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
