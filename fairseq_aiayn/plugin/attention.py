"""Show what the heads of a trained translation model attend to in a sentence."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line
from torch import Tensor

from fairseq_aiayn.inspection.attention_map import AttentionMap
from fairseq_aiayn.inspection.attention_weights import all_attention_weights
from fairseq_aiayn.model_folder.text import text_of_files
from fairseq_aiayn.plugin.guards.error_messages import explained
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.task import AiaynTranslationConfig, AiaynTranslationTask

START = "<s>"  # shown as the first key of the decoder, where fairseq has its </s>


@dataclass(frozen=True)
class Segmenter:
    """How text is cut: byte pairs after Moses tokenization, with or without normalization (codes);
    word pieces (model); or, without either file, at spaces: the text is in pieces already."""

    codes: Path | None = None
    model: Path | None = None
    normalize: bool = False

    def shown(self, piece: str) -> str:
        """Return a piece as a reader expects it, without Moses' escapes such as &apos;."""
        return unescape(piece) if self.codes else piece

    def cut(self, text: str, language: str) -> str:
        """Return the pieces separated by spaces; raises OSError or ValueError for a bad file."""
        processing, file = text_of_files(self.codes, self.model, self.normalize)
        return " ".join(processing.cutter(language, file)(text)) if file else text


@dataclass(frozen=True)
class Sentence:
    """The pieces of a text, with </s>, as they are shown; their numbers [L]; and the pieces that
    are not in the dictionary."""

    pieces: tuple[str, ...]
    tokens: Tensor
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Translator:
    """A model, its task, which has the dictionaries and the paper's search, and its segmenter."""

    task: AiaynTranslationTask
    model: AiaynModel
    segmenter: Segmenter

    def source(self, text: str) -> Sentence:
        """Cut a source text into the model's pieces; raises ValueError if it has no words."""
        return self._read(text, self.task.cfg.source_lang, self.task.source_dictionary, "source")

    def target(self, text: str) -> Sentence:
        """Cut a given translation into the model's pieces; raises ValueError if it has no words."""
        return self._read(text, self.task.cfg.target_lang, self.task.target_dictionary, "target")

    def _read(self, text: str, language: str, dictionary: Dictionary, side: str) -> Sentence:
        pieces = tokenize_line(self.segmenter.cut(text, language))
        if not pieces:
            raise ValueError(f"the {side} must have words, got {text!r}")
        line = " ".join(pieces)
        tokens = dictionary.encode_line(line, add_if_not_exist=False).long()
        unknown = [piece for piece in pieces if dictionary.index(piece) == dictionary.unk()]
        end = dictionary[dictionary.eos()]
        shown = map(self.segmenter.shown, pieces)
        return Sentence((*shown, end), tokens, tuple(dict.fromkeys(unknown)))

    def translate(self, source: Sentence) -> Sentence:
        """Return the best translation of the paper's beam search (section 6.1)."""
        generator = self.task.build_generator([self.model], Namespace())
        sample = {"net_input": {"src_tokens": source.tokens[None]}}
        tokens = generator.generate([self.model], sample)[0][0]["tokens"]
        pieces = (self.task.target_dictionary[token] for token in tokens.tolist())
        return Sentence(tuple(map(self.segmenter.shown, pieces)), tokens, ())

    def maps(self, source: Sentence, target: Sentence | None) -> dict[str, AttentionMap]:
        """Return the attention maps by kind; without a target, only that of the encoder.

        A query of the decoder is labelled with the token written there, a key with the token read
        there.
        """
        start = torch.tensor([self.task.target_dictionary.eos()])
        read = start if target is None else torch.cat([start, target.tokens[:-1]])
        weights = all_attention_weights(self.model, source.tokens, read)
        maps = [AttentionMap("encoder", source.pieces, source.pieces, weights["encoder"])]
        if target is not None:
            keys = (START, *target.pieces[:-1])
            maps.append(AttentionMap("decoder", target.pieces, keys, weights["decoder"]))
            maps.append(AttentionMap("cross", target.pieces, source.pieces, weights["cross"]))
        return {shown.kind: shown for shown in maps}


def load_translator(checkpoint: Path, data: Path, segmenter: Segmenter) -> Translator:
    """Load a checkpoint, and the dictionaries of the binarized data that it was trained on.

    Raises OSError or ValueError, with the name of the file, if a file is missing or unusable.
    """
    with explained():
        task = AiaynTranslationTask.setup_task(AiaynTranslationConfig(data=str(data)))
        (model,), _ = checkpoint_utils.load_model_ensemble([str(checkpoint)], task=task)
    if not isinstance(model, AiaynModel):
        raise ValueError(
            f"{checkpoint}: must be a checkpoint of an aiayn_* model, has a {type(model).__name__}"
        )
    return Translator(task, model, segmenter)
