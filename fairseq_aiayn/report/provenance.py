"""What a result is traced back to: machine, versions, commit and commands of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from fairseq_aiayn.report.document import Block, Bullets, Folded, Paragraph
from fairseq_aiayn.runs.run_directory import TrainedRun
from fairseq_aiayn.runs.settings import Settings, Start

PROCESSOR = {"processor": "{}", "cores": "{} cores"}
MACHINE = {"memory_gib": "{} GiB of memory", "driver": "NVIDIA driver {}", "cuda": "CUDA {}"}


def machines(runs: Sequence[TrainedRun]) -> Block:
    """Return on what the runs were made: once if it is the same for all of them, else by name."""
    names: dict[str, list[str]] = {}
    for run in runs:
        names.setdefault(_made_on(run), []).append(run.name)
    if len(names) == 1:
        return Paragraph(*names)
    return Bullets([f"{', '.join(same)}: {made_on}" for made_on, same in names.items()])


def how_made(runs: Sequence[TrainedRun]) -> list[Block]:
    """Return a folded block per run, with all that its settings know."""
    return [Folded(f"How {run.name} was made", _facts(run), run.settings.commands) for run in runs]


def clock(seconds: float) -> str:
    """Return seconds as 1:23:45, with days in front if there are any."""
    return str(timedelta(seconds=round(seconds)))


def _facts(run: TrainedRun) -> dict[str, str]:
    """Return all that the run's settings know except the commands."""
    settings = run.settings
    what = {
        "row {}": settings.row,
        "corpus {}": settings.corpus,
        "subset {}": settings.subset,
        "vocabulary of {:,}": run.vocabulary,
        "seed {}": settings.seed,
        "checkpoints averaged: {}": settings.averaged,
    }
    known = {
        "what": ", ".join(text.format(x) for text, x in what.items() if x is not None),
        "commit": f"`{settings.commit}`" if settings.commit else "",
        "written": settings.written or "",
        "hardware": _machine(settings),
        "packages": _versions(settings, list(settings.packages)),
        "wall time of training": f"{clock(run.training.wall_seconds)}, of that "
        f"{clock(run.training.seconds)} in updates",
        "resumed": _resumed(settings),
        "evaluated": _evaluated(settings),
    }
    return {what: text for what, text in known.items() if text}


def _resumed(settings: Settings) -> str:
    """Say how often a training went on from a checkpoint, and with what machines and commits.

    The text is empty if machine and commit are always those of the first start.
    """
    starts = settings.resumed
    machines = [
        f"on {machine or 'hardware not recorded'}"
        for machine in _others(map(_machine, starts), _machine(settings))
    ]
    commits = [
        f"`{commit}`" if commit else "not recorded"
        for commit in _others((start.commit for start in starts), settings.commit)
    ]
    if not machines and not commits:
        return ""
    times = "once" if len(starts) == 1 else f"{len(starts)} times"
    of = f"of commit{'s' if len(commits) > 1 else ''} {' and '.join(commits)}" if commits else ""
    return ", ".join(filter(None, (times, " and ".join(machines), of)))


def _evaluated(settings: Settings) -> str:
    """Return the commit that evaluated the model, if it is another one than the training's."""
    commit = settings.evaluated_by
    return f"by commit `{commit}`" if commit and commit != settings.commit else ""


def _others(values: Iterable, first: object) -> list:
    return [value for value in dict.fromkeys(values) if value != first]


def _machine(start: Settings | Start) -> str:
    """Return all that is known of a machine; the text is empty if nothing is."""
    hardware = start.hardware
    machine = [_gpus(start), *_filled(PROCESSOR, hardware), *_filled(MACHINE, hardware)]
    return ", ".join(filter(None, machine))


def _made_on(run: TrainedRun) -> str:
    """Return what was translated or parsed, the machine of the training and its versions."""
    settings = run.settings
    sentences = f"{run.sentences:,} sentences"
    if settings.corpus and settings.subset:
        sentences += f" ({settings.corpus}, {settings.subset})"
    machine = _gpus(settings) or ", ".join(_filled(PROCESSOR, settings.hardware))
    versions = _versions(
        settings, [name for name in settings.packages if "fairseq" in name or name == "torch"]
    )
    trained = f"trained on {machine}" if machine else ""
    return "; ".join(filter(None, (sentences, trained, versions)))


def _gpus(settings: Settings | Start) -> str:
    """Return the names of the GPUs that were used; the text is empty if none was."""
    if settings.device != "cuda":
        return ""
    counts = Counter(settings.hardware.get("gpus", [])[: settings.gpus])
    gpus = " and ".join(f"{n} × {name}" if n > 1 else name for name, n in counts.items())
    return f"{settings.nodes} nodes of {gpus}" if gpus and (settings.nodes or 1) > 1 else gpus


def _filled(texts: Mapping[str, str], values: Mapping[str, object]) -> list[str]:
    return [text.format(values[key]) for key, text in texts.items() if values.get(key)]


def _versions(settings: Settings, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {settings.packages[name]}" for name in names)
