"""What a run must be traced back to, as Markdown: machine, versions, commit and commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from fairseq_aiayn.files.markdown_table import as_text, folded
from fairseq_aiayn.runs.run_directory import TrainedRun
from fairseq_aiayn.runs.settings import Settings, Start
from fairseq_aiayn.runs.translation_run import Run

PROCESSOR = {"processor": "{}", "cores": "{} cores"}
MACHINE = {"memory_gib": "{} GiB of memory", "driver": "NVIDIA driver {}", "cuda": "CUDA {}"}


def signatures(run: Run) -> list[str]:
    """Say how the run, and all that stand beside it, were scored."""
    scores = {
        "Paper's BLEU": run.bleu,
        "sacreBLEU": run.sacrebleu,
        "BLEU of tokens": run.token_bleu,
    }
    lines = [f"{name}: `{score['signature']}`" for name, score in scores.items() if score]
    return "\n\n".join(lines).split("\n")


def machines(runs: Sequence[TrainedRun]) -> list[str]:
    """Say on what the runs were made, once where it is the same for all of them."""
    names: dict[str, list[str]] = {}
    for run in runs:
        names.setdefault(_made_on(run), []).append(run.name)
    if len(names) == 1:
        return [as_text(made_on) for made_on in names]
    return [as_text(f"- {', '.join(same)}: {made_on}") for made_on, same in names.items()]


def how_made(run: TrainedRun) -> list[str]:
    """Return a section, folded where HTML is shown, with all that the run's settings know."""
    return folded(f"How {run.name} was made", facts(run), run.settings.commands)


def clock(seconds: float) -> str:
    """Return seconds as 1:23:45, after days if there are any."""
    return str(timedelta(seconds=round(seconds)))


def facts(run: TrainedRun) -> dict[str, str]:
    """All that the run's settings know, but the commands, in words by what it is about."""
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
    }
    return {what: text for what, text in known.items() if text}


def _resumed(settings: Settings) -> str:
    """Say how often a training went on from a checkpoint, on what other machines and of what other
    commits; empty where they were those of its first start."""
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


def _others(values: Iterable, first: object) -> list:
    return [value for value in dict.fromkeys(values) if value != first]


def _machine(start: Settings | Start) -> str:
    """Say all that is known of a machine; empty where nothing is."""
    hardware = start.hardware
    machine = [_gpus(start), *_filled(PROCESSOR, hardware), *_filled(MACHINE, hardware)]
    return ", ".join(filter(None, machine))


def _made_on(run: TrainedRun) -> str:
    """Say in one line what was translated or parsed, on what the run was trained and with what."""
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
    """Name the GPUs that were used; empty where it was none."""
    if settings.device != "cuda":
        return ""
    counts = Counter(settings.hardware.get("gpus", [])[: settings.gpus])
    gpus = " and ".join(f"{n} × {name}" if n > 1 else name for name, n in counts.items())
    return f"{settings.nodes} nodes of {gpus}" if gpus and (settings.nodes or 1) > 1 else gpus


def _filled(texts: Mapping[str, str], values: Mapping[str, object]) -> list[str]:
    return [text.format(values[key]) for key, text in texts.items() if values.get(key)]


def _versions(settings: Settings, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {settings.packages[name]}" for name in names)
