"""What the heads of a trained model attend to in a sentence, with labels (Figures 3-5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape

from fairseq_aiayn.attention_maps.weights import AttentionMap
from fairseq_aiayn.inference.engine import Translator
from fairseq_aiayn.inference.folder import BYTE_PAIRS, END, SPECIAL, Vocabulary

START = "<s>"  # shown as the first key of the decoder, where the model reads </s>


@dataclass(frozen=True)
class Sentence:
    """The pieces of a text, with </s>, as they are shown; their numbers; and the pieces that are
    not in the vocabulary."""

    pieces: tuple[str, ...]
    numbers: tuple[int, ...]
    unknown: tuple[str, ...]


def source_sentence(translator: Translator, text: str) -> Sentence:
    """Cut a source text into the model's pieces; raises ValueError if it has no words."""
    return _sentence(translator, translator.cut_source(text), translator.source)


def target_sentence(translator: Translator, text: str) -> Sentence:
    """Cut a given translation into the model's pieces; raises ValueError if it has no words."""
    return _sentence(translator, translator.cut_target(text), translator.target)


def translated_sentence(translator: Translator, source: str) -> Sentence:
    """Return the best translation of the paper's beam search (section 6.1)."""
    ((best,),) = translator.search([source])
    return _sentence(translator, best.pieces, translator.target)


def attention_maps(
    translator: Translator, source: Sentence, target: Sentence | None
) -> dict[str, AttentionMap]:
    """Return the attention maps by kind; without a target, only that of the encoder.

    A query of the decoder is labelled with the token written there, a key with the token read
    there.
    """
    weights = translator.attention_of(source.numbers, target.numbers if target else ())
    maps = [AttentionMap("encoder", source.pieces, source.pieces, weights["encoder"])]
    if target is not None:
        keys = (START, *target.pieces[:-1])
        maps.append(AttentionMap("decoder", target.pieces, keys, weights["decoder"]))
        maps.append(AttentionMap("cross", target.pieces, source.pieces, weights["cross"]))
    return {shown.kind: shown for shown in maps}


def _sentence(translator: Translator, pieces: Sequence[str], vocabulary: Vocabulary) -> Sentence:
    if not pieces:
        raise ValueError("expected a sentence with words, got none")
    unknown = dict.fromkeys(piece for piece in pieces if piece not in vocabulary.number)
    has_escapes = translator.config.text.pieces == BYTE_PAIRS  # Moses writes &apos; for '
    shown = map(unescape, pieces) if has_escapes else pieces
    return Sentence((*shown, SPECIAL[END]), tuple(vocabulary.numbers(pieces)), tuple(unknown))
