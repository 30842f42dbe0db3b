"""A model's parameters in a safetensors file; a matrix that several parts share is stored once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fairseq_aiayn.messages import optional
from fairseq_aiayn.model_folder.config import Config
from fairseq_aiayn.nn.positions import SinusoidalPositions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer

TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class NoInitialValues(TorchFunctionMode):
    """Draws no initial values: on the meta device, PyTorch imports its compiler for each kind of
    draw, which takes longer than everything else that reads a folder."""

    def __torch_function__(
        self, function: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        kwargs = kwargs or {}
        module = getattr(function, "__module__", None)  # functions in C have none
        if module == "torch.nn.init" or function.__name__ == "uniform_":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


def empty_transformer(config: Config, V_source: int, V_target: int, padding: int) -> Transformer:
    """Build the model that a Config describes, without memory for its weights.

    Raises ValueError for sizes that no Transformer can have.
    """
    lengths = tuple(config.learned_lengths) if config.learned_lengths else None
    try:
        with torch.device("meta"), NoInitialValues():
            transformer = create_transformer(
                config.sizes, V_source, V_target, padding, config.sharing, learned_lengths=lengths
            )
    except (RuntimeError, TypeError):  # how PyTorch refuses numbers beyond 64 bits
        raise ValueError("its sizes must fit into 64 bits, do not") from None
    if lengths is None:  # sinusoids are computed when they are needed, not loaded
        for stack in (transformer.encoder, transformer.decoder):
            stack.position = SinusoidalPositions(config.sizes.d_model)
    return transformer.eval()


def save_weights(transformer: Transformer, precision: str, path: Path) -> None:
    """Write a model's parameters in a precision; raises ValueError for one that is not finite, and
    OSError if the file cannot be written."""
    with optional("safetensors"):
        from safetensors.torch import save_file
    converted = {  # a shared matrix has one name
        name: one.detach().to(TYPES[precision]).contiguous()
        for name, one in transformer.named_parameters()
    }
    for name, tensor in converted.items():
        require_finite(f"{name} in {precision}", tensor)
    with safetensors_writes(path):
        save_file(converted, path)


@contextmanager
def safetensors_writes(path: Path) -> Iterator[None]:
    """Turn the error that safetensors raises for a full disk into an OSError with the path."""
    with optional("safetensors"):
        from safetensors import SafetensorError
    try:
        yield
    except SafetensorError as error:
        raise OSError(f"{path}: {error}") from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file; raises OSError, or ValueError for a damaged one."""
    with optional("safetensors"):
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    try:
        return load_file(path)
    except SafetensorError:
        raise ValueError(f"{path}: must be a safetensors file, is not or is cut short") from None


def fill(transformer: Transformer, found: Mapping[str, Tensor], where: object) -> None:
    """Give a model of `empty_transformer` these parameters, as float32.

    Raises ValueError, with the place that they are from, for other parameters or shapes than the
    model's, for another type than a folder's, and for a value that is not finite.
    """
    names = dict(transformer.named_parameters())
    if odd := sorted(names.keys() ^ found.keys()):
        has = "lacks" if odd[0] in names else "has"
        raise ValueError(f"{where}: must have the parameters of its configuration, {has} {odd[0]}")
    for name, own in names.items():
        if found[name].shape != own.shape:
            raise ValueError(
                f"{where}: does not fit its configuration and vocabularies, {name} is "
                f"{list(found[name].shape)} there and {list(own.shape)} by them"
            )
        if found[name].dtype not in TYPES.values():
            kind = str(found[name].dtype).removeprefix("torch.")
            raise ValueError(f"{where}: {name} must be one of {', '.join(TYPES)}, is {kind}")
        require_finite(f"{where}: {name}", found[name])
    for name, tensor in found.items():
        module, _, attribute = name.rpartition(".")
        parameter = torch.nn.Parameter(tensor.float(), requires_grad=False)
        setattr(transformer.get_submodule(module), attribute, parameter)


def require_finite(name: str, tensor: Tensor) -> None:
    """Raise ValueError, with the name, unless all values are numbers."""
    if not tensor.isfinite().all():
        raise ValueError(f"{name} must have finite values, has infinite ones or NaN")
