"""draw what a model's heads attend to (Figures 3-5), or its positions (section 3.5)

The suffix of --output chooses the format. A picture (.png, .svg, .pdf) shows one layer. A page for
a browser (.html) holds all layers and heads; it opens with the ones chosen here.

--kind says what attends to what: encoder, source to source; decoder, target to target; cross,
target to source. Without --target, the command prints the model's own translation and uses that.
Each row of the decoder is labelled with the word that it predicts. The columns are the words that
the decoder reads; the first is <s>.

A run of the recipes and a model folder know how their text is cut into pieces. With --checkpoint,
--bpe-codes cuts it into Moses tokens, then byte pairs, and --sentencepiece-model into word pieces.
Without either option, it is cut as a recipe noted beside --data-bin, or must already be in pieces.

examples:
  aiayn attention exp/demo/aiayn-tiny-1 --source "It is late, but its light is on." --word its \\
      --output its.png
  aiayn attention en-de --source "..." --kind cross --merge --style heat --output cross.svg
  aiayn attention --checkpoint average.pt --data-bin bin --bpe-codes codes --normalize \\
      --source "..." --output attention.html
  aiayn attention --positions --output sinusoids.png
  aiayn attention exp/table3/e_learned-1 --positions --output learned.png
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_aiayn.cli.trained_model import add_model, read_model, require_one_model
from fairseq_aiayn.paper import BASE
from fairseq_aiayn.settings import option

if TYPE_CHECKING:
    from fairseq_aiayn.attention_maps.weights import AttentionMap, Selection
    from fairseq_aiayn.inference.attention import Sentence

KINDS = ("encoder", "decoder", "cross")
STYLES = ("lines", "heads", "heat")
PAGE = ".html"
OF_SENTENCES = ("source", "target", "kind", "layer", "heads", "word", "style", "merge")


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    shown.add_argument("--heads", type=_numbers, metavar="1,2", help="from 1; default: all")
    shown.add_argument(
        "--word",
        help="show only what this word attends to, at each occurrence (on a page: at the first)",
    )
    shown.add_argument(
        "--style",
        choices=STYLES,
        help="lines, all heads in one drawing (the default); heads, one drawing of lines per head; "
        "or heat, one heat map per head",
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


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers like 1,2, got {text!r}") from None


def run(arguments: argparse.Namespace) -> None:
    """Write the picture or the page and print its path."""
    _check(arguments)
    for tells_too_much in ("matplotlib", "PIL"):
        logging.getLogger(tells_too_much).setLevel(logging.WARNING)
    if arguments.positions:
        _draw_positions(arguments)
    else:
        _draw_sentence(arguments)
    print(arguments.output)


def _check(arguments: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together, before anything slow starts."""
    from fairseq_aiayn.attention_maps.picture import FORMATS

    path = arguments.output
    if path.suffix.lower() not in (*FORMATS, PAGE):
        raise ValueError(f"--output must end in {', '.join(FORMATS)} or {PAGE}, got {path}")
    if not path.parent.is_dir():
        raise ValueError(f"--output {path}: there is no directory {path.parent}")
    if arguments.positions:
        for name in OF_SENTENCES:
            if getattr(arguments, name) is not None:
                raise ValueError(f"--positions does not go with {option(name)}")
        if path.suffix.lower() == PAGE:
            raise ValueError(f"--positions is a picture: --output must not end in {PAGE}")
    elif arguments.source is None:
        raise ValueError("--source must be given")
    if not arguments.positions or _has_model(arguments):
        require_one_model(arguments)


def _has_model(arguments: argparse.Namespace) -> bool:
    """The sinusoids need no model."""
    given = (arguments.trained, arguments.checkpoint, arguments.data_bin)
    return any(one is not None for one in given)


def _draw_positions(arguments: argparse.Namespace) -> None:
    from fairseq_aiayn.attention_maps.picture import (
        draw_positions,
        position_tables,
        save_picture,
        sinusoid_table,
    )

    if _has_model(arguments):
        tables = position_tables(read_model(arguments).transformer)
    else:
        tables = sinusoid_table(BASE.d_model)
    save_picture(draw_positions(tables), arguments.output)


def _draw_sentence(arguments: argparse.Namespace) -> None:
    from fairseq_aiayn.attention_maps.weights import words_of_pieces
    from fairseq_aiayn.inference import attention
    from fairseq_aiayn.inference.engine import Translator

    translator = Translator(read_model(arguments), device="cpu")
    source = attention.source_sentence(translator, arguments.source)
    page = arguments.output.suffix.lower() == PAGE
    wanted = arguments.kind or (None if page else "encoder")
    target = None
    if arguments.target is not None:
        target = attention.target_sentence(translator, arguments.target)
    elif wanted != "encoder":
        target = attention.translated_sentence(translator, arguments.source)
        words = words_of_pieces(target.pieces[:-1])
        print(f"translation: {' '.join(word.text for word in words)}")
    _warn_of_unknown(source, target)
    found = attention.attention_maps(translator, source, target)
    if page:
        _write_page([found[wanted]] if wanted else [*found.values()], arguments)
    else:
        _draw_picture(found[wanted], arguments)


def _warn_of_unknown(*sentences: Sentence | None) -> None:
    for sentence in filter(None, sentences):
        for piece in sentence.unknown:
            note = f"{piece!r} is not in the dictionary, the model reads <unk>"
            print(f"aiayn attention: {note}", file=sys.stderr)


def _write_page(maps: list[AttentionMap], arguments: argparse.Namespace) -> None:
    from fairseq_aiayn.attention_maps.page import attention_page, view_of
    from fairseq_aiayn.text import write_whole

    selection = _first_with_word(maps, arguments)
    start = view_of(
        selection,
        view="heat" if arguments.style == "heat" else "lines",
        words="whole" if arguments.merge else "pieces",
    )
    page = attention_page(maps, f"Attention: {arguments.source}", start)
    write_whole(arguments.output, page)


def _first_with_word(maps: list[AttentionMap], arguments: argparse.Namespace) -> Selection:
    """Select from the first map that has the word; raises UnknownWord if none has it."""
    from fairseq_aiayn.attention_maps.weights import UnknownWord

    *others, last = maps
    for shown in others:
        try:
            return _select(shown, arguments)
        except UnknownWord:
            continue
    return _select(last, arguments)


def _select(shown: AttentionMap, arguments: argparse.Namespace) -> Selection:
    from fairseq_aiayn.attention_maps.weights import merge_words, select

    shown = merge_words(shown) if arguments.merge else shown
    return select(shown, arguments.layer, arguments.heads, arguments.word)


def _draw_picture(shown: AttentionMap, arguments: argparse.Namespace) -> None:
    from fairseq_aiayn.attention_maps.picture import (
        draw_heat_maps,
        draw_lines,
        draw_lines_by_head,
        save_picture,
        undrawable,
    )
    from fairseq_aiayn.attention_maps.weights import require_readable

    draw = {"lines": draw_lines, "heads": draw_lines_by_head, "heat": draw_heat_maps}
    selection = _select(shown, arguments)
    require_readable(selection.map)
    boxes = undrawable((*selection.map.queries, *selection.map.keys))
    if boxes and arguments.output.suffix.lower() != ".svg":
        note = f"no installed font has {' '.join(boxes)}, drawn as boxes (not in .svg and .html)"
        print(f"aiayn attention: {note}", file=sys.stderr)
    save_picture(draw[arguments.style or STYLES[0]](selection), arguments.output)
