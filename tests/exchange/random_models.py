"""Small models with random weights, and what their exported directories say of themselves."""

from __future__ import annotations

import io
import runpy
from dataclasses import replace
from pathlib import Path

import torch
from subword_nmt.learn_bpe import learn_bpe

from fairseq_aiayn.corpus.subwords import learn
from fairseq_aiayn.inference.folder import (
    BYTE_PAIRS,
    END,
    FORMAT,
    NONE,
    PADDING,
    SPECIAL,
    WORD_PIECES,
    Config,
    Model,
    TextProcessing,
    Vocabulary,
)
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer
from fairseq_aiayn.paper import Decoding

BASE = Dimensions(N=2, d_model=32, d_ff=48, h=4, d_k=8, d_v=8, P_drop=0.1)
WORDS = tuple(f"w{number}" for number in range(30))
GREEDY = Decoding(beam=1, alpha=0.0, extra_length=6)  # where lengths have no influence
LINES = ["The cat sat on the mat.", "A dog, a cat and a bird!", "Who sat there?", "the mat"]


def random_model(
    sizes: Dimensions = BASE,
    sharing: str = "all",
    search: Decoding = GREEDY,
    text: TextProcessing | None = None,
    types: tuple[str, ...] = WORDS,
    pieces_file: Path | None = None,
    learned_lengths: tuple[int, int] | None = None,
) -> Model:
    """A model none of whose parameters has a special value, such as a bias of 0, and most of whose
    outputs end before the maximum length, where transformers takes the end token as certain."""
    source = Vocabulary(SPECIAL + types)
    target = source if sharing == "all" else Vocabulary(SPECIAL + types[:-7])
    transformer = create_transformer(
        sizes, len(source), len(target), PADDING, sharing, learned_lengths
    ).eval()
    for name, parameter in transformer.named_parameters():
        noise = 0.05 if "embedding" in name else 0.1
        parameter.requires_grad_(False).add_(noise * torch.randn_like(parameter))
    last = transformer.decoder.layers[-1].feed_forward_norm.norm
    last.bias.add_(2 * transformer.decoder.projection.weight[END])
    text = text or TextProcessing(NONE)
    config = Config(FORMAT, "translation", "base", "en", "de", sizes, sharing, search, text)
    config = replace(config, learned_lengths=learned_lengths and list(learned_lengths))
    return Model(config, transformer, source, target, pieces_file)


def readme_code(folder: Path) -> dict:
    """Run the Python code of the directory's README.md; return its names."""
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    code = "\n".join(line[4:] for line in lines if line.startswith("    ") or not line)
    script = folder.with_suffix(".py")
    script.write_text(code.replace("THIS_FOLDER", str(folder)), encoding="utf-8")
    return runpy.run_path(str(script))


def cut_text(kind: str, directory: Path) -> tuple[Path | None, tuple[str, ...]]:
    """The file that cuts LINES, and the types of all but the last of them."""
    file = directory / kind
    if kind == WORD_PIECES:
        file.write_bytes(learn(LINES * 10, 30))
    elif kind == BYTE_PAIRS:
        with file.open("w", encoding="utf-8") as output:
            learn_bpe(io.StringIO("\n".join(LINES)), output, 20)
    cut = TextProcessing(kind, lowercase=True).cutter("en", file)
    return file, tuple(dict.fromkeys(piece for line in LINES[:-1] for piece in cut(line)))
