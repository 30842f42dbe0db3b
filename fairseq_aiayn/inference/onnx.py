"""A translation model as two ONNX graphs: the encoder, and one step of the decoder with its state.

Shape letters as in fairseq_aiayn.nn; also n, the number of target positions so far. The tensors of
all layers of the decoder are one, the layer first.
"""

from __future__ import annotations

import inspect
import logging
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from fairseq_aiayn.inference.ctranslate2 import position_table
from fairseq_aiayn.inference.engine import longest_sentence
from fairseq_aiayn.inference.folder import PIECES_FILES, Config, Model, model_card
from fairseq_aiayn.inference.marian import TEXT_CODE, text_values, write_vocabularies
from fairseq_aiayn.nn.layers import positions
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.text import optional, whole_folder

MEMORY = ["memory_K", "memory_V"]

USE = """This directory is for ONNX Runtime. encoder.onnx makes memory_K and memory_V of source
[B, S], padded with {padding}. decoder.onnx takes a step: of the newest tokens [B], source,
memory_K, memory_V, self_K [{N}, B, {h}, n, {d_k}] and self_V [{N}, B, {h}, n, {d_v}] of n
positions, at first none, it makes log P of the next token [B, V], and self_K and self_V of n + 1.
The code below takes the most probable token; a beam search must choose the rows of self_K and
self_V that go on. Empty sentences must be left out.

    from pathlib import Path

    import numpy
    from onnxruntime import InferenceSession

    folder = Path("THIS_FOLDER")
    encoder, decoder = (InferenceSession(folder / f"{{one}}coder.onnx") for one in ("en", "de"))

"""

GREEDY = """
    def translate(sentence):
        numbers = [source.get(piece, {unknown}) for piece in cut(sentence)] + [{end}]
        given = {{"source": numpy.array([numbers])}}
        given["memory_K"], given["memory_V"] = encoder.run(None, given)
        state = [numpy.zeros(({N}, 1, {h}, 0, size), numpy.float32) for size in ({d_k}, {d_v})]
        written = [{end}]
        for step in range({longest}):
            own = {{"tokens": numpy.array(written[-1:]), "self_K": state[0], "self_V": state[1]}}
            log_p, *state = decoder.run(None, given | own)
            log_p[:, [{padding}] if step else [{padding}, {end}]] = -numpy.inf
            written.append(int(log_p.argmax()))
            if written[-1] == {end}:
                break
        return join([types[number] for number in written if number in types])
"""


def to_onnx(model: Model, told: Mapping[str, str], path: Path) -> None:
    """Write a directory with the two graphs; it appears whole or not at all.

    Raises ValueError if `path` exists, a package is missing, or the model is a parser.
    """
    if model.config.task != "translation":
        raise ValueError(
            "ONNX: the model must be a translation model, ONNX Runtime builds no trees"
        )
    with optional("onnx", "onnxscript"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    config = replace(model.config, told=dict(told), precision="float32")
    longest = f"len(numbers) - 1 + {config.search.extra_length}"
    if config.learned_lengths:
        longest = f"min({longest}, {longest_sentence(config, side=1)})"
    values = vars(config.sizes) | text_values(config) | {"longest": longest}
    use = f"{USE}{TEXT_CODE}{GREEDY}".format(**values)
    parameters = sum(one.numel() for one in model.transformer.parameters())
    with whole_folder(path) as part:
        _write_graphs(model, part)
        write_vocabularies(model, part)
        if model.pieces_file:
            shutil.copyfile(model.pieces_file, part / PIECES_FILES[config.text.pieces])
        (part / "README.md").write_text(model_card(config, parameters, use), encoding="utf-8")


class EncoderGraph(nn.Module):
    """source [B, S], padded on either side → keys [N, B, h, S, d_k] and values [N, B, h, S, d_v]
    of the memory, one for each layer of the decoder."""

    def __init__(self, transformer: Transformer, config: Config):
        super().__init__()
        self.transformer = transformer
        table = position_table(transformer.encoder.position, config)
        self.register_buffer("table", table)

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        encoder, padding = self.transformer.encoder, self.transformer.padding
        x = encoder.embedding(source) + self.table[positions(source, padding)]
        mask = source.ne(padding)[:, None, None, :]
        for layer in encoder.layers:
            x = layer(x, mask)
        pairs = [layer.cross_attention.keys_values(x) for layer in self.transformer.decoder.layers]
        K, V = zip(*pairs, strict=True)
        return torch.stack(K), torch.stack(V)


class DecoderGraph(nn.Module):
    """One step: the newest tokens and the state before it → log P(next token) and the new state."""

    def __init__(self, transformer: Transformer, config: Config):
        super().__init__()
        self.transformer = transformer
        table = position_table(transformer.decoder.position, config)
        self.register_buffer("table", table)

    def forward(
        self,
        tokens: Tensor,
        source: Tensor,
        memory_K: Tensor,
        memory_V: Tensor,
        self_K: Tensor,
        self_V: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """tokens [B], source [B, S], memory as from the encoder, self_K [N, B, h, n, d_k] and
        self_V [N, B, h, n, d_v] → log P [B, V], and the last two with n + 1."""
        decoder = self.transformer.decoder
        mask = source.ne(self.transformer.padding)[:, None, None, :]
        x = decoder.embedding(tokens[:, None]) + self.table[self_K.size(3)]
        keys, values = [], []
        for number, layer in enumerate(decoder.layers):
            own, cross = layer.self_attention, layer.cross_attention
            Q, K, V = own.queries_keys_values(x)
            keys.append(torch.cat([self_K[number], K], dim=2))
            values.append(torch.cat([self_V[number], V], dim=2))
            x = layer.self_attention_norm(x, own.attend(Q, keys[-1], values[-1]))
            seen = cross.attend(cross.queries(x), memory_K[number], memory_V[number], mask)
            x = layer.cross_attention_norm(x, seen)
            x = layer.feed_forward_norm(x, layer.feed_forward(x))
        log_p = decoder.projection.project(x)[:, 0].log_softmax(-1)
        return log_p, torch.stack(keys), torch.stack(values)


def _write_graphs(model: Model, part: Path) -> None:
    """Trace the two modules with an example, whose B, S and n do not stay in the graphs."""
    sizes, transformer = model.config.sizes, model.transformer
    encoder, decoder = (
        kind(transformer, model.config).eval() for kind in (EncoderGraph, DecoderGraph)
    )
    B, S, n = (torch.export.Dim(name) for name in "BSn")
    words = {0: B, 1: S}
    source = torch.full((3, 7), transformer.padding + 1)
    memory = encoder(source)
    _write_graph(encoder, (source,), [words], MEMORY, part / "encoder.onnx")
    own = [torch.zeros(sizes.N, 3, sizes.h, 5, size) for size in (sizes.d_k, sizes.d_v)]
    inputs = (source[:, 0], source, *memory, *own)
    axes = [{0: B}, words, *[{1: B, 3: S}] * 2, *[{1: B, 3: n}] * 2]
    _write_graph(decoder, inputs, axes, ["log_p", "next_K", "next_V"], part / "decoder.onnx")


def _write_graph(
    module: nn.Module,
    inputs: Sequence[Tensor],
    axes: Sequence[Mapping],
    outputs: Sequence[str],
    path: Path,
) -> None:
    names = list(inspect.signature(module.forward).parameters)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # on packages that are not needed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            tuple(inputs),
            input_names=names,
            output_names=list(outputs),
            dynamic_shapes=tuple(map(dict, axes)),
            verbose=False,
        )
    program.save(path)
