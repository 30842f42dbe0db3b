"""Make a model folder of a checkpoint or of a run of the recipes, and a checkpoint of a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from fairseq_aiayn.files.json_fields import read_json
from fairseq_aiayn.model_folder.config import FORMAT, Config
from fairseq_aiayn.model_folder.fairseq_checkpoint import (
    OURS,
    kept_options,
    read_model,
    sharing_of,
    sizes_of,
    write_checkpoint,
)
from fairseq_aiayn.model_folder.folder import Files, Model, read_folder, write_folder
from fairseq_aiayn.model_folder.text import TextProcessing, text_of_data
from fairseq_aiayn.model_folder.vocabulary import PADDING, read_vocabulary
from fairseq_aiayn.model_folder.weights import empty_transformer, fill
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.paper import PARSING_DECODING, TRANSLATION
from fairseq_aiayn.runs.differences import SEARCH, options_of
from fairseq_aiayn.runs.run_directory import read_settings

DICTIONARY = re.compile(r"dict\.(.+)\.txt")
PARSING_TASK = "aiayn_parsing"
SETTINGS = "settings.json"  # every run has them
TREES = "tree"  # the target language of a parser


@dataclass(frozen=True)
class Trained:
    """A trained model, and the files that belong to it."""

    config: Config
    transformer: Transformer
    files: Files


def of_run(run: Path) -> tuple[Trained, dict[str, str]]:
    """Read a finished run of the recipes; return its model, and its data and scores in words.

    Raises as `of_checkpoint` does, and ValueError for a run without a model or a search.
    """
    settings = read_settings(run / SETTINGS)
    command = settings.commands.get(SEARCH, "").split()
    options = options_of(settings.commands.get(SEARCH, ""))
    if len(command) < 2 or "--path" not in options:
        raise ValueError(f"{run}: must be a run whose model was searched with, has no such command")
    # The command has paths from the root of the checkout
    data, checkpoint = Path(command[1]), Path(options["--path"])
    data = data if data.is_dir() else run.absolute().parent / data.name
    text, pieces = text_of_data(data)
    told = {"data": settings.corpus or "", "scores": _scores(run / "score.json")}
    trained = of_checkpoint(run / checkpoint.name, data, text, pieces)
    return trained, {name: words for name, words in told.items() if words}


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
    config = Config(
        format=FORMAT,
        task="parsing" if is_parser else "translation",
        row=str(options["arch"]).removeprefix(OURS),
        source_lang=source_lang,
        target_lang=target_lang,
        sizes=sizes_of(options, checkpoint),
        sharing=sharing_of(options),
        search=PARSING_DECODING if is_parser else TRANSLATION,
        text=text,
        learned_lengths=lengths if options.get("learned_positions") else None,
        versions={name: version(name) for name in ("fairseq-aiayn", "torch")},
        options=kept_options(options),
    )
    sizes = (len(read_vocabulary(file)) for file in (files.source, files.target))
    transformer = empty_transformer(config, *sizes, PADDING)
    own = dict(transformer.named_parameters())
    fill(transformer, {name: one for name, one in parameters.items() if name in own}, checkpoint)
    return Trained(config, transformer, files)


def of_run_or_folder(path: Path) -> Model:
    """Read the model of a run of the recipes or of a model folder; raises as `of_run` and
    `read_folder` do."""
    if not (path / SETTINGS).exists():
        return read_folder(path)
    trained, _ = of_run(path)
    vocabularies = (read_vocabulary(file) for file in (trained.files.source, trained.files.target))
    return Model(trained.config, trained.transformer, *vocabularies, trained.files.pieces)


def to_folder(trained: Trained, precision: str, told: Mapping[str, str], path: Path) -> None:
    """Write a model folder; raises as `write_folder` does."""
    config = replace(trained.config, precision=precision, told=dict(told))
    write_folder(config, trained.transformer, trained.files, path)


def to_fairseq(folder: Path, path: Path) -> None:
    """Write a folder's model as a checkpoint; raises ValueError if `path` exists, and as
    `read_folder` does."""
    if path.exists():
        raise ValueError(f"--output {path}: must not exist yet")
    model = read_folder(folder)
    write_checkpoint(model.transformer, model.config.options, path)


def _languages(options: Mapping[str, object], data: Path) -> tuple[str, str]:
    """Return the source and the target language; without them in the options, by the dictionaries.

    Raises ValueError if `data` does not have exactly two dictionaries, or has no such languages.
    """
    found = [match[1] for path in sorted(data.iterdir()) if (match := DICTIONARY.match(path.name))]
    given = [options.get(f"{side}_lang") for side in ("source", "target")]
    if not all(given):
        given = sorted(found, key=lambda language: language == TREES)
    if len(found) != 2 or set(given) != set(found):
        raise ValueError(
            f"{data}: must have the dictionaries of {' and '.join(map(str, given))}, has those of "
            f"{' and '.join(found) or 'no language'}"
        )
    return given[0], given[1]


def _scores(path: Path) -> str:
    """Return the scores of a translation in words; empty if there are none."""
    scores = read_json(path) if path.exists() else {}
    kinds = (
        [scores.get(name) for name in ("paper", "sacrebleu")] if isinstance(scores, dict) else []
    )
    return ", ".join(f"BLEU {one['score']:.2f} ({one['signature']})" for one in kinds if one)
