"""A model folder as it lies on the disk: written whole or not at all, read strictly.

model.safetensors   the parameters, a shared matrix once
config.json         see config.py
source.txt          the vocabularies, as fairseq-preprocess writes them
target.txt
codes               byte pairs of subword-nmt, or
pieces.model        word pieces of sentencepiece; neither if the text is in pieces already
README.md           the model card
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.files.json_fields import read_json
from fairseq_aiayn.files.whole import whole_folder
from fairseq_aiayn.model_folder.card import model_card
from fairseq_aiayn.model_folder.config import Config, as_json, config_from_json
from fairseq_aiayn.model_folder.text import PIECES_FILES
from fairseq_aiayn.model_folder.vocabulary import PADDING, Vocabulary, read_vocabulary
from fairseq_aiayn.model_folder.weights import empty_transformer, fill, read_weights, save_weights
from fairseq_aiayn.nn.transformer import Transformer

WEIGHTS, CONFIG, SOURCE, TARGET = "model.safetensors", "config.json", "source.txt", "target.txt"


@dataclass(frozen=True)
class Model:
    """A trained model with its vocabularies and the file that cuts its text, if there is one."""

    config: Config
    transformer: Transformer
    source: Vocabulary
    target: Vocabulary
    pieces_file: Path | None


@dataclass(frozen=True)
class Files:
    """The files that a folder gets copies of."""

    source: Path  # dictionaries of fairseq-preprocess
    target: Path
    pieces: Path | None


def write_folder(config: Config, transformer: Transformer, files: Files, path: Path) -> None:
    """Write a folder; it appears whole or not at all.

    Raises ValueError if `path` exists or a parameter is not finite in the folder's precision, and
    OSError if a file cannot be read or written.
    """
    with whole_folder(path) as part:
        save_weights(transformer, config.precision, part / WEIGHTS)
        content = json.dumps(as_json(config), indent=2, ensure_ascii=False)
        (part / CONFIG).write_text(f"{content}\n", encoding="utf-8")
        shutil.copyfile(files.source, part / SOURCE)
        shutil.copyfile(files.target, part / TARGET)
        if files.pieces:
            shutil.copyfile(files.pieces, part / PIECES_FILES[config.text.pieces])
        card = model_card(config, sum(one.numel() for one in transformer.parameters()))
        (part / "README.md").write_text(card, encoding="utf-8")


def loaded(config: Config, transformer: Transformer, files: Files) -> Model:
    """Return a model that is in memory with its vocabularies; raises as `read_vocabulary` does."""
    source, target = (read_vocabulary(file) for file in (files.source, files.target))
    return Model(config, transformer, source, target, files.pieces)


def read_folder(path: Path) -> Model:
    """Read a folder.

    Raises OSError for a file that is missing, and ValueError, with the file and the rule, for one
    that is damaged, of another version, or does not fit the others.
    """
    if not path.is_dir():
        raise ValueError(f"{path}: must be the folder of a model, which aiayn export writes")
    config = config_from_json(read_json(path / CONFIG), path / CONFIG)
    source, target = (read_vocabulary(path / name) for name in (SOURCE, TARGET))
    try:
        transformer = empty_transformer(config, len(source), len(target), PADDING)
    except ValueError as error:
        raise ValueError(f"{path / CONFIG}: {error}") from None
    fill(transformer, read_weights(path / WEIGHTS), path / WEIGHTS)
    name = PIECES_FILES[config.text.pieces]
    return Model(config, transformer, source, target, path / name if name else None)
