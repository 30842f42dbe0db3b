"""In what runs were made differently: what was asked of the commands, machines and versions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairseq_aiayn.evaluation.run_directory import TrainedRun
from fairseq_aiayn.evaluation.settings import Settings

# Where a run lies, not how it was made
PLACES = {
    *("--data", "--save-dir", "--log-file", "--path", "--results-path", "--user-dir", "--dir"),
    *("--output", "--hypothesis", "--reference", "--words", "--gold", "--restore-file"),
}
TRAIN = "train"
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

    `trained` has what fairseq-train's logs say of each run's options. Of these only what all of
    them have is compared; where a log says nothing, what was asked of the command.
    """
    settings = [run.settings for run in runs]
    found = [("run", name, [_text(getattr(one, name)) for one in settings]) for name in FACTS]
    found += [("run", "vocabulary", [_text(run.vocabulary) for run in runs])]
    found += [("run", "commit", [_text(one.commit) for one in settings])]
    for stage in _keys(one.commands for one in settings):
        options = [options_of(one.commands.get(stage, "")) for one in settings]
        if stage == TRAIN and all(trained):
            options = _shared(trained)
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
    for word in shlex.split(command):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            options[name] = value if equals else SWITCHED_ON
            name = None if equals else name
        elif name:
            options[name], name = word, None
    return options


def _shared(mappings: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """What all of them have, named as on a command line."""
    keys = [key for key in mappings[0] if all(key in one for one in mappings) and key[0] != "_"]
    return [{f"--{key.replace('_', '-')}": one[key] for key in keys} for one in mappings]


def _of_mappings(where: str, mappings: Sequence[Mapping]) -> list[tuple[str, str, list[str]]]:
    return [(where, key, [_text(one.get(key)) for one in mappings]) for key in _keys(mappings)]


def _machine(settings: Settings) -> dict[str, object]:
    gpus = ", ".join(settings.hardware.get("gpus", []))
    return {**settings.hardware, "gpus": gpus}


def _keys(mappings: Sequence[Mapping]) -> list[str]:
    return list(dict.fromkeys(key for one in mappings for key in one))


def _text(value: object) -> str:
    return "" if value is None else str(value)
