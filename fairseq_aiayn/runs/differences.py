"""The differences between runs in their options, packages and machines."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.runs.run_directory import TrainedRun
from fairseq_aiayn.runs.settings import Settings
from fairseq_aiayn.settings import decoding, generate_options

# Where a run lies and by what port its processes met, not how it was made
PLACES = {
    *("--distributed-init-method", "--distributed-port", "--data"),
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
    runs: Sequence[TrainedRun], logged: Sequence[Mapping[str, str]]
) -> list[Difference]:
    """List all that differs between runs, in the order in which a run is made.

    `logged` has the options that the log of each training shows, defaults included, or nothing.
    An option that only some systems have is listed if a command asked for it.
    """
    settings = [run.settings for run in runs]
    found = _unequal("run", [_facts(run) for run in runs])
    for stage in _keys([one.commands for one in settings]):
        found += _unequal(stage, _options_of_stage(stage, settings, logged))
    found += _unequal("package", [one.packages for one in settings])
    found += _unequal("machine", [_machine(one) for one in settings])
    return found


def _unequal(where: str, mappings: Sequence[Mapping]) -> list[Difference]:
    """Return a difference for each key whose values are not the same in all mappings."""
    found = []
    for key in _keys(mappings):
        values = tuple(_text(one.get(key)) for one in mappings)
        if len(set(values)) > 1:
            found.append(Difference(where, key, values))
    return found


def _facts(run: TrainedRun) -> dict[str, object]:
    """Return what a run is, apart from its commands, packages and machine."""
    facts = {name: getattr(run.settings, name) for name in FACTS}
    return {**facts, "vocabulary": run.vocabulary, "commit": run.settings.commit}


def _options_of_stage(
    stage: str, settings: Sequence[Settings], logged: Sequence[Mapping[str, str]]
) -> list[dict[str, str]]:
    """Return the options of each run's command of a stage, without those that name places."""
    options = [options_of(one.commands.get(stage, "")) for one in settings]
    if stage == TRAIN and all(logged):
        options = _with_defaults(options, logged)
    elif stage == SEARCH:
        options = [papers_search(one) | own for one, own in zip(settings, options, strict=True)]
    return [{name: value for name, value in one.items() if name not in PLACES} for one in options]


def command_words(command: str) -> list[str]:
    """Return the words of a command line, without their quotation marks."""
    try:
        return shlex.split(command)
    except ValueError:  # a quotation mark that nothing closes
        return command.split()


def options_of(command: str) -> dict[str, str]:
    """Return the options of a command line with their values; the last value counts.

    An option without a value is "yes". Words that belong to no option are left out.
    """
    options: dict[str, str] = {}
    name = None
    for word in command_words(command):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            options[name] = value if equals else SWITCHED_ON
            name = None if equals else name
        elif name:
            options[name], name = word, None
    return options


def _with_defaults(
    asked: Sequence[Mapping[str, str]], logged: Sequence[Mapping[str, str]]
) -> list[dict[str, str]]:
    """Return the logged options that all runs have, or that a command asked for."""
    asked_for = set(_keys(asked))
    options = [
        {f"--{key.replace('_', '-')}": value for key, value in one.items() if key[0] != "_"}
        for one in logged
    ]
    shown = [
        name for name in _keys(options) if name in asked_for or all(name in one for one in options)
    ]
    return [{name: one[name] for name in shown if name in one} for one in options]


def papers_search(settings: Settings) -> dict[str, str]:
    """Return the options with which the plugin searches if a command gives no others."""
    if settings.system != "aiayn" or settings.row not in ROWS:
        return {}
    search = generate_options(decoding(ROWS[settings.row]))
    return {name: str(value) for name, value in search.items()}


def _machine(settings: Settings) -> dict[str, object]:
    gpus = ", ".join(settings.hardware.get("gpus", []))
    return {**settings.hardware, "gpus": gpus}


def _keys(mappings: Sequence[Mapping]) -> list[str]:
    return list(dict.fromkeys(key for one in mappings for key in one))


def _text(value: object) -> str:
    return "" if value is None else str(value)
