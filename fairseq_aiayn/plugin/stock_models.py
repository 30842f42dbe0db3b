"""Stock Transformers of fairseq, run in fairseq, so that they are looked at as ours are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models.transformer import TransformerModelBase
from fairseq.modules import MultiheadAttention
from torch import Tensor

from fairseq_aiayn.inference.folder import END, TextProcessing, Vocabulary


def stock_attention_weights(
    model: TransformerModelBase, source: Tensor, target: Tensor
) -> dict[str, Tensor]:
    """Return for a stock model what `all_attention_weights` returns for ours.

    source is [S], target is [T], shifted right. Returns "encoder" [N, h, S, S], "decoder"
    [N, h, T, T] and "cross" [N, h, T, S]. The model must be in evaluation mode.
    """
    kinds: dict[str, list[MultiheadAttention]] = {
        "encoder": [layer.self_attn for layer in model.encoder.layers],
        "decoder": [layer.self_attn for layer in model.decoder.layers],
        "cross": [layer.encoder_attn for layer in model.decoder.layers],
    }
    weights: dict[MultiheadAttention, Tensor] = {}

    def ask(_module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return args, {**kwargs, "need_head_weights": True}

    def record(module: Any, _args: tuple, output: tuple[Tensor, Tensor]) -> None:
        weights[module] = output[1][:, 0]  # [h, B, Q, K] of a batch of one

    modules = [module for layers in kinds.values() for module in layers]
    hooks = [module.register_forward_pre_hook(ask, with_kwargs=True) for module in modules]
    hooks += [module.register_forward_hook(record) for module in modules]
    try:
        for module in modules:
            module.onnx_trace = True  # otherwise PyTorch's kernel, which averages over the heads
        with torch.no_grad():
            model(source[None], torch.tensor([len(source)]), target[None])
    finally:
        for hook in hooks:
            hook.remove()
        for module in modules:
            module.onnx_trace = False
    return {kind: torch.stack([weights[m] for m in layers]) for kind, layers in kinds.items()}


class StockTranslator:
    """What `aiayn attention` uses of a Translator, for a checkpoint of a stock Transformer."""

    def __init__(
        self, checkpoint: Path, data: Path, text: TextProcessing, pieces_file: Path | None
    ) -> None:
        """Raises OSError or ValueError, with the file and the rule, for a checkpoint that cannot be
        read or whose model is not a Transformer."""
        models, _, self.task = load_model_ensemble_and_task(
            [str(checkpoint)], arg_overrides={"data": str(data)}
        )
        if not isinstance(models[0], TransformerModelBase):
            raise ValueError(
                f"{checkpoint}: expected a Transformer, got {type(models[0]).__name__}"
            )
        self.model = models[0].eval()
        self.config = SimpleNamespace(text=text)
        self.cut_source = text.cutter(self.task.cfg.source_lang, pieces_file)
        self.cut_target = text.cutter(self.task.cfg.target_lang, pieces_file)
        self.source = Vocabulary(tuple(self.task.source_dictionary.symbols))
        self.target = Vocabulary(tuple(self.task.target_dictionary.symbols))

    def search(self, sentences: Sequence[str]) -> list[list[SimpleNamespace]]:
        """Return the best translation of each sentence by fairseq's own search, with its pieces."""
        generator = self.task.build_generator([self.model], GenerationConfig())
        outputs = []
        for sentence in sentences:
            tokens = torch.tensor([self.source.numbers(self.cut_source(sentence))])
            lengths = torch.tensor([tokens.size(1)])
            sample = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
            ((best, *_),) = self.task.inference_step(generator, [self.model], sample)
            pieces = tuple(self.target.pieces(best["tokens"].tolist()))
            outputs.append([SimpleNamespace(pieces=pieces)])
        return outputs

    def attention_of(self, source: Sequence[int], target: Sequence[int] = ()) -> dict[str, Tensor]:
        """Return what every head attends to, for tokens with the end token."""
        shifted = [END, *target[:-1]]
        return stock_attention_weights(self.model, torch.tensor(source), torch.tensor(shifted))
