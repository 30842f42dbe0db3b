"""The cost of a row: parameters, memory, training FLOPs, and the paper's estimate of these."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fairseq_aiayn.cost.gpus import Gpu, find_gpu
from fairseq_aiayn.paper import TRAINING_GPU, TRAINING_GPUS, Row

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
