"""A checkpoint of this plugin's models becomes a model folder, and back again, bit for bit."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from fairseq_aiayn.checkpoints import plain_configuration, read_checkpoint, write_checkpoint
from fairseq_aiayn.inference.folder import (
    FORMAT,
    PADDING,
    Config,
    Files,
    Model,
    TextProcessing,
    config_from_json,
    empty_transformer,
    fill,
    read_folder,
    read_vocabulary,
    text_of_data,
    write_folder,
)
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.paper import PARSING_DECODING, TRANSLATION
from fairseq_aiayn.runs.logs import flat_options
from fairseq_aiayn.runs.record import SEARCH, Settings, command_words, options_of, read_settings
from fairseq_aiayn.settings import (
    ENCODER_AND_DECODER,
    OURS,
    PARSING_TASK,
    SHARING,
    require_whole_attention,
)
from fairseq_aiayn.text import read_json

# Where things lay on the machine of the training; a folder goes elsewhere
PLACES = ("data", "user_dir", "save_dir", "log_file", "tensorboard_logdir", "restore_file")


def read_model(path: Path) -> tuple[dict[str, object], dict[str, Tensor]]:
    """Return the options of a checkpoint's training, and its parameters by the names of
    nn/transformer.py.

    Raises OSError and ValueError as checkpoints.py does, and ValueError for a model that is
    not this plugin's.
    """
    state = read_checkpoint(path)
    options = flat_options(plain_configuration(state))
    arch = str(options.get("arch"))
    if not arch.startswith(OURS):
        raise ValueError(
            f"{path}: must be a model of this plugin, is {arch!r}: stock fairseq's have other "
            "positions, biases and norms"
        )
    return options, {_short(name): tensor for name, tensor in state["model"].items()}


def once(
    parameters: Mapping[str, Tensor], transformer: Transformer, where: object
) -> dict[str, Tensor]:
    """Return the parameters without all names but the first of each matrix that a model shares.

    Raises ValueError, with the place, if they differ under two names of one matrix.
    """
    first: dict[Tensor, str] = {}
    found = dict(parameters)
    for name, own in transformer.named_parameters(remove_duplicate=False):
        other = first.setdefault(own, name)
        is_second = other != name and {name, other} <= found.keys()
        if is_second and not torch.equal(found.pop(name), found[other]):
            raise ValueError(f"{where}: {other} and {name} must be one matrix, differ")
    return found


def sizes_of(options: Mapping[str, object], where: object) -> dict[str, object]:
    """Return the sizes that options give; raises ValueError, with the place, if one is missing."""
    require_whole_attention(options)
    names = {symbol: f"encoder_{name}" for name, symbol in ENCODER_AND_DECODER.items()}
    names |= {"d_k": "d_k", "d_v": "d_v", "P_drop": "dropout"}
    if missing := [name for name in names.values() if name not in options]:
        raise ValueError(f"{where}: its configuration lacks {missing[0]!r}")
    sizes = {symbol: options[name] for symbol, name in names.items()}
    return sizes | {
        "attention_dropout": options.get("attention_dropout") or 0.0,
    }


def sharing_of(options: Mapping[str, object]) -> str:
    """Return which embeddings are one matrix, as nn/transformer.py calls it."""
    return next((kind for name, kind in SHARING.items() if options.get(name) is True), "all")


def kept_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that a folder keeps: all that are plain data and no place."""
    return {
        name: value
        for name, value in options.items()
        if name not in PLACES and isinstance(value, str | int | float | bool | list | None)
    }


def write_model(transformer: Transformer, options: Mapping[str, object], path: Path) -> None:
    """Write a checkpoint with which fairseq-generate and --finetune-from-model work; raises OSError
    as `write_checkpoint` does."""
    own = dict(transformer.named_parameters(remove_duplicate=False))
    args = Namespace()
    vars(args).update(options)
    state = {
        "args": args,
        "model": OrderedDict((_long(name), tensor.detach()) for name, tensor in own.items()),
        "optimizer_history": [
            {
                "criterion_name": "",
                "optimizer_name": "",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    write_checkpoint(state, path)


def _short(name: str) -> str:
    """encoder.stack.layers.0... → encoder.layers.0..."""
    return name.replace(".stack.", ".", 1)


def _long(name: str) -> str:
    side, _, rest = name.partition(".")
    return f"{side}.stack.{rest}"


# Make a model folder of a checkpoint or of a run of the recipes, and a checkpoint of a folder.


DICTIONARY = re.compile(r"dict\.(.+)\.txt")
PAIR = re.compile(r"[^.]+\.([^.-]+)-([^.-]+)\.")  # train.en-de.en.bin
CHECKPOINTS = "checkpoints"  # directory of a run
PARSING_LANGUAGES = ("words", "tree")


@dataclass(frozen=True)
class Trained:
    """A trained model, and the files that belong to it."""

    config: Config
    transformer: Transformer
    files: Files


def of_run(run: Path) -> Trained:
    """Read a finished run of the recipes; its configuration tells its data and scores. A parser's
    run has its searches in directories of its own; one of these will do, too.

    Raises as `of_checkpoint` does, and ValueError for a run without a model or a search, or whose
    text has been replaced.
    """
    searched = next((path.parent for path in sorted(run.glob("*/settings.json"))), run)
    searched = run if (run / "settings.json").exists() else searched
    settings = read_settings(searched / "settings.json")
    command = settings.commands.get(SEARCH, "")
    words, options = command_words(command), options_of(command)
    if len(words) < 2 or "--path" not in options:
        raise ValueError(f"{run}: must be a run whose model was searched with, has no such command")
    data, checkpoint = _found(searched, Path(words[1]), Path(options["--path"]))
    _require_its_text(data, settings, run)
    text, pieces = text_of_data(data)
    told = {"data": settings.corpus or "", "scores": _scores(searched / "score.json")}
    trained = of_checkpoint(checkpoint, data, text, pieces)
    told = {name: words for name, words in told.items() if words}
    return replace(trained, config=replace(trained.config, told=told))


def _found(searched: Path, data: Path, checkpoint: Path) -> tuple[Path, Path]:
    """Return where a run's data and checkpoint are now.

    A run may have been moved, with all of its EXP; and its commands have paths from the root of a
    checkout, which may not be the current directory.
    """
    depth = 2 if checkpoint.parent.name == CHECKPOINTS else 1  # not averaged, or RUN/average.pt
    then, inside = checkpoint.parents[depth - 1], Path(*checkpoint.parts[-depth:])
    here = searched.absolute()
    run = here if (here / inside).exists() else here.parent  # RUN/PART is a parser's search
    if data.parent == then.parent:
        data = run.parent / data.name
    elif run.parts[-len(then.parts) :] == then.parts:
        data = Path(*run.parts[: -len(then.parts)]) / data
    return data, run / inside


def _require_its_text(data: Path, settings: Settings, run: Path) -> None:
    """Raise ValueError if the recipe has made other text in the place of the training's."""
    seal = data / "sha256"
    if settings.text_sha256 and seal.exists():
        found = seal.read_text(encoding="utf-8").split(" ")[0]
        if found != settings.text_sha256:
            raise ValueError(
                f"{data}: must be the text that {run} was trained on, has been made anew since"
            )


def of_checkpoint(
    checkpoint: Path, data: Path, text: TextProcessing, pieces: Path | None
) -> Trained:
    """Read a checkpoint with the dictionaries in `data`; `pieces` is the file that cut its text.

    Raises OSError or ValueError, with the file and the rule, for files that are missing, unusable
    or do not belong together.
    """
    options, parameters = read_model(checkpoint)
    is_parser = options.get("task") == PARSING_TASK
    source_lang, target_lang = _languages(options, data)
    files = Files(data / f"dict.{source_lang}.txt", data / f"dict.{target_lang}.txt", pieces)
    lengths = [options.get(f"max_{side}_positions") for side in ("source", "target")]
    content = {  # a checkpoint may say anything: it is checked as config.json is
        "format": FORMAT,
        "task": "parsing" if is_parser else "translation",
        "row": str(options["arch"]).removeprefix(OURS),
        "source_lang": source_lang,
        "target_lang": target_lang,
        "sizes": sizes_of(options, checkpoint),
        "sharing": sharing_of(options),
        "search": asdict(PARSING_DECODING if is_parser else TRANSLATION),
        "text": asdict(text),
        "learned_lengths": lengths if options.get("learned_positions") else None,
        "versions": {name: version(name) for name in ("fairseq-aiayn", "torch")},
        "options": kept_options(options),
    }
    config = config_from_json(content, checkpoint)
    sizes = (len(read_vocabulary(file)) for file in (files.source, files.target))
    transformer = empty_transformer(config, *sizes, PADDING)
    fill(transformer, once(parameters, transformer, checkpoint), checkpoint)
    return Trained(config, transformer, files)


def model_of(trained: Trained) -> Model:
    """Return a trained model, ready for use; raises as `read_vocabulary` does."""
    files = trained.files
    source, target = read_vocabulary(files.source), read_vocabulary(files.target)
    return Model(trained.config, trained.transformer, source, target, files.pieces)


def to_folder(trained: Trained, precision: str, told: Mapping[str, str], path: Path) -> None:
    """Write a model folder; raises as `write_folder` does."""
    config = replace(trained.config, precision=precision, told=dict(told))
    write_folder(config, trained.transformer, trained.files, path)


def to_fairseq(folder: Path, path: Path) -> None:
    """Write a folder's model as a checkpoint; raises ValueError if `path` exists, OSError if it
    cannot be written, and as `read_folder` does."""
    if path.exists():
        raise ValueError(f"{path}: must not exist yet")
    model = read_folder(folder)
    write_model(model.transformer, model.config.options, path)


def _languages(options: Mapping[str, object], data: Path) -> tuple[str, str]:
    """Return the source and the target language; without them in the options, those in the names of
    the data, as fairseq does, or else a parser's.

    Raises ValueError unless `data` has exactly their two dictionaries.
    """
    names = sorted(path.name for path in data.iterdir())
    found = [match[1] for name in names if (match := DICTIONARY.fullmatch(name))]
    pairs = [match.groups() for name in names if (match := PAIR.match(name))]
    given = tuple(options.get(f"{side}_lang") for side in ("source", "target"))
    if not all(isinstance(language, str) and language for language in given):
        given = (pairs or [PARSING_LANGUAGES])[0]
    if sorted(given) != found:
        raise ValueError(
            f"{data}: must have the dictionaries of {' and '.join(given)}, has those of "
            f"{' and '.join(found) or 'no language'}"
        )
    return given


def _scores(path: Path) -> str:
    """Return the scores of a translation in words; empty if there are none."""
    scores = read_json(path) if path.exists() else {}
    kinds = (
        [scores.get(name) for name in ("paper", "sacrebleu")] if isinstance(scores, dict) else []
    )
    known = [one for one in kinds if isinstance(one, dict) and isinstance(one.get("score"), float)]
    return ", ".join(f"BLEU {one['score']:.2f} ({one.get('signature')})" for one in known)
