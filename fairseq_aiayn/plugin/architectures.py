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

# fairseq's name for the encoder, its name for the decoder, and the paper's symbol for both
SHARED_SIZES = tuple(
    (*(f"{side}_{name}" for side in SIDES), symbol) for name, symbol in ENCODER_AND_DECODER.items()
)


def add_model_options(parser: ArgumentParser) -> None:
    """Declare the options of the model; their defaults are the values of the --arch's row."""
    for encoder_name, decoder_name, symbol in SHARED_SIZES:
        parser.add_argument(
            option(encoder_name), type=int, help=f"{symbol} of the encoder and the decoder"
        )
        parser.add_argument(option(decoder_name), type=int, help=f"same as {option(encoder_name)}")
    parser.add_argument("--d-k", type=int, help="size of the queries and keys of each head")
    parser.add_argument("--d-v", type=int, help="size of the values of each head")
    parser.add_argument("--dropout", type=float, help="P_drop of section 5.4")
    parser.add_argument(
        "--attention-dropout",
        type=float,
        help="dropout rate of the attention weights (section 6.3; default: 0)",
    )
    parser.add_argument(
        "--learned-positions", action="store_true", help="use learned positions (Table 3, row E)"
    )
    add_sharing_options(parser)
    add_training_options(parser)


def add_sharing_options(parser: ArgumentParser) -> None:
    """Declare the options that select the shared embedding matrices (section 3.4)."""
    parser.add_argument(
        "--share-all-embeddings",
        action="store_true",
        help="one matrix for both embeddings and the projection (section 3.4; the rows' default)",
    )
    parser.add_argument(
        "--share-decoder-input-output-embed",
        action="store_true",
        help="one matrix for the target embedding and the projection, another for the source",
    )
    parser.add_argument(
        "--untied-embeddings",
        action="store_true",
        help="separate matrices for the two embeddings and the projection",
    )


def add_training_options(parser: ArgumentParser) -> None:
    """Declare the options that affect the training of a model but not its shape."""
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
    for encoder_name, decoder_name, symbol in SHARED_SIZES:
        given = {
            name: value
            for name in (encoder_name, decoder_name)
            if (value := getattr(args, name, None)) is not None
        }
        if len(set(given.values())) > 1:
            raise ValueError(
                f"{option(encoder_name)} {given[encoder_name]} and {option(decoder_name)} "
                f"{given[decoder_name]} differ: encoder and decoder have one {symbol}"
                " (section 3.1)"
            )
        value = next(iter(given.values()), getattr(row, symbol))
        setattr(args, encoder_name, value)
        setattr(args, decoder_name, value)
    set_default(args, "d_k", row.d_k)
    set_default(args, "d_v", row.d_v)
    set_default(args, "dropout", row.P_drop)
    set_default(args, "attention_dropout", 0.0)
    args.autocast = getattr(args, "autocast", None)
    set_default(args, "initialization", row.initialization)
    set_default(args, "label_smoothing", row.epsilon_ls)
    set_default(args, "warmup_updates", row.warmup)
    set_default(args, "lr_factor", row.lr_factor)
    args.learned_positions = getattr(args, "learned_positions", False) or row.learned_positions
    set_sharing(args, "all" if row.shared_vocabulary else "target")
    set_schedule_width(args)


def set_default(args: Namespace, name: str, value: float) -> None:
    """Set args.name unless it was given."""
    if getattr(args, name, None) is None:
        setattr(args, name, value)


def set_sharing(args: Namespace, row_sharing: Sharing) -> None:
    """Make exactly one of the three options true: the one that was given, or else the row's."""
    given = [name for name in SHARING if getattr(args, name, False)]
    if "untied_embeddings" in given and len(given) > 1:
        raise ValueError(f"{option(given[0])} and --untied-embeddings contradict each other")
    # --share-all-embeddings includes what --share-decoder-input-output-embed asks for
    chosen = SHARING[given[0]] if given else row_sharing
    for name, sharing in SHARING.items():
        setattr(args, name, sharing == chosen)


def set_schedule_width(args: Namespace) -> None:
    """Set the schedule's d_model (Equation 3) to the model's, which fairseq does not pass on.

    Raises ValueError if --d-model was given and differs.
    """
    set_default(args, "d_model", args.encoder_embed_dim)
    if args.d_model != args.encoder_embed_dim:
        raise ValueError(
            f"--d-model {args.d_model} of the learning-rate schedule differs from the model's"
            f" --encoder-embed-dim {args.encoder_embed_dim}"
        )


def read_dimensions(args: Namespace) -> Dimensions:
    """Return the dimensions, in the paper's symbols, that completed options select.

    Raises ValueError for a checkpoint of restricted self-attention.
    """
    require_whole_attention(vars(args))
    return Dimensions(
        **{symbol: getattr(args, encoder_name) for encoder_name, _, symbol in SHARED_SIZES},
        d_k=args.d_k,
        d_v=args.d_v,
        P_drop=args.dropout,
        attention_dropout=args.attention_dropout,
    )


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
