"""Stock Transformers of fairseq, run in fairseq, so that they are looked at as ours are."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models.transformer import TransformerModelBase
from fairseq.modules import MultiheadAttention
from torch import Tensor

from fairseq_aiayn.attention_maps.weights import record_weights
from fairseq_aiayn.inference.description import Vocabulary
from fairseq_aiayn.inference.export import Checkpoint
from fairseq_aiayn.nn.attention import attention_weights

__all__ = ["StockTranslator"]


def stock_attention_weights(
    model: TransformerModelBase, source: Tensor, target: Tensor
) -> dict[str, Tensor]:
    """Return for a stock model what `all_attention_weights` returns for ours, "encoder"
    [N, h, S, S], "decoder" [N, h, T, T] and "cross" [N, h, T, S], of a source [S] and a target [T],
    shifted right."""
    kinds = {
        "encoder": [layer.self_attn for layer in model.encoder.layers],
        "decoder": [layer.self_attn for layer in model.decoder.layers],
        "cross": [layer.encoder_attn for layer in model.decoder.layers],
    }
    inputs = (source[None], torch.tensor([len(source)]), target[None])
    return record_weights(model, kinds, stock_weights_of_call, *inputs)


def stock_weights_of_call(
    module: MultiheadAttention,
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    **rest: object,
) -> Tensor:
    """Return the weights [B, h, Q, K] of a call of fairseq's attention without padding: query
    [Q, B, d_model], key [K, B, d_model], attn_mask [Q, K] of 0 and −∞."""
    Q, K = (
        x.transpose(0, 1).unflatten(-1, (module.num_heads, -1)).transpose(1, 2)
        for x in (module.q_proj(query), module.k_proj(key))
    )  # [B, h, L, d_k]
    return attention_weights(Q, K, None if attn_mask is None else attn_mask == 0)


class StockTranslator:
    """What `aiayn attention` uses of a Translator, for a checkpoint of a stock Transformer."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Raises OSError or ValueError, with the file and the rule, for a checkpoint that cannot be
        read or whose model is not a Transformer."""
        models, _, self.task = load_model_ensemble_and_task(
            [str(checkpoint.path)], arg_overrides={"data": str(checkpoint.data)}
        )
        if not isinstance(models[0], TransformerModelBase):
            raise ValueError(
                f"{checkpoint.path}: expected a Transformer, got {type(models[0]).__name__}"
            )
        text, pieces_file = checkpoint.text, checkpoint.pieces_file
        self.model = models[0].eval()
        self.config = SimpleNamespace(text=text)
        self.cut_source = text.cutter(self.task.cfg.source_lang, pieces_file)
        self.join = text.joiner(self.task.cfg.target_lang)
        self.cut_target = text.cutter(self.task.cfg.target_lang, pieces_file)
        self.source = Vocabulary(tuple(self.task.source_dictionary.symbols))
        self.target = Vocabulary(tuple(self.task.target_dictionary.symbols))

    def search(self, sentences: Sequence[str]) -> list[list[SimpleNamespace]]:
        """Return the best translation of each sentence by fairseq's own search, with its pieces."""
        generator = self.task.build_generator([self.model], GenerationConfig())
        outputs = []
        for sentence in sentences:
            tokens = torch.tensor([self.source.numbers(self.cut_source(sentence))])
            inputs = {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.size(1)])}
            ((best, *_),) = self.task.inference_step(generator, [self.model], {"net_input": inputs})
            pieces = self.target.pieces(best["tokens"].tolist())
            outputs.append([SimpleNamespace(pieces=tuple(pieces), text=self.join(pieces))])
        return outputs

    def attention_of(self, source: Sequence[int], target: Sequence[int] = ()) -> dict[str, Tensor]:
        """Return what every head attends to, for tokens with the end token."""
        shifted = [self.task.target_dictionary.eos(), *target[:-1]]
        return stock_attention_weights(self.model, torch.tensor(source), torch.tensor(shifted))
