"""The command that draws attention and positions."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fairseq_aiayn.cli.options import add_model, read_model, require_one_model
from fairseq_aiayn.paper import BASE
from fairseq_aiayn.settings import option

if TYPE_CHECKING:
    from fairseq_aiayn.attention_maps.weights import AttentionMap
    from fairseq_aiayn.inference.engine import Translator


KINDS = ("encoder", "decoder", "cross")
STYLES = ("lines", "heat")
PICTURES, PAGE = (".png", ".svg", ".pdf"), ".html"
OF_SENTENCES = ("source", "target", "kind", "layer", "heads", "word", "style", "merge")


def declare_attention(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `aiayn attention`."""
    add_model(parser)
    parser.add_argument("--source", metavar="SENTENCE", help="the source sentence")
    parser.add_argument("--target", metavar="SENTENCE", help="its translation")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help=".png, .svg, .pdf or .html"
    )
    _add_choices(parser.add_argument_group("what is drawn"))


def _add_choices(shown: argparse._ArgumentGroup) -> None:
    shown.add_argument("--kind", choices=KINDS, help="default: encoder; for a page, all three")
    shown.add_argument(
        "--layer",
        type=int,
        metavar="N",
        help="from 1; default: the second to last, as in Figures 3-5",
    )
    shown.add_argument("--heads", type=heads, metavar="1,2", help="from 1; default: all")
    shown.add_argument(
        "--word",
        help="show only what this word attends to, at each occurrence (on a page: at the first)",
    )
    shown.add_argument(
        "--style",
        choices=STYLES,
        help="of a page: lines between words (the default) or a heat map per head",
    )
    shown.add_argument(
        "--merge",
        action="store_true",
        default=None,
        help="merge pieces into words: sum the weights over the pieces attended to, average them "
        "over the pieces that attend",
    )
    shown.add_argument(
        "--positions",
        action="store_true",
        help="draw positional encodings and their dot products instead; if the checkpoint has "
        "learned ones (row E), draw them beside the sinusoids",
    )


def heads(text: str) -> list[int]:
    """Return the numbers of a list such as 1,2; argparse names this function in its error."""
    return [int(number) for number in text.split(",")]


def run_attention(arguments: argparse.Namespace) -> None:
    """draw what a model's heads attend to (Figures 3-5), or its positions (section 3.5)

    The suffix of --output chooses the format. A picture (.png, .svg, .pdf) has lines between the
    words, of one layer. A page for a browser (.html) has lines and heat maps of all layers and
    heads; it opens with the ones chosen here.

    --kind says what attends to what: encoder, source to source; decoder, target to target; cross,
    target to source. Without --target, the command prints the model's own translation and uses
    that. Each row of the decoder is labelled with the word that it predicts. The columns are the
    words that the decoder reads; the first is <s>.

    Stock Transformers of fairseq are looked at, too, with fairseq's own search for --target.

    A run of the recipes and a model folder know how their text is cut into pieces. With
    --checkpoint, --bpe-codes cuts it into Moses tokens, then byte pairs, and --sentencepiece-model
    into word pieces. Without either option, it is cut as a recipe noted beside --data-bin, or must
    already be in pieces.

    examples:
      aiayn attention exp/demo/aiayn-tiny-1 --source "It is late, but its light is on." \\
          --word its --output its.png
      aiayn attention en-de --source "..." --kind cross --merge --output cross.svg
      aiayn attention --checkpoint average.pt --data-bin bin --bpe-codes codes --normalize \\
          --source "..." --output attention.html
      aiayn attention --positions --output sinusoids.png
      aiayn attention exp/table3/e_learned-1 --positions --output learned.png
    """
    _check(arguments)
    for tells_too_much in ("matplotlib", "PIL"):
        logging.getLogger(tells_too_much).setLevel(logging.WARNING)
    if arguments.positions:
        _draw_positions(arguments)
    else:
        _show_sentence(arguments)
    print(arguments.output)


def _check(arguments: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together, before anything slow starts."""
    path = arguments.output
    is_page = path.suffix.lower() == PAGE
    if not is_page and path.suffix.lower() not in PICTURES:
        raise ValueError(f"--output must end in {', '.join(PICTURES)} or {PAGE}, got {path}")
    if not path.parent.is_dir():
        raise ValueError(f"--output {path}: there is no directory {path.parent}")
    if arguments.style == "heat" and not is_page:
        raise ValueError(f"--style heat is on a page: --output must end in {PAGE}, got {path}")
    if arguments.positions:
        for name in OF_SENTENCES:
            if getattr(arguments, name) is not None:
                raise ValueError(f"--positions does not go with {option(name)}")
        if is_page:
            raise ValueError(f"--positions is a picture: --output must not end in {PAGE}")
    elif arguments.source is None:
        raise ValueError("--source must be given")
    if not arguments.positions or _has_model(arguments):
        require_one_model(arguments)


def _has_model(arguments: argparse.Namespace) -> bool:
    """Return whether a model is given; the sinusoids need none."""
    given = (arguments.model, arguments.checkpoint, arguments.data_bin)
    return any(path is not None for path in given)


def _draw_positions(arguments: argparse.Namespace) -> None:
    from fairseq_aiayn.attention_maps import picture

    if _has_model(arguments):
        tables = picture.position_tables(read_model(arguments).transformer)
    else:
        tables = picture.sinusoid_table(BASE.d_model)
    picture.save_picture(picture.draw_positions(tables), arguments.output)


def _show_sentence(arguments: argparse.Namespace) -> None:
    from fairseq_aiayn.attention_maps.weights import words_of_pieces
    from fairseq_aiayn.inference import attention

    translator = _read_translator(arguments)
    source = attention.source_sentence(translator, arguments.source)
    is_page = arguments.output.suffix.lower() == PAGE
    kind = arguments.kind or (None if is_page else KINDS[0])
    target = None
    if arguments.target is not None:
        target = attention.target_sentence(translator, arguments.target)
    elif kind != KINDS[0]:
        target = attention.translated_sentence(translator, arguments.source)
        words = words_of_pieces(target.pieces[:-1])
        print(f"translation: {' '.join(word.text for word in words)}")
    for piece in (*source.unknown, *(target.unknown if target else ())):
        note = f"{piece!r} is not in the dictionary, the model reads <unk>"
        print(f"aiayn attention: {note}", file=sys.stderr)
    maps = attention.attention_maps(translator, source, target)
    _write([maps[kind]] if kind else [*maps.values()], arguments)


def _read_translator(arguments: argparse.Namespace) -> Translator:
    """Return the model that is given, on the CPU: ours, or a stock one that runs in fairseq."""
    from fairseq_aiayn.inference.engine import Translator
    from fairseq_aiayn.inference.export import OtherModel

    try:
        return Translator(read_model(arguments), device="cpu")
    except OtherModel as other:
        from fairseq_aiayn.plugin.stock_models import StockTranslator

        return cast(Translator, StockTranslator(*other.place))


def _write(maps: Sequence[AttentionMap], arguments: argparse.Namespace) -> None:
    """Write a page of the maps, or a picture of the only one."""
    from fairseq_aiayn.attention_maps import page, picture
    from fairseq_aiayn.attention_maps.weights import merge_words, occurrences, select
    from fairseq_aiayn.text import write_whole

    first = next((shown for shown in maps if occurrences(arguments.word, shown)), maps[-1])
    shown = merge_words(first) if arguments.merge else first
    selection = select(shown, arguments.layer, arguments.heads, arguments.word)
    if arguments.output.suffix.lower() != PAGE:
        picture.save_picture(picture.draw_lines(selection), arguments.output)
        return
    words = "whole" if arguments.merge else "pieces"
    start = page.view_of(selection, arguments.style or STYLES[0], words)
    title = f"Attention: {arguments.source}"
    write_whole(arguments.output, page.attention_page(maps, title, start))
