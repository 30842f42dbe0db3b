"""What a run must be traced back to, as Markdown: machine, versions, commit and commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from fairseq_aiayn.evaluation.comparison import Run
from fairseq_aiayn.evaluation.markdown_table import code_block
from fairseq_aiayn.evaluation.settings import Settings

PROCESSOR = {"processor": "{}", "cores": "{} cores"}
MACHINE = {"memory_gib": "{} GiB of memory", "driver": "NVIDIA driver {}", "cuda": "CUDA {}"}


def signatures(run: Run) -> list[str]:
    """Say how the run, and all that stand beside it, were scored."""
    return [
        f"Paper's BLEU: `{run.bleu['signature']}`",
        "",
        f"sacreBLEU: `{run.sacrebleu['signature']}`",
    ]


def machines(runs: Sequence[Run]) -> list[str]:
    """Say on what the runs were made, once where it is the same for all of them."""
    names: dict[str, list[str]] = {}
    for run in runs:
        names.setdefault(_made_on(run), []).append(run.name)
    if len(names) == 1:
        return list(names)
    return [f"- {', '.join(same)}: {made_on}" for made_on, same in names.items()]


def how_made(run: Run) -> list[str]:
    """Return a section, folded where HTML is shown, with all that the run's settings know."""
    commands = [
        line for name, command in run.settings.commands.items() for line in (f"# {name}", command)
    ]
    return [
        "<details>",
        f"<summary>How {run.name} was made</summary>",
        "",
        *(f"- {what}: {text}" for what, text in _facts(run).items() if text),
        *(["", *code_block(commands, "sh")] if commands else []),
        "",
        "</details>",
    ]


def clock(seconds: float) -> str:
    """Return seconds as 1:23:45, after days if there are any."""
    return str(timedelta(seconds=round(seconds)))


def _facts(run: Run) -> dict[str, str]:
    settings, hardware = run.settings, run.settings.hardware
    what = {
        "row {}": settings.row,
        "corpus {}": settings.corpus,
        "subset {}": settings.subset,
        "vocabulary of {:,}": run.vocabulary,
        "seed {}": settings.seed,
        "checkpoints averaged: {}": settings.averaged,
    }
    machine = [_gpus(settings), *_filled(PROCESSOR, hardware), *_filled(MACHINE, hardware)]
    return {
        "what": ", ".join(text.format(x) for text, x in what.items() if x is not None),
        "commit": f"`{settings.commit}`" if settings.commit else "",
        "written": settings.written or "",
        "hardware": ", ".join(filter(None, machine)),
        "packages": _versions(settings, list(settings.packages)),
        "wall time of training": f"{clock(run.training.wall_seconds)}, of that "
        f"{clock(run.training.seconds)} in updates",
    }


def _made_on(run: Run) -> str:
    """Say in one line what was translated, on what the run was trained and with what."""
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


def _gpus(settings: Settings) -> str:
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
