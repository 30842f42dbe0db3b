"""What a row costs: parameters, memory, training FLOPs, and the paper's estimate of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from fairseq_aiayn.paper import SUSTAINED_TFLOPS, TABLE_3, TRAINING_GPU, TRAINING_GPUS, Row
from fairseq_aiayn.settings import decoding

LEARNED_POSITIONS = 1_024  # fairseq's --max-source-positions and --max-target-positions

# Not stated in the paper. Assumed: about the length of a WMT sentence in byte pairs. Only the FLOPs
# of attention depend on it, 1% of base's count.
USUAL_LENGTH = 30

BYTES_PER_PARAMETER = 4 * 4  # weight, gradient and Adam's two moments, each in float32


def attention_parameters(row: Row) -> int:
    """Count W^Q, W^K (d_model × h·d_k), W^V (d_model × h·d_v) and W^O (h·d_v × d_model)."""
    return 2 * row.d_model * row.h * row.d_k + 2 * row.d_model * row.h * row.d_v


def parameters(row: Row, vocabulary: int) -> int:
    """Return the number of parameters of a row, with `vocabulary` entries on each side."""
    feed_forward = 2 * row.d_model * row.d_ff + row.d_ff + row.d_model  # Equation 2
    # An encoder layer has one attention, a decoder layer two; a norm follows every sublayer
    layers = row.N * (3 * attention_parameters(row) + 2 * feed_forward + 5 * 2 * row.d_model)
    # Without a shared vocabulary, two matrices: of the source; of the target and the projection
    embeddings = (1 if row.shared_vocabulary else 2) * vocabulary * row.d_model
    learned = 2 * LEARNED_POSITIONS * row.d_model if row.learned_positions else 0
    return layers + embeddings + learned


# Parameters as the authors' code, tensor2tensor, counted them when Table 3 was printed.
# Source: github.com/tensorflow/tensor2tensor at its first commit, 3d9c62f2 of 15 June 2017.
VOCABULARY = 40_960  # wmt_ende_bpe32k in data_generators/problem_hparams.py
TARGET_SPACES = 32  # target_space_embedding in models/transformer.py, added to the source


def authors_parameters(row: Row) -> int | None:
    """Return the number of parameters that a row of Table 3 had in the authors' code.

    It has a larger vocabulary than the text's, an embedding of target spaces, and biases in W^Q,
    W^K, W^V and W^O (models/common_attention.py). Return None for rows that tensor2tensor did not
    have: those outside Table 3, and learned positions.
    """
    if row not in TABLE_3 or row.learned_positions:
        return None
    attentions = row.N * (1 + 2)  # of encoder and decoder layers
    biases = attentions * (2 * row.h * row.d_k + row.h * row.d_v + row.d_model)
    return parameters(row, VOCABULARY) + biases + TARGET_SPACES * row.d_model


class ForwardFlops(NamedTuple):
    """FLOPs of the forward pass for one source token and one target token; they add up."""

    encoder: int  # the matrices of its N layers
    decoder: int
    attention: int  # QKᵀ and the weighted sums of V (Equation 1), in the encoder and the decoder
    projection: int  # to the vocabulary


def forward_flops(row: Row, vocabulary: int, length: int) -> ForwardFlops:
    """Count the FLOPs of a row's matrix products, for sentences of `length` tokens on each side.

    A multiply-add is two FLOPs. Masked connections count, because Equation 1 computes them. Biases,
    norms, softmax, dropout and embedding lookups do not, because they are not matrix products.
    Raises ValueError for an empty vocabulary or sentence.
    """
    if vocabulary < 1:
        raise ValueError(f"the vocabulary must have at least one type, got {vocabulary}")
    if length < 1:
        raise ValueError(f"a sentence must have at least one token, got {length}")
    projections = 2 * attention_parameters(row)
    feed_forward = 2 * 2 * row.d_model * row.d_ff
    one_attention = 2 * length * row.h * (row.d_k + row.d_v)
    return ForwardFlops(
        encoder=row.N * (projections + feed_forward),
        decoder=row.N * (2 * projections + feed_forward),
        attention=row.N * 3 * one_attention,
        projection=2 * row.d_model * vocabulary,
    )


def training_flops(row: Row, vocabulary: int, length: int) -> int:
    """Return the FLOPs of all steps; the backward pass has two products per forward product."""
    return 3 * sum(forward_flops(row, vocabulary, length)) * row.batch_tokens * row.steps


@dataclass(frozen=True)
class Estimate:
    """The paper's estimate of a training's cost, compared with a count of FLOPs."""

    gpu: str
    gpus: int
    hours: float
    tflops: float  # of a GPU, in single precision, sustained
    flops: float  # section 6.1: time × GPUs × single-precision rate
    utilisation: float  # the count divided by `flops`


def paper_estimate(row: Row, counted: float) -> Estimate | None:
    """Apply the paper's rule (section 6.1, Table 2) to section 5.2's hours and GPUs, for a training
    of `counted` FLOPs; None if the paper states no hours."""
    hours, tflops = row.published.hours, SUSTAINED_TFLOPS[TRAINING_GPU]
    if hours is None:
        return None
    flops = 1e12 * tflops * TRAINING_GPUS * hours * 3_600
    return Estimate(TRAINING_GPU, TRAINING_GPUS, hours, tflops, flops, counted / flops)


# Rows as a table: their sizes, their costs and the paper's figures


def in_millions(count: float, decimals: int = 2) -> str:
    """Format a count in millions: 63,045,632 becomes 63.05M."""
    return f"{count / 1e6:.{decimals}f}M"


def in_powers(count: float) -> str:
    """Format a count with two digits, as Table 2 prints FLOPs: 3.3e18."""
    return f"{count:.1e}".replace("e+", "e")


def row_costs(row: Row, vocabulary: int) -> dict[str, int]:
    """Return what a row costs; FLOPs are for sentences of USUAL_LENGTH tokens."""
    count = parameters(row, vocabulary)
    return {
        "parameters": count,
        # For one source token and one target token
        "forward_flops": sum(forward_flops(row, vocabulary, USUAL_LENGTH)),
        "training_flops": training_flops(row, vocabulary, USUAL_LENGTH),
        # That training needs for any batch, without activations
        "training_bytes": BYTES_PER_PARAMETER * count,
    }


def row_tables(rows: Sequence[Row], vocabulary: int) -> list[list[list[str]]]:
    """Return headers and cells of every row, at least one: its sizes, then costs and results."""
    cells = [_cells(row, vocabulary) for row in rows]
    names = [*cells[0]]
    costs = names.index("params")
    tables = names[:costs], ["name", *names[costs:]]
    return [[header, *([each[name] for name in header] for each in cells)] for header in tables]


def _cells(row: Row, vocabulary: int) -> dict[str, str]:
    symbols = ("name", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop")
    costs = row_costs(row, vocabulary)
    authors, printed = authors_parameters(row), row.published
    return {
        **{symbol: str(getattr(row, symbol)) for symbol in symbols},
        "eps_ls": str(row.epsilon_ls),
        "positions": "learned" if row.learned_positions else "sinusoid",
        "steps": str(row.steps),
        "averaged": str(row.averaged),
        "params": in_millions(costs["parameters"]),
        "FLOPs/pair": in_millions(costs["forward_flops"]),
        "training": in_powers(costs["training_flops"]),
        "memory": f"{costs['training_bytes'] / 2**30:.2f} GiB",
        "t2t": in_millions(authors) if authors else "",
        "paper": f"{printed.parameters}M" if printed.parameters else "",
        "PPL": f"{printed.ppl:.2f}" if printed.ppl else "",
        "BLEU": f"{printed.bleu:.1f}" if printed.bleu else "",
    }


def row_as_json(row: Row, vocabulary: int) -> dict[str, object]:
    """Return all cells of a row, ready for json.dump."""
    return (
        asdict(row)
        | {"arch": row.arch, "decoding": asdict(decoding(row))}
        | {"vocabulary": vocabulary, "length": USUAL_LENGTH}
        | row_costs(row, vocabulary)
        | {"authors_parameters": authors_parameters(row)}
    )
