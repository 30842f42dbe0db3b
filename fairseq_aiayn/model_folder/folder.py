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

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fairseq_aiayn.files.json_fields import read_json
from fairseq_aiayn.files.lines import require_plain_file
from fairseq_aiayn.files.whole import whole_folder
from fairseq_aiayn.model_folder.card import model_card
from fairseq_aiayn.model_folder.config import Config, config_from_json
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
        copies = [(files.source, SOURCE), (files.target, TARGET)]
        if files.pieces:
            copies.append((files.pieces, PIECES_FILES[config.text.pieces]))
        for file, name in copies:
            shutil.copyfile(file, part / name)
        config = replace(config, sha256={name: sha256_of(part / name) for _, name in copies})
        card = model_card(config, sum(one.numel() for one in transformer.parameters()))
        (part / "README.md").write_text(card, encoding="utf-8")
        content = json.dumps(asdict(config), indent=2, ensure_ascii=False)
        # Last: what a killed run leaves has no configuration, and is no model
        (part / CONFIG).write_text(f"{content}\n", encoding="utf-8")


def read_folder(path: Path) -> Model:
    """Read a folder.

    Raises OSError for a file that is missing, and ValueError, with the file and the rule, for one
    that is damaged, of another version, or does not fit the others.
    """
    if not path.is_dir():
        raise ValueError(f"{path}: must be the folder of a model, which aiayn export writes")
    config = _read_config(path)
    source, target = (read_vocabulary(path / name) for name in (SOURCE, TARGET))
    try:
        transformer = empty_transformer(config, len(source), len(target), PADDING)
    except ValueError as error:
        raise ValueError(f"{path / CONFIG}: {error}") from None
    require_plain_file(path / WEIGHTS)
    (path / WEIGHTS).stat()  # a missing file; safetensors would say it in words of its own
    fill(transformer, read_weights(path / WEIGHTS), path / WEIGHTS)
    name = PIECES_FILES[config.text.pieces]
    return Model(config, transformer, source, target, path / name if name else None)


def _read_config(path: Path) -> Config:
    """Read the configuration; raises as `read_folder` does, and ValueError for a changed file."""
    require_plain_file(path / CONFIG)
    config = config_from_json(read_json(path / CONFIG), path / CONFIG)
    names = (SOURCE, TARGET, PIECES_FILES[config.text.pieces])
    require_unchanged(path, filter(None, names), config)
    return config


def require_unchanged(path: Path, names: Iterable[str], config: Config) -> None:
    """Raise ValueError for a file in a directory whose SHA-256 is not that of the configuration.

    A damaged model shows itself, but half of the byte pairs would silently cut text wrongly.
    """
    for name in names:
        require_plain_file(path / name)
        if config.sha256.get(name) != sha256_of(path / name):
            raise ValueError(f"{path / name}: must be as it was exported, its SHA-256 is another")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
