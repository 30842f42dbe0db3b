"""What a row costs: its parameters."""

from __future__ import annotations

from fairseq_aiayn.paper import Row

LONGEST_LEARNED = 1_024  # fairseq's --max-source-positions and --max-target-positions


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
    if vocabulary < 1:
        raise ValueError(f"the vocabulary must have at least one type, got {vocabulary}")
    layers = row.N * (layer_parameters(row, attentions=1) + layer_parameters(row, attentions=2))
    embeddings = (1 if row.shared_vocabulary else 2) * vocabulary * row.d_model
    learned = 2 * LONGEST_LEARNED * row.d_model if row.learned_positions else 0
    return layers + embeddings + learned
