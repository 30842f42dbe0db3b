"""A run of the recipes or a checkpoint becomes a model folder, and back again, bit for bit."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any, cast

from fairseq_aiayn.configuration import flat_options, plain_configuration
from fairseq_aiayn.files import dataclass_of, read_dataclass, read_json
from fairseq_aiayn.inference.description import (
    CONFIG,
    PIECES_FILES,
    Config,
    Model,
    TextProcessing,
    read_vocabulary,
)
from fairseq_aiayn.paper import PARSING_DECODING, TRANSLATION
from fairseq_aiayn.runs.record import packages, read_settings
from fairseq_aiayn.settings import ENCODER_AND_DECODER, OURS, PARSING_TASK, SHARING

__all__ = ["Checkpoint", "OtherModel", "folder_or_run", "text_of_data", "to_fairseq"]

# Where things lay on the machine of the training; a folder goes elsewhere
PLACES = (
    *("data", "user_dir", "save_dir", "log_file", "tensorboard_logdir"),
    *("restore_file", "finetune_from_model"),
)
PAIR = re.compile(r"[^.]+\.([^.-]+)-([^.-]+)\.")  # train.en-de.en.bin
PARENT = "another model, whose licence holds, too"
MODEL, TRAINING = "model.json", "training.json"  # which recipes write into a run
EXPORT_NOTE = "text.json"  # beside the binaries of a recipe: how their text was made
PARSING_LANGUAGES = ("words", "tree")


class OtherModel(ValueError):
    """A checkpoint of a model that is not this plugin's."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint with what its model also needs: the dictionaries in `data`, how its text is cut,
    and the file that cuts it."""

    path: Path
    data: Path
    text: TextProcessing
    pieces_file: Path | None
    told: dict = field(default_factory=dict)  # as in Config

    def read(self) -> Model:
        """Read the model; raises OSError or ValueError, with the file and the rule, for files that
        are missing, unusable or do not belong together, and OtherModel for a model that is not this
        plugin's."""
        from fairseq_aiayn.checkpoints import read_checkpoint
        from fairseq_aiayn.inference.folder import build_transformer

        state = read_checkpoint(self.path)
        config = self._config(flat_options(plain_configuration(state)))
        source, target = (
            read_vocabulary(self.data / f"dict.{language}.txt")
            for language in (config.source_lang, config.target_lang)
        )
        weights = {name.replace(".stack.", ".", 1): value for name, value in state["model"].items()}
        transformer = build_transformer(config, source, target, weights, self.path)
        return Model(config, transformer, source, target, self.pieces_file, str(self.path))

    def _config(self, options: Mapping[str, Any]) -> Config:
        arch = str(options.get("arch"))
        if not arch.startswith(OURS):
            raise OtherModel(
                f"{self.path}: expected a model of this plugin, got {arch!r}, which has other "
                "positions, biases and norms; CTranslate2's ct2-fairseq-converter exports stock "
                "models"
            )
        is_parser = options.get("task") == PARSING_TASK
        source_lang, target_lang = _languages(options, self.data)
        lengths = [options.get(f"max_{side}_positions") for side in ("source", "target")]
        content = {  # a checkpoint may say anything: it is checked as config.json is
            "format": 1,
            "task": "parsing" if is_parser else "translation",
            "row": arch.removeprefix(OURS),
            "source_lang": source_lang,
            "target_lang": target_lang,
            "sizes": _sizes_of(options),
            "sharing": next((kind for name, kind in SHARING.items() if options.get(name)), "all"),
            "search": asdict(PARSING_DECODING if is_parser else TRANSLATION),
            "text": asdict(self.text),
            "learned_lengths": lengths if options.get("learned_positions") else None,
            "versions": packages(),
            "options": {
                name: value
                for name, value in options.items()
                if name not in PLACES and isinstance(value, str | int | float | bool | list | None)
            },
            "told": self.told | ({"from": PARENT} if options.get("finetune_from_model") else {}),
        }
        return dataclass_of(content, Config, self.path)


@dataclass(frozen=True)
class ModelOfRun:
    """The files of a run's model, relative to the run; recipes write it as model.json."""

    checkpoint: str
    data: str


def folder_or_run(run: Path) -> Path | Checkpoint:
    """Return a model folder as it is given, or the checkpoint of a run of the recipes, given by its
    directory or that of one of a parser's searches in it; raises OSError or ValueError for a run
    without a model, or whose text has been replaced."""
    if (run / CONFIG).exists():
        return run
    places = [place for place in (run, run.absolute().parent) if (place / MODEL).exists()]
    if not (places and run.is_dir()):
        hint = "or --checkpoint with --data-bin" if run.is_dir() else "there is no such directory"
        if (run / TRAINING).exists():
            hint = "this run has none yet: the command of its recipe goes on"
        elif runs := [quote(str(file.parent)) for file in sorted(run.glob(f"*/{TRAINING}"))]:
            hint = f"such as {' or '.join(runs)}"
        raise ValueError(f"{run}: expected a model folder, or a run with its {MODEL}; {hint}")
    model = read_dataclass(ModelOfRun, places[0] / MODEL)
    settings = read_settings(places[0] / TRAINING)
    data = places[0] / model.data
    seal = data / "sha256"
    text_sha256 = seal.read_text(encoding="utf-8").split(" ")[0] if seal.exists() else None
    if text_sha256 and settings.text_sha256 not in (None, text_sha256):
        raise ValueError(f"{data}: expected the text of {run}, but it has been made anew since")
    told = {
        "data": settings.corpus,
        "scores": _scores(run / "score.json"),
        "commit": settings.commit,
        "processor": settings.hardware.get("processor"),
    }
    told = {name: words for name, words in told.items() if words}
    return Checkpoint(places[0] / model.checkpoint, data, *text_of_data(data), told)


def text_of_data(data: Path) -> tuple[TextProcessing, Path | None]:
    """Return how the text of a recipe's data directory was made, in pieces already unless its note
    or a parser's pieces.model says otherwise, and the file that cut it; raises OSError or
    ValueError for a note that cannot be read."""
    if (data / EXPORT_NOTE).exists():
        text = read_dataclass(TextProcessing, data / EXPORT_NOTE)
    else:
        has_pieces = (data / PIECES_FILES["word_pieces"]).exists()
        text = TextProcessing("word_pieces" if has_pieces else "none")
    return text, text.file_in(data)


def to_fairseq(model: Model, path: Path) -> None:
    """Write a model as a checkpoint, with which fairseq-generate and --finetune-from-model work;
    raises OSError if it cannot be written."""
    from fairseq_aiayn.checkpoints import write_checkpoint

    parameters = model.transformer.named_parameters(remove_duplicate=False)
    state = {
        "args": Namespace(**model.config.options),
        "model": {name.replace(".", ".stack.", 1): value.detach() for name, value in parameters},
        "optimizer_history": [
            {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}
        ],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    write_checkpoint(state, path)


def _sizes_of(options: Mapping[str, object]) -> dict[str, object]:
    """Return the sizes that options give."""
    names = {symbol: f"encoder_{name}" for name, symbol in ENCODER_AND_DECODER.items()}
    names |= {"d_k": "d_k", "d_v": "d_v", "P_drop": "dropout"}
    sizes = {symbol: options[name] for symbol, name in names.items() if name in options}
    return sizes | {"attention_dropout": options.get("attention_dropout") or 0.0}


def _languages(options: Mapping[str, object], data: Path) -> tuple[object, object]:
    """Return the source and the target language; without them in the options, those in the names of
    the data, as fairseq does, or else a parser's."""
    names = sorted(path.name for path in data.iterdir())
    pairs = [(match[1], match[2]) for name in names if (match := PAIR.match(name))]
    given = options.get("source_lang"), options.get("target_lang")
    return given if all(given) else (pairs or [PARSING_LANGUAGES])[0]


def _scores(path: Path) -> str:
    """Return the scores of a translation in words; empty if there are none."""
    kinds = cast("dict[str, object]", read_json(path)) if path.exists() else {}
    return ", ".join(
        f"BLEU {score['score']:.2f} ({score['signature']})"
        for score in map(kinds.get, ("paper", "sacrebleu"))
        if isinstance(score, dict)
    )
