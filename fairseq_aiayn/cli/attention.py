"""The command that draws attention and positions."""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fairseq_aiayn.cli.options import add_model, find_model, read_model
from fairseq_aiayn.console import note, one_line
from fairseq_aiayn.files import write_whole
from fairseq_aiayn.inference.description import END, LONGEST, SPECIAL
from fairseq_aiayn.inference.engine import pieces_of
from fairseq_aiayn.inference.export import Checkpoint, OtherModel

if TYPE_CHECKING:
    from fairseq_aiayn.attention_maps.weights import AttentionMap
    from fairseq_aiayn.inference.pytorch import Translator

KINDS = ("encoder", "decoder", "cross")
PICTURES, PAGE = (".png", ".svg", ".pdf"), ".html"
START = "<s>"  # shown as the first key of the decoder, where the model reads </s>


def declare_attention(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn attention`."""
    add_model(parser, has_default=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--source", metavar="SENTENCE", help="the source sentence")
    what.add_argument(
        "--positions",
        action="store_true",
        help="draw positional encodings and their dot products instead; if the checkpoint has "
        "learned ones (row E), draw them beside the sinusoids",
    )
    parser.add_argument("--target", metavar="SENTENCE", help="its translation")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help=".png, .svg, .pdf or .html"
    )
    shown = parser.add_argument_group("what is drawn")
    shown.add_argument("--kind", choices=KINDS, help="default: encoder; for a page, all three")
    shown.add_argument(
        "--layer",
        type=int,
        metavar="N",
        help="from 1; default: of cross the last, else the second to last, as in Figures 3-5",
    )
    shown.add_argument("--heads", type=heads, metavar="1,2", help="from 1; default: all")
    shown.add_argument(
        "--word",
        help="show only what this word attends to, at each occurrence (on a page: at the first)",
    )
    shown.add_argument(
        "--merge",
        action="store_true",
        help="merge pieces into words: sum the weights over the pieces attended to, average them "
        "over the pieces that attend",
    )


def heads(text: str) -> list[int]:
    """Return the numbers of a list such as 1,2; argparse names this function in its error."""
    return [int(number) for number in text.split(",")]


def run_attention(arguments: argparse.Namespace) -> None:
    """draw what a model's heads attend to (Figures 3-5), or its positions (section 3.5)

    The suffix of --output chooses the format. A picture (.png, .svg, .pdf) has lines between the
    words, of one layer. A page for a browser (.html) has lines and heat maps of all layers and
    heads; it opens with the lines chosen here, by default those of the longest word of the
    translation to the source.

    --kind says what attends to what: encoder, source to source; decoder, target to target; cross,
    target to source. Where these need a target and --target gives none, the command prints the
    model's own translation and uses that. Each row of the decoder is labelled with the word that it
    predicts. The columns are the words that the decoder reads; the first is <s>.

    Stock Transformers of fairseq are looked at, too, with fairseq's own search for --target.

    A run of the recipes and a model folder know how their text is cut into pieces. With
    --checkpoint, --bpe-codes cuts it into Moses tokens, then byte pairs, and --sentencepiece-model
    into word pieces. Without either option, it is cut as a recipe noted beside --data-bin, or must
    already be in pieces.

    examples:
      aiayn attention --source "Select the cells." --output heads.html
      aiayn attention --source "The window and its size are kept." --word its --output its.png
      aiayn attention en-de --source "..." --kind cross --merge --output cross.svg
      aiayn attention --checkpoint average.pt --data-bin bin --source "..." --output heads.html
      aiayn attention --positions --output sinusoids.png
      aiayn attention exp/table3/e_learned-1 --positions --output learned.png
    """
    path: Path = arguments.output
    formats = PICTURES if arguments.positions else (*PICTURES, PAGE)
    if path.suffix.lower() not in formats:
        raise ValueError(f"--output must end in {', '.join(formats)}, got {path}")
    if arguments.positions:
        _draw_positions(arguments)
    else:
        _show_sentence(arguments)
    print(path)


def _draw_positions(arguments: argparse.Namespace) -> None:
    from fairseq_aiayn.attention_maps.picture import draw_positions, position_tables, save_picture

    is_given = arguments.model or arguments.checkpoint
    tables = position_tables(read_model(find_model(arguments)).transformer if is_given else None)
    save_picture(draw_positions(tables), arguments.output)


def _show_sentence(arguments: argparse.Namespace) -> None:
    translator = _read_translator(arguments)
    is_page = arguments.output.suffix.lower() == PAGE
    kind = arguments.kind or (None if is_page else KINDS[0])
    sentences: list[Sequence[str]] = [pieces_of(arguments.source, translator.cut_source, LONGEST)]
    if arguments.target is not None:
        sentences.append(pieces_of(arguments.target, translator.cut_target, LONGEST))
    elif kind != KINDS[0]:
        ((best,),) = translator.search([arguments.source])
        sentences.append(best.pieces)
        arguments.target = best.text  # what the page shows
        print(one_line(f"translation: {best.text}"))
    maps = attention_maps(translator, sentences)
    _write_output([shown for shown in maps if kind in (None, shown.kind)], arguments)


def _read_translator(arguments: argparse.Namespace) -> Translator:
    """Return the model that is given, on the CPU: ours, or a stock one that runs in fairseq."""
    from fairseq_aiayn.inference.pytorch import Translator

    given = find_model(arguments)
    try:
        return Translator(read_model(given), device="cpu")
    except OtherModel:
        from fairseq_aiayn.plugin.stock_models import StockTranslator

        for tells_too_much in ("fairseq", "hydra", "matplotlib", "PIL"):
            logging.getLogger(tells_too_much).setLevel(logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what fairseq uses of hydra
            return cast(Translator, StockTranslator(cast(Checkpoint, given)))


def attention_maps(
    translator: Translator, sentences: Sequence[Sequence[str]]
) -> list[AttentionMap]:
    """Return the attention maps of the pieces of a source and of its translation, or only the
    encoder's without one; name pieces that are not in the dictionary on standard error. Raises
    ValueError for a sentence without words."""
    from fairseq_aiayn.attention_maps.weights import AttentionMap

    numbers, labels = [], []
    for pieces, vocabulary in zip(sentences, (translator.source, translator.target), strict=False):
        if not pieces:
            raise ValueError("expected a sentence with words, got none")
        for piece in dict.fromkeys(piece for piece in pieces if piece not in vocabulary.number):
            note(f"aiayn attention: {piece!r} is not in the dictionary, the model reads <unk>")
        numbers.append(vocabulary.numbers(pieces))
        labels.append((*shown_pieces(translator, pieces), SPECIAL[END]))
    weights, source = translator.attention_of(*numbers), labels[0]
    maps = [AttentionMap("encoder", source, source, weights["encoder"])]
    for target in labels[1:]:
        keys = (START, *target[:-1])
        maps.append(AttentionMap("decoder", target, keys, weights["decoder"]))
        maps.append(AttentionMap("cross", target, source, weights["cross"]))
    return maps


def shown_pieces(translator: Translator, pieces: Sequence[str]) -> tuple[str, ...]:
    """Return pieces as they are shown: Moses writes &apos; for '."""
    has_escapes = translator.config.text.pieces == "byte_pairs"
    return tuple(map(unescape, pieces) if has_escapes else pieces)


def _write_output(maps: Sequence[AttentionMap], arguments: argparse.Namespace) -> None:
    """Write a page, which opens with the last of the maps that has the word, or a picture."""
    from fairseq_aiayn.attention_maps.weights import longest_word, merge_words, occurrences, select

    is_page, word = arguments.output.suffix.lower() == PAGE, arguments.word
    first = next((shown for shown in reversed(maps) if occurrences(word, shown)), maps[-1])
    shown = merge_words(first) if arguments.merge else first
    word = longest_word(shown) if is_page and word is None else word
    selection = select(shown, arguments.layer, arguments.heads, word)
    if not is_page:
        # matplotlib is an extra, which a page does not need
        from fairseq_aiayn.attention_maps.picture import draw_lines, save_picture

        with warnings.catch_warnings(record=True) as said:  # one of each character without a font
            save_picture(draw_lines(selection), arguments.output)
        boxes = [each.message for each in said if "Glyph" in str(each.message)]
        if boxes and arguments.output.suffix.lower() != ".svg":  # is shown in its reader's fonts
            note(f"aiayn attention: {boxes[0]} Install one that has it, or write .html or .svg")
        return
    from fairseq_aiayn.attention_maps.page import attention_page, view_of

    start = view_of(selection, "whole" if arguments.merge else "pieces")
    page = attention_page(maps, f"Attention: {arguments.source}", start, arguments.target or "")
    write_whole(arguments.output, page)
