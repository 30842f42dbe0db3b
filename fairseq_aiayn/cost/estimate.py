"""What a row costs: parameters, memory, the FLOPs of its training, the paper's estimate of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fairseq_aiayn.cost.gpus import Gpu, find_gpu
from fairseq_aiayn.paper import TRAINING_GPU, TRAINING_GPUS, Row

LONGEST_LEARNED = 1_024  # fairseq's --max-source-positions and --max-target-positions

# Not stated. Assumed: about the length of a WMT sentence in byte pairs. Only the attention's part,
# 1% of base's count, depends on it.
USUAL_LENGTH = 30

BYTES_PER_PARAMETER = 4 * 4  # weight, gradient and Adam's two moments, each in float32


def attention_parameters(row: Row) -> int:
    """Section 3.2.2: W^Q, W^K (d_model × h·d_k), W^V (d_model × h·d_v), W^O (h·d_v × d_model)."""
    return 2 * row.d_model * row.h * row.d_k + 2 * row.d_model * row.h * row.d_v


def layer_parameters(row: Row, attentions: int) -> int:
    """Attentions, feed-forward network (Equation 2) and a norm's gain and bias after each."""
    feed_forward = 2 * row.d_model * row.d_ff + row.d_ff + row.d_model
    norms = (attentions + 1) * 2 * row.d_model
    return attentions * attention_parameters(row) + feed_forward + norms


def parameters(row: Row, vocabulary: int) -> int:
    """Number of parameters of a row over `vocabulary` types on either side.

    One embedding matrix where the row shares it between both sides, two (source, target and
    projection) otherwise. Raises ValueError for an empty vocabulary.
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
    """Bytes that a row's training holds whatever its batch, without activations.

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
        """All four parts."""
        return self.encoder + self.decoder + self.attention + self.projection


def forward_flops(row: Row, vocabulary: int, length: int) -> ForwardFlops:
    """Count a row's matrix products over sentences of `length` tokens on either side.

    A multiply-add is two FLOPs. Masked connections count: Equation 1 computes them. Biases, norms,
    softmax, dropout and the look-up of embeddings do not; they are not matrix products. Raises
    ValueError for an empty vocabulary or sentence.
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
    """FLOPs of all steps of a row; the backward pass takes two products for each forward one."""
    return 3 * forward_flops(row, vocabulary, length).total * row.batch_tokens * row.steps


@dataclass(frozen=True)
class Estimate:
    """The paper's estimate of a training's cost, and how much of it a count of FLOPs explains."""

    gpu: Gpu
    gpus: int
    hours: float
    flops: float  # section 6.1: time × GPUs × single-precision rate
    utilisation: float  # the count over `flops`
    tensor_utilisation: float | None  # the count over what the tensor cores could have done


def estimate(counted: float, gpu: Gpu, gpus: int, hours: float) -> Estimate:
    """Apply Table 2's rule to a training of `counted` FLOPs.

    Raises ValueError for fewer than one GPU or a time that is not positive and finite.
    """
    if gpus < 1:
        raise ValueError(f"--gpus must be at least 1, got {gpus}")
    if not 0 < hours < math.inf:
        raise ValueError(f"--hours must be positive, got {hours}")
    teraseconds = 1e12 * gpus * hours * 3_600
    flops = teraseconds * gpu.single_tflops
    tensor = counted / (teraseconds * gpu.tensor_tflops) if gpu.tensor_tflops else None
    return Estimate(gpu, gpus, hours, flops, counted / flops, tensor)


def paper_estimate(row: Row, counted: float) -> Estimate | None:
    """Table 2's estimate from the hours and GPUs of section 5.2; None where no hours are stated."""
    if row.published.hours is None:
        return None
    return estimate(counted, find_gpu(TRAINING_GPU), TRAINING_GPUS, row.published.hours)
