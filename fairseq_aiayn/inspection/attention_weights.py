"""The attention weights softmax(QKᵀ/√d_k) (Equation 1) of every layer and head of a model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from fairseq_aiayn.nn.attention import MultiHeadAttention, attention_weights
from fairseq_aiayn.nn.transformer import Transformer


def all_attention_weights(
    transformer: Transformer, source: Tensor, target: Tensor
) -> dict[str, Tensor]:
    """Run a model over tokens and return what every head of every layer attends to.

    source is [S] or [B, S], padded on either
    side; target is [T] or [B, T], shifted right and padded on the right. Returns "encoder"
    [N, h, S, S], "decoder" [N, h, T, T] and "cross" [N, h, T, S]; for a batch [N, B, h, ...]. Each
    row sums to 1 and is exactly 0 at source padding and at later target positions (with a window,
    source padding attends to itself). Dropout is off during the call. Raises ValueError unless
    source and target are both one sentence or both one batch.
    """
    if source.dim() != target.dim() or source.dim() not in (1, 2):
        shapes = f"{list(source.shape)} and {list(target.shape)}"
        raise ValueError(
            f"source and target must be [S] and [T], or [B, S] and [B, T]; are {shapes}"
        )
    modules = attentions(transformer)
    found: dict[str, list[Tensor]] = {kind: [] for kind in modules}
    alone = source.dim() == 1
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(evaluating(transformer))
        for kind, layers in modules.items():
            for layer in layers:
                stack.enter_context(recording(layer, found[kind]))
        transformer(*((source[None], target[None]) if alone else (source, target)))
    layers_of = {kind: torch.stack(weights) for kind, weights in found.items()}
    return {kind: w[:, 0] if alone else w for kind, w in layers_of.items()}


def attentions(transformer: Transformer) -> dict[str, list[MultiHeadAttention]]:
    """Return the attention modules of each kind, first layer first."""
    encoder, decoder = transformer.encoder.layers, transformer.decoder.layers
    return {
        "encoder": [layer.self_attention for layer in encoder],
        "decoder": [layer.self_attention for layer in decoder],
        "cross": [layer.cross_attention for layer in decoder],
    }


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode; afterwards restore the mode of each module."""
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in training.items():
            module.training = mode


@contextmanager
def recording(module: MultiHeadAttention, weights: list[Tensor]) -> Iterator[None]:
    """Append the weights [B, h, Q, K] of every call of the module to `weights`.

    They are recomputed from the inputs of the call.
    """
    signature = inspect.signature(module.forward)

    def record(_: nn.Module, args: tuple, kwargs: dict) -> None:
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        x, memory, mask, causal = call.args
        K, _V = module.keys_values(memory)
        legal = module.legal(x.size(1), mask, causal)
        weights.append(attention_weights(module.queries(x), K, legal))

    hook = module.register_forward_pre_hook(record, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
