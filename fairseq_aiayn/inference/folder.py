"""A model folder is written whole or not at all, and read strictly; its model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fairseq_aiayn.files import whole_folder
from fairseq_aiayn.inference.description import (
    CONFIG,
    CTRANSLATE2_FILES,
    FOR_CTRANSLATE2,
    PADDING,
    SOURCE,
    TARGET,
    TEXT_FILES,
    WEIGHTS,
    Config,
    Model,
    Precision,
    Vocabulary,
    read_config,
    read_vocabulary,
    sha256_of,
)
from fairseq_aiayn.nn.layers import SinusoidalPositions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer

__all__ = ["read_folder", "write_folder"]


def write_folder(model: Model, path: Path, for_ctranslate2: bool = False) -> None:
    """Write a folder, with copies of the vocabularies' files, whole or not at all; raises
    ValueError if `path` exists, the file of pieces cuts nothing or a parameter is not finite in the
    folder's precision, and OSError if a file cannot be read or written."""
    model.config.text.cutter(model.config.source_lang, model.pieces_file)  # else refused too late
    with whole_folder(path) as part:
        save_weights(model.transformer, model.config.precision, part / WEIGHTS)
        for vocabulary, name in ((model.source, SOURCE), (model.target, TARGET)):
            shutil.copyfile(vocabulary.file, part / name)
        copy = model.config.text.file_in(part)
        if copy and model.pieces_file:
            shutil.copyfile(model.pieces_file, copy)
        if for_ctranslate2:
            from fairseq_aiayn.inference.ctranslate2_writer import write_ctranslate2

            write_ctranslate2(model, part / FOR_CTRANSLATE2)
        (part / "README.md").write_text(model_card(model), encoding="utf-8")
        # Last: what a killed run leaves has no configuration, and is no model
        names = (WEIGHTS, *CTRANSLATE2_FILES)
        sums = {name: digest for name in names if (digest := sha256_of(part / name))}
        content = asdict(replace(model.config, sha256=sums))
        text = json.dumps(content, indent=2, ensure_ascii=False)
        (part / CONFIG).write_text(f"{text}\n", encoding="utf-8")


def read_folder(path: Path) -> Model:
    """Read a folder; raises OSError for a file that is missing, and ValueError, with the file and
    the rule, for one that is damaged, of another version, or does not fit the others."""
    if not path.is_dir():
        raise ValueError(f"{path}: expected the folder of a model, which aiayn export writes")
    config = read_config(path, (WEIGHTS, *TEXT_FILES))
    source, target = (read_vocabulary(path / name) for name in (SOURCE, TARGET))
    try:
        weights = load_file(path / WEIGHTS)
    except SafetensorError as error:
        raise ValueError(f"{path / WEIGHTS}: expected a safetensors file: {error}") from error
    transformer = build_transformer(config, source, target, weights, path / WEIGHTS)
    return Model(config, transformer, source, target, config.text.file_in(path), str(path))


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


def build_transformer(
    config: Config,
    source: Vocabulary,
    target: Vocabulary,
    weights: Mapping[str, Tensor],
    where: object,
) -> Transformer:
    """Build the model that a Config describes with these parameters as float32, in no more memory
    than theirs; a shared matrix may have one of its names or all of them. Raises ValueError, with
    `where`, for sizes that no Transformer can have, for other parameters or shapes than the
    model's, and for a value that is not finite."""
    sizes, learned = config.sizes, config.learned_lengths
    try:
        with torch.device("meta"), NoInitialValues():
            transformer = create_transformer(
                sizes, len(source), len(target), PADDING, config.sharing, learned or (1, 1)
            )
        if learned is None:  # sinusoids are computed when the weights have shown their size
            none = SinusoidalPositions(2, max_length=0)
            transformer.encoder.position = transformer.decoder.position = none
        given = {name: tensor.float() for name, tensor in weights.items()}
        first: dict[Tensor, str] = {}
        for name, parameter in transformer.named_parameters(remove_duplicate=False):
            other = first.setdefault(parameter, name)
            if other in given:
                given.setdefault(name, given[other])
        require_finite(given)
        transformer.load_state_dict(given, strict=True, assign=True)
    except (RuntimeError, TypeError, ValueError) as error:  # PyTorch's for numbers beyond 64 bits
        raise ValueError(f"{where}: does not fit its configuration: {error}") from error
    if learned is None:
        sinusoids = SinusoidalPositions(sizes.d_model)
        transformer.encoder.position = transformer.decoder.position = sinusoids
    return transformer.eval().requires_grad_(False)


def save_weights(transformer: Transformer, precision: Precision, path: Path) -> None:
    """Write a model's parameters in a precision; raises ValueError for one that is not finite."""
    converted = {  # a shared matrix has one name
        name: parameter.detach().to(getattr(torch, precision)).contiguous()
        for name, parameter in transformer.named_parameters()
    }
    require_finite(converted)
    path.write_bytes(save(converted))


def require_finite(weights: Mapping[str, Tensor]) -> None:
    """Raise ValueError, with the name, for values that are not finite."""
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ValueError(f"{name}: expected finite values in {kind}, got infinity or NaN")


NOT_TOLD = "not recorded"


def model_card(model: Model) -> str:
    """Return the text of the card."""
    config, options = model.config, model.config.options
    parameters = sum(parameter.numel() for parameter in model.transformer.parameters())
    sizes = ", ".join(f"{name} {value:g}" for name, value in vars(config.sizes).items() if value)
    search = (
        f"beam {config.search.beam}, α {config.search.alpha:g}, output at most "
        f"{config.search.extra_length} tokens longer than the input"
    )
    training = {
        "--max-tokens": options.get("max_tokens", NOT_TOLD),
        "--update-freq": str(options.get("update_freq", NOT_TOLD)).strip("[]"),
        "processes": options.get("distributed_world_size", NOT_TOLD),
        "updates": f"at most {options.get('max_update', NOT_TOLD)}",
        "seed": options.get("seed", NOT_TOLD),
        "initial values": options.get("initialization", NOT_TOLD),
    }
    training |= {name: config.told.get(name, NOT_TOLD) for name in ("commit", "processor")}
    told = {name: config.told.get(name, NOT_TOLD) for name in ("data", "scores", "licence", "use")}
    if "from" in config.told:
        told["from"] = config.told["from"]
    command = "translate" if config.task == "translation" else "parse --model"
    return f"""{_head(config)}
# {config.source_lang} to {config.target_lang}, row {config.row}

A Transformer as in [Attention Is All You Need](https://arxiv.org/abs/1706.03762), for
{config.task}: {sizes}; {parameters:,} parameters, stored in {config.precision}.

    aiayn {command} THIS_FOLDER < text

{_listed(told)}
## Training

{_listed(training)}
## Search and text

{_listed({"search": search, "text": config.text.pieces.replace("_", " ")})}"""


def _head(config: Config) -> str:
    """Return what model hubs read: licence, languages and tags."""
    licence = json.dumps(str(config.told.get("licence", "unknown")).lower())
    is_parser = config.task == "parsing"
    languages = config.source_lang if is_parser else f"{config.source_lang}, {config.target_lang}"
    return f"""---
license: {licence}
language: [{languages}]
tags: [fairseq, attention-is-all-you-need, {config.task}]
---
"""


def _listed(facts: Mapping[str, object]) -> str:
    return "".join(f"- {name}: {value}\n" for name, value in facts.items())
