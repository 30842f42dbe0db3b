"""How to use a directory of MarianMTModel: the Python code in its README.md."""

from __future__ import annotations

from fairseq_aiayn.exchange.text_files import TEXT_CODE, text_values
from fairseq_aiayn.model_folder.config import Config
from fairseq_aiayn.model_folder.text import WORD_PIECES
from fairseq_aiayn.nn.residual import LAYER_NORM_EPSILON

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
