"""Make a model folder of a checkpoint or of a run of the recipes, and a checkpoint of a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

from fairseq_aiayn.files.json_fields import read_json
from fairseq_aiayn.model_folder.config import FORMAT, Config, config_from_json
from fairseq_aiayn.model_folder.fairseq_checkpoint import (
    kept_options,
    once,
    read_model,
    sharing_of,
    sizes_of,
    write_model,
)
from fairseq_aiayn.model_folder.folder import Files, Model, read_folder, write_folder
from fairseq_aiayn.model_folder.text import TextProcessing, text_of_data
from fairseq_aiayn.model_folder.vocabulary import PADDING, read_vocabulary
from fairseq_aiayn.model_folder.weights import empty_transformer, fill
from fairseq_aiayn.nn.transformer import Transformer
from fairseq_aiayn.paper import PARSING_DECODING, TRANSLATION
from fairseq_aiayn.regime.names import OURS
from fairseq_aiayn.regime.search import PARSING_TASK
from fairseq_aiayn.runs.differences import SEARCH, command_words, options_of
from fairseq_aiayn.runs.run_directory import read_settings
from fairseq_aiayn.runs.settings import Settings

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
