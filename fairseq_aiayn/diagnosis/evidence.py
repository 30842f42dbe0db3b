"""What the files of a training say: a checkpoint, a log, or a run directory of the recipes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from fairseq_aiayn.runs.logs import TYPES, Log, flat_options, printed_configuration, read_log
from fairseq_aiayn.runs.record import SEARCH, Settings, papers_search, read_settings
from fairseq_aiayn.settings import OURS, SIZE_ARGUMENTS, argument
from fairseq_aiayn.text import read_json

if TYPE_CHECKING:
    from fairseq_aiayn.runs.run import Run

ZIP, PICKLE = b"PK", b"\x80\x02"  # how checkpoints begin: PyTorch since 1.6, and before
CHECKPOINTS = ("checkpoint_last.pt", "checkpoint_best.pt")  # what fairseq leaves in a --save-dir
# Statistics in any of fairseq's log formats: json, simple, tqdm, none
TOKENS = re.compile(r"\b(?:train_)?wpb\"?[ =:]+\"?(\d[\d,]*\d(?:\.\d+)?)")
UPDATES = re.compile(r"\b(?:train_)?num_updates\"?[ =:]+\"?(\d+)")
DEVICES = re.compile(r"training on (\d+) (?:devices|GPUs)")
VALIDATION = "valid on '"  # in its lines; those in JSON have names of their own, such as valid_wpb
OVERFLOW = "overflow detected"
GAVE_UP = "Minimum loss scale reached"
PROJECTION_BIAS = re.compile(r"(?:[qkv]_proj|in_proj|out_proj|W_QKV|W_[QKVO])[._]bias$")
HYPOTHESIS = re.compile(r"H-(\d+)\t")


@dataclass(frozen=True)
class Evidence:
    """What is known of one training and its evaluation; None or empty where no file says it.

    Options have fairseq's argument names, such as max_tokens.
    """

    name: str  # of the file or the run
    options: Mapping[str, object]  # of fairseq-train, defaults included
    row: str | None = None  # that a recipe was asked for
    corpus: str | None = None  # the recipe's
    subset: str | None = None  # that was translated, such as valid or test
    updates: int | None = None
    tokens_per_update: float | None = None  # target tokens, without padding
    gpus: int | None = None  # of all nodes
    overflows: int | None = None  # updates that were left out, because a gradient overflowed
    gave_up_scaling: bool = False  # fairseq stopped: "Minimum loss scale reached"
    projection_biases: bool | None = None  # in W^Q, W^K, W^V or W^O, by the names of parameters
    vocabulary: int | None = None  # types of the target language
    averaged: int | None = None  # checkpoints
    search: Mapping[str, object] = field(default_factory=dict)  # options of fairseq-generate
    translated: int | None = None  # sentences
    signature: str | None = None  # of BLEU

    def number(self, name: str) -> float | None:
        """Return an option that is a number; of a list, such as --lr 0.1,0.2, the last."""
        return as_number(self.options.get(name))

    def text(self, name: str) -> str | None:
        """Return an option as text."""
        value = self.options.get(name)
        return None if value is None else str(value)

    def is_on(self, name: str) -> bool:
        """Return whether an option without a value is given."""
        return self.options.get(name) is True

    def has_our(self, name: str) -> bool:
        """Return whether an option, such as arch or task, names a part of this plugin."""
        return str(self.options.get(name, "")).startswith(OURS)

    @property
    def is_our_search(self) -> bool | None:
        """Return whether this plugin's task searched; None if no search is known."""
        return str(self.search.get("task", "")).startswith(OURS) if self.search else None


def as_number(value: object) -> float | None:
    """Return a number, a number written as text, or the last one of a list; otherwise None."""
    if isinstance(value, list) and value:
        value = value[-1]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def read_evidence(
    path: Path, generated: Path | None = None, signature: str | None = None
) -> Evidence:
    """Read a checkpoint, a log of fairseq-train, a --save-dir or a run directory of the recipes.

    `generated` is the output of fairseq-generate, `signature` that of a BLEU score. Raises OSError
    for a file that cannot be read, and ValueError, with the file, for one that is none of these, is
    unsafe to load, or is of another model than a Transformer with an encoder and a decoder.
    """
    run = _of_directory(path) if path.is_dir() else _of_file(path)
    if not run.options:
        raise ValueError(f"{path}: has no configuration of fairseq-train that can be read")
    if missing := [name for name in SIZE_ARGUMENTS if run.number(name) is None]:
        raise ValueError(
            f"{path}: must be of a Transformer with an encoder and a decoder; its model "
            f"{run.text('arch')!r} of task {run.text('task')!r} has no {missing[0]}"
        )
    if generated:
        run = _with_search(run, generated)
    return replace(run, signature=signature) if signature else run


def evidence_of_run(run: Run, log: Log, signature: str | None = None) -> Evidence:
    """Return what a finished run of the recipes says; `log` is of its training."""
    return replace(
        _of_settings(run.settings, log),
        vocabulary=run.vocabulary,
        translated=run.sentences,
        signature=signature,
    )


def _of_directory(directory: Path) -> Evidence:
    """Read a run directory of the recipes, or the newest checkpoint of a --save-dir."""
    settings = directory / "settings.json"
    if settings.exists():
        has_log = (directory / "train.log").exists()  # a parser's search stands below its training
        training = directory if has_log else directory.parent
        run = _of_settings(read_settings(settings), read_log(training / "train.log"))
        valid = training / "valid.log"
        types = _vocabulary("\n".join(read_log(valid).lines)) if valid.exists() else None
        return _with_score(replace(run, vocabulary=types), directory / "score.json")
    for name in ("train.log", *CHECKPOINTS):
        if (directory / name).exists():
            return _of_file(directory / name)
    raise ValueError(
        f"{directory}: must have a settings.json, a train.log or a {CHECKPOINTS[0]}, has none"
    )


def _of_settings(settings: Settings, log: Log) -> Evidence:
    """Return what the settings of a recipe's run and the log of its training say."""
    command = settings.options(SEARCH)
    search = papers_search(settings) | command if command else {}
    return replace(
        _of_log(log),
        name=settings.name,
        row=settings.row,
        corpus=settings.corpus,
        subset=settings.subset,
        averaged=settings.averaged,
        search={argument(name): value for name, value in search.items()},
    )


def _of_file(path: Path) -> Evidence:
    with path.open("rb") as file:
        start = file.read(2)
    return _of_checkpoint(path) if start in (ZIP, PICKLE) else _of_log(read_log(path))


def _of_checkpoint(path: Path) -> Evidence:
    from fairseq_aiayn.checkpoints import plain_configuration, read_checkpoint

    state = read_checkpoint(path)
    types = [
        tensor.shape[0]
        for name, tensor in state["model"].items()
        if name.endswith(("embed_tokens.weight", "embedding.weight")) and tensor.dim() == 2
    ]
    return Evidence(
        name=str(path),
        options=flat_options(plain_configuration(state)),
        updates=state["optimizer_history"][-1].get("num_updates"),
        projection_biases=any(PROJECTION_BIAS.search(name) for name in state["model"]),
        vocabulary=types[-1] if types else None,
    )


def _of_log(log: Log) -> Evidence:
    """Read the log of a training, of any of fairseq's formats, finished or not."""
    lines = [line for line in log.lines if "Namespace(" not in line]
    text = "\n".join(lines)
    training = "\n".join(line for line in lines if VALIDATION not in line)
    tokens = [float(number.replace(",", "")) for number in TOKENS.findall(training)]
    updates, devices = UPDATES.findall(text), DEVICES.findall(text)
    return Evidence(
        name=str(log.path),
        options=flat_options(printed_configuration(log.lines)),
        updates=int(updates[-1]) if updates else None,
        tokens_per_update=median(tokens) if tokens else None,
        gpus=int(devices[-1]) if devices else None,
        overflows=text.count(OVERFLOW),
        gave_up_scaling=GAVE_UP in text,
        vocabulary=_vocabulary(text),
    )


def _vocabulary(text: str) -> int | None:
    """Return the types of the target language, which a log names last."""
    types = TYPES.findall(text)
    return int(types[-1]) if types else None


def _with_search(run: Evidence, path: Path) -> Evidence:
    """Add what fairseq-generate's output says: options, subset, and how many sentences."""
    log = read_log(path)
    configuration = printed_configuration(log.lines)
    search = flat_options(configuration)
    for group in ("generation", "common_eval"):
        search |= configuration.get(group) or {}
    if not search:
        raise ValueError(f"{path}: has no configuration of fairseq-generate that can be read")
    sentences = {match[1] for line in log.lines if (match := HYPOTHESIS.match(line))}
    subset = search.get("gen_subset")
    return replace(
        run,
        search=search,
        subset=None if subset is None else str(subset),
        translated=len(sentences) or None,
    )


def _with_score(run: Evidence, path: Path) -> Evidence:
    """Add what a recipe's score.json says of a translation; a parser's is of its trees."""
    scores = read_json(path) if path.exists() else None
    paper = scores.get("paper") if isinstance(scores, dict) else None
    if not isinstance(scores, dict) or not isinstance(paper, dict):
        return run
    return replace(run, signature=str(paper.get("signature")), translated=scores.get("sentences"))
