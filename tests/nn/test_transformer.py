"""Sections 3.1 and 3.4: causality, padding, tied matrices, initial values and the shape of the
assembled Transformer."""

import pytest
import torch
from torch import Tensor

from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import Sharing, Transformer, create_transformer

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


def test_later_target_tokens_change_no_earlier_output() -> None:
    """Breaks if the target is not masked, or the mask is off by one."""
    model = transformer()
    source, target = words(2, 5), words(2, 6)
    logits = model(source, target)
    for t in range(1, 6):
        changed = target.clone()
        changed[:, t:] = words(2, 6 - t)
        changed[:, t] = (target[:, t] - 3) % (V - 4) + 4  # always a different token
        again = model(source, changed)
        torch.testing.assert_close(again[:, :t], logits[:, :t], rtol=0, atol=1e-12)
        assert not torch.allclose(again[:, t], logits[:, t]), "its own output must change"


def test_gradient_of_an_output_reaches_exactly_the_tokens_before_it() -> None:
    """Breaks if a position sees the future, or too little of the past."""
    model = transformer()
    inputs: list[Tensor] = []

    def keep(module: torch.nn.Module, arguments: tuple, embedded: Tensor) -> None:
        embedded.retain_grad()
        inputs.append(embedded)

    model.decoder.dropout.register_forward_hook(keep)
    for t in range(5):
        logits = model(words(1, 4), words(1, 5))
        logits[0, t].square().sum().backward()
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


def test_no_mask_is_built_where_nothing_is_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the fast path is lost: torch's fastest kernels take no mask, and the target needs
    only the causal one."""
    calls: list[tuple[bool, bool]] = []
    fused = torch.nn.functional.scaled_dot_product_attention

    def record(
        *tensors: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool
    ) -> Tensor:
        calls.append((attn_mask is not None, is_causal))
        return fused(*tensors, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", record)
    model = transformer()
    padded = torch.tensor([[4, 5, PAD], [4, 5, 6]])
    for source, masked in ((words(2, 3), False), (padded, True)):
        calls.clear()
        model(source, words(2, 4))
        assert calls == [(masked, False)] * 2 + [(False, True), (masked, False)] * 2


def test_tied_embeddings_are_one_parameter() -> None:
    """Section 3.4. Breaks if a matrix is a copy with the same values."""
    model = transformer()
    matrices = [model.encoder.embedding, model.decoder.embedding, model.decoder.projection]
    assert len({matrix.weight.data_ptr() for matrix in matrices}) == 1
    assert [tuple(p.shape) for p in model.parameters()].count((V, 8)) == 1


def test_tied_gradient_is_the_sum_of_the_untied_ones() -> None:
    """Breaks if one of the three uses is detached."""
    source, target = words(2, 5), words(2, 4)
    tied, untied = transformer("all"), transformer("none")
    weights = tied.state_dict()
    untied.load_state_dict(weights)
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
    source = torch.tensor([[V + 6, 4, 2]])
    assert model(source, words(1, 4)).shape == (1, 4, V)
    shared = model.decoder.embedding is model.decoder.projection
    assert shared == (matrices == 2)
    assert model.encoder.embedding is not model.decoder.embedding


def test_sharing_needs_one_vocabulary() -> None:
    """Breaks if the smaller vocabulary silently uses a part of the larger one's matrix."""
    with pytest.raises(
        ValueError, match="one joined vocabulary; got 27 source and 20 target types"
    ):
        transformer("all", V_source=V + 7)


def test_only_the_feed_forward_layers_and_the_norms_have_biases() -> None:
    """Sections 3.2.2 and 3.3. Breaks if a projection of an attention, or the last one, has a
    bias."""
    biased = {name for name, _ in transformer().named_parameters() if name.endswith("bias")}
    assert biased
    assert all("feed_forward.W_" in name or name.endswith("_norm.norm.bias") for name in biased)
    layers = 2 * DIMENSIONS.N
    norms = DIMENSIONS.N * (2 + 3)
    assert len(biased) == 2 * layers + norms, "a norm after every sub-layer, and none besides"


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
        torch.testing.assert_close(
            output.var(-1, unbiased=False).mean().item(), 1.0, atol=1e-3, rtol=0
        )


def test_initial_embeddings_have_unit_variance_after_scaling() -> None:
    """Breaks if √d_model is applied twice or not at all, so that positions outweigh words or the
    reverse."""
    torch.manual_seed(0)
    sizes = Dimensions(N=1, d_model=64, d_ff=8, h=1, d_k=4, d_v=4, P_drop=0.0)
    embedding = create_transformer(sizes, 500, 500, PAD).encoder.embedding
    assert embedding(torch.arange(500)[None]).std().item() == pytest.approx(1.0, abs=0.02)
    assert embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)


def test_learned_positions_have_a_length_for_either_side() -> None:
    """Table 3, row E. Breaks if source and target lengths are swapped, or if the sinusoids are
    still used."""
    model = create_transformer(DIMENSIONS, V, V, PAD, learned_lengths=(5, 3)).eval()
    model(words(1, 5), words(1, 3))
    with pytest.raises(ValueError, match="end at length 5, got a sequence of 6 tokens"):
        model(words(1, 6), words(1, 3))
    with pytest.raises(ValueError, match="end at length 3, got a sequence of 4 tokens"):
        model(words(1, 5), words(1, 4))
    before = model(words(1, 5).fill_(4), words(1, 3).fill_(4))
    with torch.no_grad():
        for stack in (model.encoder, model.decoder):
            stack.position.weight.zero_()
    after = model(words(1, 5).fill_(4), words(1, 3).fill_(4))
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after[0, 1], after[0, 2], msg="equal tokens without positions")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        *(
            (name, 0, f"{name} must be at least 1, got 0")
            for name in ("N", "d_ff", "h", "d_k", "d_v")
        ),
        ("P_drop", 1.0, r"P_drop must be in \[0, 1\), got 1.0"),
        ("attention_dropout", -0.1, r"attention_dropout must be in \[0, 1\), got -0.1"),
    ],
)
def test_impossible_shapes_are_refused(field: str, value: float, message: str) -> None:
    """Breaks if a Transformer without layers or heads is built."""
    with pytest.raises(ValueError, match=message):
        Dimensions(**{**vars(DIMENSIONS), field: value})
