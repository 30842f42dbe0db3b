"""The parameter counts that Table 3 prints, as the authors' code counted them."""

import pytest
import torch
from torch import nn

from fairseq_aiayn.cost import TARGET_SPACES, VOCABULARY, authors_parameters, parameters
from fairseq_aiayn.paper import ROWS, TABLE_3

PRINTED = {row.name: row.published.parameters for row in TABLE_3 if row.published.parameters}
AGREE = [name for name in PRINTED if name != "big"]


def millions(name: str) -> int:
    """The row's count as the paper prints it."""
    return round(authors_parameters(ROWS[name]) / 1e6)


def test_ten_rows_come_out_to_the_printed_digit_and_big_does_not() -> None:
    """Breaks if a part of the authors' model is left out: without the biases d_ff = 1024 is 52.49M,
    printed as 53M."""
    assert len(AGREE) == 10
    assert {name: millions(name) for name in AGREE} == {name: PRINTED[name] for name in AGREE}
    assert (millions("big"), PRINTED["big"]) == (218, 213)


@pytest.mark.parametrize("name", ["base", "c_n2", "c_dff4096", "c_dmodel1024", "big"])
def test_the_count_is_that_of_pytorchs_layers(name: str) -> None:
    """PyTorch's layers have the biases, too; the embedding is one matrix, as in section 3.4."""
    row = ROWS[name]
    with torch.device("meta"):
        parts = [nn.Embedding(VOCABULARY, row.d_model), nn.Embedding(TARGET_SPACES, row.d_model)]
        for layer in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
            parts += [layer(row.d_model, row.h, row.d_ff) for _ in range(row.N)]
    counted = sum(weight.numel() for part in parts for weight in part.parameters())
    assert authors_parameters(row) == counted


def test_a_smaller_key_has_a_smaller_bias() -> None:
    """Breaks if d_v, or d_model, is taken for d_k: 18 attentions, two biases of 8 keys of 16."""
    row = ROWS["b_dk16"]
    biases = authors_parameters(row) - parameters(row, VOCABULARY) - TARGET_SPACES * 512
    assert biases == 18 * (2 * 8 * 16 + 8 * 64 + 512)


@pytest.mark.parametrize("name", ["e_learned", "big_en_fr", "parsing", "tiny"])
def test_rows_that_the_code_has_not_in_this_vocabulary_have_no_count(name: str) -> None:
    assert authors_parameters(ROWS[name]) is None
