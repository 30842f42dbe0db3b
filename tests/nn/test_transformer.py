"""Sections 3.1 and 3.4: causality, padding, tied matrices, post-norm and the shape of the assembled
Transformer."""

import pytest
import torch
from torch import Tensor

from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import (
    Sharing,
    Transformer,
    create_transformer,
    needed_mask,
    padding_mask,
)

DIMENSIONS = Dimensions(N=2, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.1)
PAD, V = 1, 20


@pytest.fixture(autouse=True)
def seed() -> None:
    """The same weights and words, in whatever order the tests run."""
    torch.manual_seed(3)


def transformer(sharing: Sharing = "all", V_source: int = V) -> Transformer:
    """A Transformer in float64, in evaluation mode."""
    return create_transformer(DIMENSIONS, V_source, V, PAD, sharing).double().eval()


def words(*size: int) -> Tensor:
    """Random tokens, none of them padding."""
    return torch.randint(4, V, size)


def test_gradient_of_an_output_reaches_exactly_the_tokens_before_it() -> None:
    """Breaks if a position sees the future, or too little of the past."""
    model = transformer()
    inputs: list[Tensor] = []

    def keep(module: torch.nn.Module, arguments: tuple, embedded: Tensor) -> None:
        embedded.retain_grad()
        inputs.append(embedded)

    model.decoder.dropout.register_forward_hook(keep)
    for t in range(5):
        model(words(1, 4), words(1, 5))[0, t].square().sum().backward()
        reached = inputs.pop().grad[0].abs().sum(-1) > 0
        assert reached.tolist() == [position <= t for position in range(5)]


def test_padding_and_company_change_nothing() -> None:
    """Breaks if tokens attend to padding, padding moves positions, or sentences of a batch see each
    other."""
    model = transformer()
    source, target = words(4), words(3)
    alone = model(source[None], target[None])[0]
    for left, right in ((0, 3), (3, 0), (2, 5)):
        padded = torch.cat([torch.full((left,), PAD), source, torch.full((right,), PAD)])
        companion = words(len(padded))
        targets = torch.stack([torch.cat([target, torch.full((2,), PAD)]), words(5)])
        for rows in ((0, 1), (1, 0)):
            sources = torch.stack([padded, companion])[list(rows)]
            logits = model(sources, targets[list(rows)])[rows.index(0)]
            torch.testing.assert_close(logits[:3], alone, rtol=0, atol=1e-12)


def test_a_mask_is_needed_where_something_is_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the fast path is lost: torch's fastest kernels take no mask, and the target needs
    only the causal one."""
    calls: list[tuple[bool, bool]] = []
    fused = torch.nn.functional.scaled_dot_product_attention

    def record(
        *tensors: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool
    ) -> Tensor:
        calls.append((attn_mask is not None, is_causal))
        return fused(*tensors, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal)

    model, whole = transformer(), words(2, 3)
    padded = torch.tensor([[4, 5, PAD], [4, 5, 6]])
    assert needed_mask(whole, PAD) is None
    assert padding_mask(padded, PAD)[:, 0, 0].tolist() == [[True, True, False], [True] * 3]
    assert torch.equal(needed_mask(padded, PAD), padding_mask(padded, PAD))
    torch.testing.assert_close(
        model.encode(whole, None), model.encode(whole, padding_mask(whole, PAD))
    )
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", record)
    for source, masked in ((whole, False), (padded, True)):
        calls.clear()
        mask = needed_mask(source, PAD)
        model.decoder(words(2, 4), model.encode(source, mask), mask)
        assert calls == [(masked, False)] * 2 + [(False, True), (masked, False)] * 2


@pytest.mark.parametrize("learned", [False, True])
def test_a_transformer_can_be_exported(learned: bool) -> None:
    """Whole, for any batch and lengths; breaks if forward reads a value of a tensor."""
    lengths = (40, 30) if learned else None
    model = create_transformer(DIMENSIONS, V, V, PAD, learned_lengths=lengths).eval()
    batch = torch.export.Dim("batch")
    S, T = (torch.export.Dim(name, max=30) for name in ("S", "T"))
    padded = torch.tensor([[PAD, 4, 5, 2], [6, 7, 8, 2], [PAD, PAD, 9, 2]])
    exported = torch.export.export(
        model,
        (padded, words(3, 5)),
        dynamic_shapes={"source": {0: batch, 1: S}, "target": {0: batch, 1: T}},
    ).module()
    for source, target in ((padded, words(3, 5)), (words(5, 7), words(5, 3))):
        torch.testing.assert_close(exported(source, target), model(source, target))


def test_tied_embeddings_are_one_parameter_with_the_sum_of_three_gradients() -> None:
    """Section 3.4. Breaks if a matrix is a copy with the same values, or one of the three uses is
    detached."""
    source, target = words(2, 5), words(2, 4)
    tied, untied = transformer("all"), transformer("none")
    assert [tuple(p.shape) for p in tied.parameters()].count((V, 8)) == 1
    untied.load_state_dict(tied.state_dict())
    for model in (tied, untied):
        model(source, target).square().sum().backward()
    three = [untied.encoder.embedding, untied.decoder.embedding, untied.decoder.projection]
    assert all(matrix.weight.grad.any() for matrix in three)
    expected = sum(matrix.weight.grad for matrix in three)
    torch.testing.assert_close(tied.encoder.embedding.weight.grad, expected)


@pytest.mark.parametrize(("sharing", "matrices"), [("target", 2), ("none", 3)])
def test_vocabularies_of_different_sizes(sharing: Sharing, matrices: int) -> None:
    """Breaks if the size of the source vocabulary is used for the target, or vice versa."""
    model = transformer(sharing, V_source=V + 7)
    assert model(torch.tensor([[V + 6, 4, 2]]), words(1, 4)).shape == (1, 4, V)
    shared = model.decoder.embedding is model.decoder.projection
    assert shared == (matrices == 2)
    assert model.encoder.embedding is not model.decoder.embedding
    with pytest.raises(ValueError, match="one joined vocabulary; got 27 source and 20 target"):
        transformer("all", V_source=V + 7)


def test_only_the_feed_forward_layers_and_the_norms_have_biases() -> None:
    """Sections 3.2.2 and 3.3. Breaks if a projection of an attention, or the last one, has a
    bias."""
    biased = {name for name, _ in transformer().named_parameters() if name.endswith("bias")}
    assert all("feed_forward.W_" in name or name.endswith("_norm.norm.bias") for name in biased)
    networks, norms = 2 * DIMENSIONS.N, DIMENSIONS.N * (2 + 3)
    assert len(biased) == 2 * networks + norms, "a norm after every sub-layer, and none besides"


def test_every_layer_ends_in_a_norm() -> None:
    """Section 3.1 is post-norm: with initial gains, each layer's output has mean 0 and variance 1
    at every position."""
    model = transformer()
    outputs: list[Tensor] = []
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.register_forward_hook(lambda module, arguments, output: outputs.append(output))
    model(words(2, 5), words(2, 6))
    assert len(outputs) == 4
    for output in outputs:
        assert output.mean(-1).abs().max() < 1e-12
        variance = output.var(-1, unbiased=False)
        torch.testing.assert_close(variance, torch.ones_like(variance), atol=1e-3, rtol=0)


def test_learned_positions_have_a_length_for_either_side() -> None:
    """Table 3, row E. Breaks if source and target lengths are swapped, or if the sinusoids are
    still used."""
    model = create_transformer(DIMENSIONS, V, V, PAD, learned_lengths=(5, 3)).eval()
    same = words(1, 5).fill_(4), words(1, 3).fill_(4)
    before = model(*same)
    with pytest.raises(ValueError, match="end at length 5, got a sequence of 6 tokens"):
        model(words(1, 6), words(1, 3))
    with pytest.raises(ValueError, match="end at length 3, got a sequence of 4 tokens"):
        model(words(1, 5), words(1, 4))
    with torch.no_grad():
        for stack in (model.encoder, model.decoder):
            stack.position.weight.zero_()
    after = model(*same)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after[0, 1], after[0, 2], msg="equal tokens without positions")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        *((name, 0, "must be at least 1, got 0") for name in ("N", "d_ff", "h", "d_k", "d_v")),
        ("P_drop", 1.0, r"must be in \[0, 1\), got 1.0"),
        ("attention_dropout", -0.1, r"must be in \[0, 1\), got -0.1"),
    ],
)
def test_impossible_shapes_are_refused(field: str, value: float, message: str) -> None:
    """Breaks if a Transformer without layers or heads is built."""
    with pytest.raises(ValueError, match=f"{field} {message}"):
        Dimensions(**{**vars(DIMENSIONS), field: value})
