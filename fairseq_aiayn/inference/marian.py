"""The vocabularies beside an exported model, and the Python code of its model card that makes plain
text numbers and back."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fairseq_aiayn.inference.ctranslate2 import longest_sequence, wider_heads
from fairseq_aiayn.inference.engine import LONGEST
from fairseq_aiayn.inference.folder import (
    BYTE_PAIRS,
    END,
    PADDING,
    PIECES_FILES,
    UNKNOWN,
    WORD_PIECES,
    Config,
    Model,
    model_card,
    safetensors_writes,
)
from fairseq_aiayn.nn.attention import MultiHeadAttention
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.text import optional, whole_folder

if TYPE_CHECKING:
    from transformers import GenerationConfig, MarianConfig, MarianMTModel
from fairseq_aiayn.nn.layers import LAYER_NORM_EPSILON

SOURCE, TARGET = "vocab.json", "target_vocab.json"

TEXT_CODE = """    import json

    from fairseq_aiayn.inference.folder import TextProcessing

    text = {text!r}
    cut = text.cutter({source!r}, folder / "{pieces}")
    join = text.joiner({target!r})
    source = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    target = json.loads((folder / "target_vocab.json").read_text(encoding="utf-8"))
    types = {{number: one for one, number in target.items() if number not in ({end}, {padding})}}
"""


def text_values(config: Config) -> dict[str, object]:
    """Return what TEXT_CODE, and code that follows it, has in braces."""
    return {
        "text": config.text,
        "source": config.source_lang,
        "target": config.target_lang,
        "pieces": PIECES_FILES[config.text.pieces],
        "end": END,
        "padding": PADDING,
        "unknown": UNKNOWN,
        "extra": config.search.extra_length,
    }


def write_vocabularies(model: Model, folder: Path) -> None:
    """Write the number of each type of the two vocabularies."""
    for name, vocabulary in ((SOURCE, model.source), (TARGET, model.target)):
        content = json.dumps(vocabulary.number, ensure_ascii=False)
        (folder / name).write_text(f"{content}\n", encoding="utf-8")


# A translation model as a directory of Hugging Face's MarianMTModel, whose layers are the paper's.
#
# Marian's sinusoids are those of section 3.5 with all sines before all cosines. So every vector
# of d_model components is stored in the order `sines_first`; layer norms and residual connections
# do not depend on the order. Marian's heads have d_model/h components: smaller ones get zeros.


ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
NORMS = {
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward_norm": "final_layer_norm",
}


def to_marian(model: Model, told: Mapping[str, str], path: Path) -> None:
    """Write a directory that MarianMTModel.from_pretrained loads; it appears whole or not at all.

    Raises ValueError if `path` exists, transformers is missing, or Marian cannot be this model, and
    OSError if a file cannot be written.
    """
    require_marian(model.config)
    marian = marian_model(model)
    config = replace(model.config, told=dict(told), precision="float32")
    card = model_card(
        config, sum(one.numel() for one in model.transformer.parameters()), how_to_use(config)
    )
    with whole_folder(path) as part:
        with safetensors_writes(part):
            marian.save_pretrained(part)
        _write_text_files(model, part)
        (part / "README.md").write_text(card, encoding="utf-8")


def require_marian(config: Config) -> None:
    """Raise ValueError, with the reason, if Marian cannot compute what this model computes."""
    sizes = config.sizes
    if config.task != "translation":
        raise ValueError(
            "Marian: the model must be a translation model, transformers builds no trees"
        )
    if config.learned_lengths is not None:
        raise ValueError(
            "Marian: positions must be sinusoids, which Marian computes; they are learned"
        )
    if sizes.d_model % sizes.h or max(sizes.d_k, sizes.d_v) * sizes.h > sizes.d_model:
        raise ValueError(
            "Marian: d_k and d_v must be at most d_model/h, a whole number, as Marian's heads "
            f"have; d_model is {sizes.d_model}, h {sizes.h}, d_k {sizes.d_k}, d_v {sizes.d_v}"
        )


def marian_model(model: Model) -> MarianMTModel:
    """Return a MarianMTModel that computes the same as a model that `require_marian` accepts.

    Marian's layer norms have ε = 1e-5, and its configuration has no name for it. Raises ValueError
    if transformers is missing.
    """
    _leave_out_a_broken_torchaudio()
    with optional("transformers"):
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

    It divides log P by |Y|^α, not by ((5 + |Y|)/6)^α, as the code in the model card makes it do. It
    has one limit for a batch.
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
    order = sines_first(sizes.d_model)
    decoder = transformer.decoder
    yield "model.encoder.embed_tokens.weight", transformer.encoder.embedding.weight[:, order]
    yield "model.decoder.embed_tokens.weight", decoder.embedding.weight[:, order]
    yield "lm_head.weight", decoder.projection.weight[:, order]
    for side, stack in (("encoder", transformer.encoder), ("decoder", decoder)):
        for number, layer in enumerate(stack.layers):
            name = f"model.{side}.layers.{number}"
            for one, module in layer.named_children():
                if one in ATTENTIONS:
                    for part, weight in projection_weights(module, sizes, order):
                        yield f"{name}.{ATTENTIONS[one]}.{part}", weight
                elif one in NORMS:
                    yield f"{name}.{NORMS[one]}.weight", module.norm.weight[order]
                    yield f"{name}.{NORMS[one]}.bias", module.norm.bias[order]
            network = layer.feed_forward
            yield f"{name}.fc1.weight", network.W_1.weight[:, order]
            yield f"{name}.fc1.bias", network.W_1.bias
            yield f"{name}.fc2.weight", network.W_2.weight[order]
            yield f"{name}.fc2.bias", network.W_2.bias[order]


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


def sines_first(d_model: int) -> Tensor:
    """Return the places of the components of the paper's vectors in Marian's order, [d_model]."""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def _write_text_files(model: Model, part: Path) -> None:
    """Write the vocabularies, and what cuts text: MarianTokenizer's files for word pieces, the
    codes of byte pairs, which it cannot use."""
    write_vocabularies(model, part)
    if model.config.text.pieces == BYTE_PAIRS:
        shutil.copyfile(model.pieces_file, part / "codes")
    if model.config.text.pieces == WORD_PIECES:
        from transformers import MarianTokenizer

        for side in ("source", "target"):
            shutil.copyfile(model.pieces_file, part / f"{side}.spm")
        MarianTokenizer(
            source_spm=str(part / "source.spm"),
            target_spm=str(part / "target.spm"),
            vocab=str(part / SOURCE),
            target_vocab_file=str(part / TARGET),
            separate_vocabs=True,
            source_lang=model.config.source_lang,
            target_lang=model.config.target_lang,
            model_max_length=LONGEST,
        ).save_pretrained(part)


def _leave_out_a_broken_torchaudio() -> None:
    """transformers imports torchaudio wherever it is installed; fairseq asks for it, and its CUDA
    build fails beside a CPU build of torch."""
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError):
        sys.modules["torchaudio"] = None  # for Python, this package is not there


# How to use a directory of MarianMTModel: the Python code in its README.md.


DIFFERENCES = """This directory is for transformers. MarianMTModel has layer norms with ε = 1e-5,
and its search divides log P by |Y|^α; the code below sets this model's {epsilon:g} and
((5 + |Y|)/6)^α. The maximum length is one for a batch, and at it the end token costs nothing.
Sources must be padded on the right. Empty sentences must be left out.

"""

MODEL = """    import sys
    from pathlib import Path

    sys.modules["torchaudio"] = None  # transformers stops if it is there and cannot be loaded
    import torch
    from transformers import MarianMTModel

    folder = Path("THIS_FOLDER")
    model = MarianMTModel.from_pretrained(folder).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = {epsilon:g}

    class LengthPenalty(float):
        def __rpow__(self, length):  # transformers divides log P by length ** penalty
            return ((5 + length) / 6) ** float(self)

    model.generation_config.length_penalty = LengthPenalty({alpha:g})
"""

OWN_TOKENIZER = """
    from transformers import MarianTokenizer

    tokenizer = MarianTokenizer.from_pretrained(folder)

    def translate(sentences):
        batch = tokenizer(sentences, return_tensors="pt", padding=True)
        longest = batch.input_ids.size(1) + {extra}
        found = model.generate(**batch, max_new_tokens=longest)
        return tokenizer.batch_decode(found, skip_special_tokens=True)
"""

OUR_PIECES = """
    def translate(sentences):
        pieces = [cut(one) + ["</s>"] for one in sentences]
        rows = [torch.tensor([source.get(piece, {unknown}) for piece in one]) for one in pieces]
        batch = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value={padding})
        longest = batch.size(1) + {extra}
        found = model.generate(batch, attention_mask=batch.ne({padding}), max_new_tokens=longest)
        return [join([types[n] for n in one if n in types]) for one in found.tolist()]
"""


def how_to_use(config: Config) -> str:
    """Return the part of the model card that says how transformers runs the model."""
    is_own = config.text.pieces == WORD_PIECES
    text = OWN_TOKENIZER if is_own else f"\n{TEXT_CODE}{OUR_PIECES}"
    return f"{DIFFERENCES}{MODEL}{text}".format(
        epsilon=LAYER_NORM_EPSILON, alpha=config.search.alpha, **text_values(config)
    )
