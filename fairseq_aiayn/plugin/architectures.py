"""Every row of paper.py as an --arch; options that are not given take the values of the row."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from fairseq.models import register_model_architecture

from fairseq_aiayn.nn.initialization import INITIALIZATIONS, Initialization
from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import Sharing
from fairseq_aiayn.paper import ROWS, Row
from fairseq_aiayn.settings import (
    ENCODER_AND_DECODER,
    SHARING,
    SIDES,
    option,
    require_whole_attention,
)

MODEL_NAME = "aiayn"
# A model's sizes and rates: the symbol in Dimensions and in a row, and what --help says
DIMENSIONS: dict[str, tuple[str, type, str]] = {
    **{
        f"{side}_{name}": (symbol, int, f"{symbol} of the encoder and the decoder")
        for name, symbol in ENCODER_AND_DECODER.items()
        for side in SIDES
    },
    "d_k": ("d_k", int, "size of the queries and keys of each head"),
    "d_v": ("d_v", int, "size of the values of each head"),
    "dropout": ("P_drop", float, "P_drop of section 5.4"),
    "attention_dropout": (
        "attention_dropout",
        float,
        "dropout rate of the attention weights (section 6.3; default: 0)",
    ),
}
# Which matrices are one (section 3.4), and other switches
SWITCHES = {
    "learned_positions": "use learned positions (Table 3, row E)",
    "share_all_embeddings": "one matrix for both embeddings and the projection (section 3.4; the"
    " rows' default)",
    "share_decoder_input_output_embed": "one matrix for the target embedding and the projection,"
    " another for the source",
    "untied_embeddings": "separate matrices for the two embeddings and the projection",
}
# Options of a training, also of the criterion and the schedule, by the field of a row
TRAINING = {
    "initialization": "initialization",
    "label_smoothing": "epsilon_ls",
    "warmup_updates": "warmup",
    "lr_factor": "lr_factor",
}


def add_model_options(parser: ArgumentParser) -> None:
    """Declare the options of the model; their defaults are the values of the --arch's row."""
    for name, (_, kind, meaning) in DIMENSIONS.items():
        parser.add_argument(option(name), type=kind, help=meaning)
    for name, meaning in SWITCHES.items():
        parser.add_argument(option(name), action="store_true", help=meaning)
    parser.add_argument(
        "--initialization",
        choices=INITIALIZATIONS,
        help="scheme of the initial weights (docs/deviations.md; default: the row's)",
    )
    parser.add_argument(
        "--autocast",
        choices=["bfloat16"],
        help="train with matrix products in this precision and everything else, including weights"
        " and checkpoints, in float32; works with --cpu, too",
    )


def apply_row(row: Row, args: Namespace) -> None:
    """Complete the options in `args` from a row, in place; options that were given win.

    A second call changes nothing. Raises ValueError if options contradict each other.
    """
    for name, symbol in ENCODER_AND_DECODER.items():
        share_size(args, [f"{side}_{name}" for side in SIDES], symbol)
    for name, (symbol, *_) in DIMENSIONS.items():
        set_default(args, name, getattr(row, symbol, 0.0))  # a row has no attention dropout
    for name, field in TRAINING.items():
        set_default(args, name, getattr(row, field))
    set_default(args, "autocast", None)
    args.learned_positions = getattr(args, "learned_positions", False) or row.learned_positions
    set_sharing(args, "all" if row.shared_vocabulary else "target")
    set_default(args, "d_model", args.encoder_embed_dim)  # of Equation 3; fairseq passes on none
    if args.d_model != args.encoder_embed_dim:
        raise ValueError(
            f"--d-model {args.d_model} of the learning-rate schedule differs from the model's"
            f" --encoder-embed-dim {args.encoder_embed_dim}"
        )


def set_default(args: Namespace, name: str, value: object) -> None:
    """Set args.name unless it was given."""
    if getattr(args, name, None) is None:
        setattr(args, name, value)


def share_size(args: Namespace, names: list[str], symbol: str) -> None:
    """Set the size of both sides to that of the side where it was given; raises ValueError for two
    sizes."""
    given = {name: getattr(args, name) for name in names if getattr(args, name, None) is not None}
    if len(set(given.values())) > 1:
        sizes = " and ".join(f"{option(name)} {size}" for name, size in given.items())
        raise ValueError(f"{sizes} differ: encoder and decoder have one {symbol} (section 3.1)")
    for name in names:
        setattr(args, name, next(iter(given.values()), None))


def set_sharing(args: Namespace, row_sharing: Sharing) -> None:
    """Make exactly one of the three options true: the one that was given, or else the row's."""
    given = [name for name in SHARING if getattr(args, name, False)]
    if "untied_embeddings" in given and len(given) > 1:
        raise ValueError(f"{option(given[0])} and --untied-embeddings contradict each other")
    # --share-all-embeddings includes what --share-decoder-input-output-embed asks for
    chosen = SHARING[given[0]] if given else row_sharing
    for name, sharing in SHARING.items():
        setattr(args, name, sharing == chosen)


def read_dimensions(args: Namespace) -> Dimensions:
    """Return the dimensions, in the paper's symbols, that completed options select.

    Raises ValueError for a checkpoint of restricted self-attention.
    """
    require_whole_attention(vars(args))
    return Dimensions(**{symbol: getattr(args, name) for name, (symbol, *_) in DIMENSIONS.items()})


def read_sharing(args: Namespace) -> Sharing:
    """Return the sharing of embedding matrices that completed options select."""
    return next(sharing for name, sharing in SHARING.items() if getattr(args, name))


def read_initialization(args: Namespace) -> Initialization:
    """Return the initialization scheme that completed options select.

    The scheme does not matter for a checkpoint, whose weights replace the initial ones. So a
    checkpoint with an unknown scheme loads anyway. fairseq-train refuses an unknown scheme.
    """
    known = args.initialization in INITIALIZATIONS
    return args.initialization if known else INITIALIZATIONS[0]


def register_rows() -> None:
    """Register every row of paper.py as an --arch of the model."""
    for row in ROWS.values():
        register_model_architecture(MODEL_NAME, row.arch)(partial(apply_row, row))
