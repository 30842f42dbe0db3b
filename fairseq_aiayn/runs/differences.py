"""In what runs were made differently: what was asked of the commands, machines and versions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairseq_aiayn.regime.search import decoding, search_options
from fairseq_aiayn.rows import ROWS
from fairseq_aiayn.runs.run_directory import TrainedRun
from fairseq_aiayn.runs.settings import Settings

# Where a run lies, not how it was made
PLACES = {
    *("--save-dir", "--log-file", "--path", "--results-path", "--user-dir", "--dir", "--output"),
    *("--hypothesis", "--reference", "--tokens", "--words", "--gold", "--restore-file"),
}
TRAIN, SEARCH = "train", "generate"  # stages
FACTS = ("system", "row", "corpus", "subset", "seed", "averaged", "device", "gpus", "nodes")
SWITCHED_ON = "yes"


@dataclass(frozen=True)
class Difference:
    """Something that is not the same for all runs."""

    where: str  # a stage of the recipe, "run", "package" or "machine"
    what: str
    values: tuple[str, ...]  # of each run; empty where it has none


def run_differences(
    runs: Sequence[TrainedRun], trained: Sequence[Mapping[str, str]]
) -> list[Difference]:
    """List all that differs, in the order in which a run is made; nothing for one run.

    `trained` has what fairseq-train's logs say of each run's options, defaults included. Of an
    option that only some of the systems have, it counts where a command asked for it.
    """
    settings = [run.settings for run in runs]
    found = [("run", name, [_text(getattr(one, name)) for one in settings]) for name in FACTS]
    found += [("run", "vocabulary", [_text(run.vocabulary) for run in runs])]
    found += [("run", "commit", [_text(one.commit) for one in settings])]
    for stage in _keys(one.commands for one in settings):
        options = [options_of(one.commands.get(stage, "")) for one in settings]
        if stage == TRAIN and all(trained):
            options = _with_defaults(options, trained)
        elif stage == SEARCH:
            options = [
                _papers_search(one) | own for one, own in zip(settings, options, strict=True)
            ]
        found += [
            (stage, name, [one.get(name, "") for one in options])
            for name in _keys(options)
            if name not in PLACES
        ]
    found += _of_mappings("package", [one.packages for one in settings])
    found += _of_mappings("machine", [_machine(one) for one in settings])
    return [
        Difference(where, what, tuple(values))
        for where, what, values in found
        if len(set(values)) > 1
    ]


def options_of(command: str) -> dict[str, str]:
    """The options of a command line with their values; of one given twice the last value.

    What has no value is "yes". Words that are no option, or follow one's value, are left out.
    """
    options: dict[str, str] = {}
    name = None
    try:
        words = shlex.split(command)
    except ValueError:  # a quotation mark that nothing closes
        words = command.split()
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            options[name] = value if equals else SWITCHED_ON
            name = None if equals else name
        elif name:
            options[name], name = word, None
    return options


def _with_defaults(
    asked: Sequence[Mapping[str, str]], trained: Sequence[Mapping[str, str]]
) -> list[dict[str, str]]:
    """What the logs say of the options that all runs have, and of those that a command gave."""
    given = set(_keys(asked))
    logged = [
        {f"--{key.replace('_', '-')}": value for key, value in one.items() if key[0] != "_"}
        for one in trained
    ]
    shown = [key for key in _keys(logged) if key in given or all(key in one for one in logged)]
    return [{key: one[key] for key in shown if key in one} for one in logged]


def _papers_search(settings: Settings) -> dict[str, str]:
    """The options of a search that the plugin's tasks have when no others are given."""
    if settings.system != "aiayn" or settings.row not in ROWS:
        return {}
    search = search_options(decoding(ROWS[settings.row]))
    return {name: str(value) for name, value in search.items()}


def _of_mappings(where: str, mappings: Sequence[Mapping]) -> list[tuple[str, str, list[str]]]:
    return [(where, key, [_text(one.get(key)) for one in mappings]) for key in _keys(mappings)]


def _machine(settings: Settings) -> dict[str, object]:
    gpus = ", ".join(settings.hardware.get("gpus", []))
    return {**settings.hardware, "gpus": gpus}


def _keys(mappings: Sequence[Mapping]) -> list[str]:
    return list(dict.fromkeys(key for one in mappings for key in one))


def _text(value: object) -> str:
    return "" if value is None else str(value)
