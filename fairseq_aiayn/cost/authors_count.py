"""Parameters as the authors' code, tensor2tensor, counted them when Table 3 was printed.

Source: github.com/tensorflow/tensor2tensor at its first commit, 3d9c62f2 of 15 June 2017.
"""

from __future__ import annotations

from fairseq_aiayn.cost.estimate import parameters
from fairseq_aiayn.paper import TABLE_3, Row

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
