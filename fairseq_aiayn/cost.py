"""Arithmetic rates of GPUs: the paper's sustained figures, and peaks of later GPUs.

A peak is the manufacturer's figure: dense, without sparsity; 16-bit products summed in 32 bits. No
program reaches it, so do not compare a cost or utilization based on a peak with one based on the
paper's sustained figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from fairseq_aiayn.paper import SUSTAINED_TFLOPS, TABLE_3, TRAINING_GPU, TRAINING_GPUS, Row
from fairseq_aiayn.settings import decoding


@dataclass(frozen=True)
class Gpu:
    """A GPU with its rates, both sustained or both peaks.

    The rates are TFLOPS in single precision and, if the GPU has tensor cores, in 16 bits on these.
    """

    name: str
    rate: Literal["sustained", "peak"]
    single_tflops: float
    tensor_tflops: float | None
    source: str


NVIDIA = "https://www.nvidia.com"
IMAGES = "https://images.nvidia.com"

PAPERS = [
    Gpu(name, "sustained", tflops, None, "Attention Is All You Need, footnote 5")
    for name, tflops in SUSTAINED_TFLOPS.items()
]
LATER = [
    Gpu(
        "V100-SXM2",
        "peak",
        15.7,
        125,
        "NVIDIA V100 Tensor Core GPU, data sheet,"
        f" {IMAGES}/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf",
    ),
    Gpu(
        "T4",
        "peak",
        8.1,
        65,
        "NVIDIA T4 Tensor Core GPU, data sheet,"
        f" {NVIDIA}/content/dam/en-zz/Solutions/Data-Center/tesla-t4/"
        "t4-tensor-core-datasheet-951643.pdf",
    ),
    Gpu(  # 40 GB and 80 GB, SXM and PCIe alike
        "A100",
        "peak",
        19.5,
        312,
        "NVIDIA A100 Tensor Core GPU, data sheet,"
        f" {NVIDIA}/content/dam/en-zz/Solutions/Data-Center/a100/pdf/"
        "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
    ),
    Gpu(
        "RTX-3090",
        "peak",
        35.6,
        71,
        "NVIDIA Ampere GA102 GPU Architecture, whitepaper,"
        f" {NVIDIA}/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf",
    ),
    Gpu(
        "RTX-4090",
        "peak",
        82.6,
        165.2,
        "NVIDIA Ada GPU Architecture, whitepaper,"
        f" {IMAGES}/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf",
    ),
    # For these GPUs, NVIDIA prints the 16-bit rate with sparsity, which is twice the dense rate.
    Gpu(
        "L4",
        "peak",
        30.3,
        242 / 2,
        f"NVIDIA L4 Tensor Core GPU, specifications, {NVIDIA}/en-us/data-center/l4/",
    ),
    Gpu(
        "L40S",
        "peak",
        91.6,
        362.05,  # printed beside 733 with sparsity
        f"NVIDIA L40S, specifications, {NVIDIA}/en-us/data-center/l40s/",
    ),
    Gpu(
        "H100-SXM",
        "peak",
        67,
        1979 / 2,
        f"NVIDIA H100 Tensor Core GPU, specifications, {NVIDIA}/en-us/data-center/h100/",
    ),
    Gpu(
        "H200-SXM",
        "peak",
        67,
        1979 / 2,
        f"NVIDIA H200 Tensor Core GPU, specifications, {NVIDIA}/en-us/data-center/h200/",
    ),
]
GPUS: dict[str, Gpu] = {gpu.name: gpu for gpu in (*PAPERS, *LATER)}


def find_gpu(name: str) -> Gpu:
    """Return the GPU called `name`, in any case; raises ValueError if there is none."""
    gpu = GPUS.get(name.upper())
    if gpu is None:
        raise ValueError(f"unknown GPU {name!r}: the GPUs are {', '.join(GPUS)}")
    return gpu


# Parameters as the authors' code, tensor2tensor, counted them when Table 3 was printed.
#
# Source: github.com/tensorflow/tensor2tensor at its first commit, 3d9c62f2 of 15 June 2017.


VOCABULARY = 40_960  # wmt_ende_bpe32k in data_generators/problem_hparams.py
TARGET_SPACES = 32  # target_space_embedding in models/transformer.py, added to the source


def authors_parameters(row: Row) -> int | None:
    """Return the number of parameters that a row of Table 3 had in the authors' code.

    It has a larger vocabulary than the text's, an embedding of target spaces, and biases in W^Q,
    W^K, W^V and W^O (models/common_attention.py). None for rows that the code has not, in their
    vocabulary or at all: those outside Table 3, and learned positions.
    """
    if row not in TABLE_3 or row.learned_positions:
        return None
    attentions = row.N * (1 + 2)  # of encoder and decoder layers
    biases = attentions * (2 * row.h * row.d_k + row.h * row.d_v + row.d_model)
    return parameters(row, VOCABULARY) + biases + TARGET_SPACES * row.d_model


# The cost of a row: parameters, memory, training FLOPs, and the paper's estimate of these.


LONGEST_LEARNED = 1_024  # fairseq's --max-source-positions and --max-target-positions

# Not stated in the paper. Assumed: about the length of a WMT sentence in byte pairs. Only the FLOPs
# of attention depend on it, 1% of base's count.
USUAL_LENGTH = 30

BYTES_PER_PARAMETER = 4 * 4  # weight, gradient and Adam's two moments, each in float32


def attention_parameters(row: Row) -> int:
    """Count W^Q, W^K (d_model × h·d_k), W^V (d_model × h·d_v) and W^O (h·d_v × d_model)."""
    return 2 * row.d_model * row.h * row.d_k + 2 * row.d_model * row.h * row.d_v


def layer_parameters(row: Row, attentions: int) -> int:
    """Count a layer's attentions, feed-forward network (Equation 2) and a norm after each."""
    feed_forward = 2 * row.d_model * row.d_ff + row.d_ff + row.d_model
    norms = (attentions + 1) * 2 * row.d_model
    return attentions * attention_parameters(row) + feed_forward + norms


def parameters(row: Row, vocabulary: int) -> int:
    """Return the number of parameters of a row, with `vocabulary` types on each side.

    Embeddings are one matrix if the row shares it between both sides, otherwise two (source; target
    and projection). Raises ValueError for an empty vocabulary.
    """
    require_types(vocabulary)
    layers = row.N * (layer_parameters(row, attentions=1) + layer_parameters(row, attentions=2))
    embeddings = (1 if row.shared_vocabulary else 2) * vocabulary * row.d_model
    learned = 2 * LONGEST_LEARNED * row.d_model if row.learned_positions else 0
    return layers + embeddings + learned


def require_types(vocabulary: int) -> None:
    """Raise ValueError for an empty vocabulary."""
    if vocabulary < 1:
        raise ValueError(f"the vocabulary must have at least one type, got {vocabulary}")


def training_bytes(row: Row, vocabulary: int) -> int:
    """Return the bytes that a row's training needs for any batch, without activations.

    Raises ValueError for an empty vocabulary.
    """
    return BYTES_PER_PARAMETER * parameters(row, vocabulary)


@dataclass(frozen=True)
class ForwardFlops:
    """FLOPs of the forward pass for one source token and one target token."""

    encoder: int  # the matrices of its N layers
    decoder: int
    attention: int  # QKᵀ and the weighted sums of V (Equation 1), in the encoder and the decoder
    projection: int  # to the vocabulary

    @property
    def total(self) -> int:
        """The sum of all four parts."""
        return self.encoder + self.decoder + self.attention + self.projection


def forward_flops(row: Row, vocabulary: int, length: int) -> ForwardFlops:
    """Count the FLOPs of a row's matrix products, for sentences of `length` tokens on each side.

    A multiply-add is two FLOPs. Masked connections count, because Equation 1 computes them. Biases,
    norms, softmax, dropout and embedding lookups do not, because they are not matrix products.
    Raises ValueError for an empty vocabulary or sentence.
    """
    require_types(vocabulary)
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
    return 3 * forward_flops(row, vocabulary, length).total * row.batch_tokens * row.steps


@dataclass(frozen=True)
class Estimate:
    """The paper's estimate of a training's cost, compared with a count of FLOPs."""

    gpu: Gpu
    gpus: int
    hours: float
    flops: float  # section 6.1: time × GPUs × single-precision rate
    utilisation: float  # the count divided by `flops`
    tensor_utilisation: float | None  # the count divided by the FLOPs of the tensor cores


def estimate(counted: float, gpu: Gpu, gpus: int, hours: float) -> Estimate:
    """Apply the paper's rule (section 6.1, Table 2) to a training of `counted` FLOPs.

    Raises ValueError for less than one GPU, or for hours that are not positive and finite.
    """
    if gpus < 1:
        raise ValueError(f"gpus must be at least 1, got {gpus}")
    if not 0 < hours < math.inf:
        raise ValueError(f"hours must be positive, got {hours}")
    teraseconds = 1e12 * gpus * hours * 3_600
    flops = teraseconds * gpu.single_tflops
    tensor = counted / (teraseconds * gpu.tensor_tflops) if gpu.tensor_tflops else None
    return Estimate(gpu, gpus, hours, flops, counted / flops, tensor)


def paper_estimate(row: Row, counted: float) -> Estimate | None:
    """Return the estimate from section 5.2's hours and GPUs; None if the paper states no hours."""
    if row.published.hours is None:
        return None
    return estimate(counted, find_gpu(TRAINING_GPU), TRAINING_GPUS, row.published.hours)


# Rows as a table: their sizes, their costs and the paper's figures.


@dataclass(frozen=True)
class RowCost:
    """The costs of a row for a vocabulary and sentences of USUAL_LENGTH tokens."""

    parameters: int
    forward_flops: int  # for one source token and one target token
    training_flops: int
    training_bytes: int


def row_cost(row: Row, vocabulary: int) -> RowCost:
    """Compute a row's costs; raises ValueError for an empty vocabulary."""
    return RowCost(
        parameters(row, vocabulary),
        forward_flops(row, vocabulary, USUAL_LENGTH).total,
        training_flops(row, vocabulary, USUAL_LENGTH),
        training_bytes(row, vocabulary),
    )


def in_millions(count: float) -> str:
    """Format a count in millions: 63,045,632 becomes 63.05M."""
    return f"{count / 1e6:.2f}M"


def in_powers(count: float) -> str:
    """Format a count with two digits, as Table 2 prints FLOPs: 3.3e18."""
    return f"{count:.1e}".replace("e+", "e")


def in_gibibytes(count: float) -> str:
    """Format bytes in GiB: 1,008,730,112 becomes 0.94 GiB."""
    return f"{count / 2**30:.2f} GiB"


COST_CELLS: dict[str, Callable[[float], str]] = {
    "parameters": in_millions,
    "forward_flops": in_millions,
    "training_flops": in_powers,
    "training_bytes": in_gibibytes,
}


def _printed(field: str, form: str) -> Callable[[Row], str]:
    """Return a function that formats a figure which the paper prints for some rows."""

    def cell(row: Row) -> str:
        value = getattr(row.published, field)
        return "" if value is None else format(value, form)

    return cell


def _authors_count(row: Row) -> str:
    count = authors_parameters(row)
    return "" if count is None else in_millions(count)


def _value(field: str) -> Callable[[Row], str]:
    return lambda row: str(getattr(row, field))


SYMBOLS = ("name", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop")
SIZES: dict[str, Callable[[Row], str]] = {
    **{field: _value(field) for field in SYMBOLS},
    "eps_ls": _value("epsilon_ls"),
    "positions": lambda row: "learned" if row.learned_positions else "sinusoid",
    "steps": _value("steps"),
    "averaged": _value("averaged"),
}
COSTS = ("params", "FLOPs/pair", "training", "memory")  # in the order of COST_CELLS
AUTHORS: dict[str, Callable[[Row], str]] = {
    "t2t": _authors_count,
    "paper": lambda row: f"{row.published.parameters}M" if row.published.parameters else "",
    "PPL": _printed("ppl", ".2f"),
    "BLEU": _printed("bleu", ".1f"),
}


def row_table(rows: Sequence[Row], vocabulary: int) -> list[list[str]]:
    """Return the header and the cells of every row; raises ValueError for an empty vocabulary."""
    return [[*SIZES, *COSTS, *AUTHORS], *(_cells(row, vocabulary) for row in rows)]


def explanation(vocabulary: int) -> str:
    """Return an explanation of the columns of `row_table`, as Markdown."""
    return (
        f"Params: of our model with a vocabulary of {vocabulary:,} types; the parser has one of"
        " this size on each side. FLOPs/pair: the forward pass for one source token and one target"
        f" token, in sentences of {USUAL_LENGTH} tokens. Training: the FLOPs of all steps. Memory:"
        " weights, gradients and Adam's two moments in float32,"
        f" {BYTES_PER_PARAMETER} bytes per parameter, without activations. t2t: the parameters as"
        " the authors' code counted them. The last three columns are the paper's: parameters,"
        " development perplexity, BLEU."
    )


def row_as_json(row: Row, vocabulary: int) -> dict:
    """Return all cells of a row, ready for json.dump; raises ValueError for an empty vocabulary."""
    return (
        asdict(row)
        | {"arch": row.arch, "decoding": asdict(decoding(row))}
        | {"vocabulary": vocabulary, "length": USUAL_LENGTH}
        | asdict(row_cost(row, vocabulary))
        | {"authors_parameters": authors_parameters(row)}
    )


def _cells(row: Row, vocabulary: int) -> list[str]:
    costs = asdict(row_cost(row, vocabulary))
    return [
        *(cell(row) for cell in SIZES.values()),
        *(form(costs[name]) for name, form in COST_CELLS.items()),
        *(cell(row) for cell in AUTHORS.values()),
    ]


# The cells in which two rows differ: their settings, regime, decoding, cost and results.


NAMES = ("name", "arch")  # left out: they differ between any two rows
FORMS = COST_CELLS | {"authors_parameters": in_millions}


@dataclass(frozen=True)
class CellDifference:
    """A cell in which two rows differ; for a cost, `ratio` is the first value over the second."""

    cell: str
    values: tuple[object, object]
    ratio: float | None


def row_differences(first: Row, second: Row, vocabulary: int) -> list[CellDifference]:
    """Return the cells that differ, in a row's order; raises ValueError for an empty vocabulary."""
    a, b = (_flat(row_as_json(row, vocabulary)) for row in (first, second))
    pairs = {cell: (a[cell], b[cell]) for cell in a if cell not in NAMES}
    return [
        CellDifference(cell, values, values[0] / values[1] if cell in COST_CELLS else None)
        for cell, values in pairs.items()
        if values[0] != values[1]
    ]


def difference_table(first: Row, second: Row, vocabulary: int) -> list[list[str]]:
    """Return a header and the cells that differ, with a column of ratios if a cost differs.

    Raises ValueError for an empty vocabulary.
    """
    found = row_differences(first, second, vocabulary)
    header = ["", first.name, second.name, f"{first.name} / {second.name}"]
    lines = [
        [
            difference.cell,
            *(_text(difference.cell, value) for value in difference.values),
            "" if difference.ratio is None else f"{difference.ratio:.3f}",
        ]
        for difference in found
    ]
    width = 4 if any(difference.ratio is not None for difference in found) else 3
    return [line[:width] for line in [header, *lines]]


def difference_as_json(first: Row, second: Row, vocabulary: int) -> dict:
    """Return the cells that differ, ready for json.dump.

    Raises ValueError for an empty vocabulary.
    """
    return {
        "rows": [first.name, second.name],
        "vocabulary": vocabulary,
        "length": USUAL_LENGTH,
        "differences": [asdict(found) for found in row_differences(first, second, vocabulary)],
    }


def _flat(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row's cells; cells of an inner object are called OBJECT.CELL."""
    flat = {}
    for name, value in row.items():
        inner = isinstance(value, dict)
        flat |= {f"{name}.{key}": part for key, part in value.items()} if inner else {name: value}
    return flat


def _text(cell: str, value: object) -> str:
    if value is None:
        return "not stated"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return FORMS[cell](value) if cell in FORMS else str(value)
