"""What the files of a training say: a checkpoint, a log, or a run directory of the recipes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from fairseq_aiayn.configuration import flat_options, plain_configuration
from fairseq_aiayn.corpus.pieces import MARK
from fairseq_aiayn.runs.logs import Log, Start, as_number, curves_of, read_log
from fairseq_aiayn.scores import GENERATED, RESULT
from fairseq_aiayn.settings import OURS, argument, option

if TYPE_CHECKING:
    from fairseq_aiayn.runs.run import ScoredRun

__all__ = ["evidence_of_run", "read_evidence"]

NO_LOG = Log(Path(), ())
ZIP, PICKLE = b"PK", b"\x80\x02"  # how checkpoints begin: PyTorch since 1.6, and before
CHECKPOINTS = ("checkpoint_last.pt", "checkpoint_best.pt")  # what fairseq leaves in a --save-dir
TRANSFORMERS = re.compile(  # of the paper, by the names of fairseq's architectures and classes
    r"aiayn_\w+|AiaynModel|TransformerModel|transformer(_tiny|_iwslt_de_en|_wmt_en_de(_big(_t2t)?)?"
    r"|_vaswani_wmt_en_(de|fr)_big)?"
)
# Parts of fairseq of which this plugin has its own
STOCKS = {"task": "translation", "criterion": "label_smoothed_cross_entropy", "optimizer": "adam"}
# What a log says, in the words of all versions of fairseq from 0.8 on
DEVICES = re.compile(r"training on (\d+) (?:devices|GPUs)")
MODEL_CLASS = re.compile(r"(?:^|\| )model: (?:\S+ \()?(\w+)\)?$", re.MULTILINE)
ENDED = re.compile(r"done training in|early stop since|stopping training because", re.IGNORECASE)
TRANSLATED = re.compile(r"Translated ([\d,]{1,20}) sentences")
# What plugin/left_out.py logs of each set, and what fairseq logs of the training set at every epoch
LEFT_OUT = re.compile(r"(?<!\S)(\S+): ([\d,]{1,20}) of ([\d,]{1,20}) pairs are left out by (.*)")
LIMIT = re.compile(r"(?<!-)(--[\w-]+) (\d{1,20})(?: \([\d,]{1,20}, of up to (\d{1,20}) tokens\))?")
SKIPPED = re.compile(
    r"([\d,]{1,20}) samples have invalid sizes and will be skipped"
    r"(?:, max_positions=\(([\d, ]+)\))?"
)
EXAMPLES = re.compile(r"([\d,]{1,20}) examples")  # of one side of a part of the data
LIMITS = ("max_tokens", "max_source_positions", "max_target_positions")


class LeftOut(NamedTuple):
    """Pairs that were left out of a set."""

    subset: str
    pairs: int
    of: int  # 0: not known
    limits: Mapping[str, tuple[int, int]]  # by option: its value; the longest pair or 0


@dataclass(frozen=True)
class Evidence:
    """What is known of one training and its evaluation; None or empty where no file says it."""

    name: str  # of the file or the run
    options: Mapping[str, object]  # of fairseq-train, by argument names, defaults included
    row: str | None = None  # that a recipe was asked for
    corpus: str | None = None  # the recipe's
    updates: int | None = None
    tokens_per_update: float | None = None  # target tokens, without padding
    gpus: int | None = None  # of all nodes
    curves: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # by update, of CURVES
    is_finished: bool | None = None
    starts: int = 1
    log: Log = NO_LOG  # of the training
    vocabulary: int | None = None  # types of the target language
    averaged: int | None = None  # checkpoints
    search: Mapping[str, object] = field(default_factory=dict)  # options of fairseq-generate
    translated: int | None = None  # sentences
    missing: int = 0  # sentences, by the numbers of those that were translated
    has_subwords: bool | None = None  # in the text of the translation
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

    def is_ours(self, part: str) -> bool | None:
        """Return whether a part, such as task, or the search is this plugin's and not stock
        fairseq's; None if it is neither, or not known."""
        name = self.search.get("task") if part == "search" else self.options.get(part)
        is_ours = str(name).startswith(OURS)
        return is_ours if is_ours or name == STOCKS.get(part, name or "") else None

    @cached_property
    def left_out(self) -> list[LeftOut]:
        """The pairs that were left out of each set; in a log without this plugin, of the largest,
        by the options that have the smallest of the limits."""
        found = LEFT_OUT.findall(self.log.text)
        skipped = SKIPPED.findall(self.log.text)
        if skipped and not found:
            pairs, most = max(skipped, key=lambda each: _whole(each[0]))
            everything = max(EXAMPLES.findall(self.log.text), key=_whole, default="0")
            least = min(map(int, re.findall(r"\d+", most)), default=0)
            limits = [f"{option(name)} {least}" for name in LIMITS if self.number(name) == least]
            found = [("train", pairs, everything, " ".join(limits))]
        sets = {}
        for subset, pairs, everything, why in found:
            options = {name: (int(value), int(far or 0)) for name, value, far in LIMIT.findall(why)}
            sets[subset] = LeftOut(subset, _whole(pairs), _whole(everything), options)
        return [*sets.values()]

    @property
    def is_transformer(self) -> bool:
        """Return whether the model is the paper's Transformer, by its class or architecture."""
        model = MODEL_CLASS.search(self.log.text)
        return bool(TRANSFORMERS.fullmatch(model[1] if model else str(self.options.get("arch"))))

    @property
    def begun_from(self) -> str | None:
        """Return the option that names another model, with which the training began."""
        names = ("finetune_from_model", "encoder_embed_path", "decoder_embed_path", "restore_file")
        for name in names:
            if self.options.get(name) not in (None, "", "checkpoint_last.pt"):
                return f"{option(name)} {self.options[name]}"
        return None


def _whole(number: str) -> int:
    return int(number.replace(",", ""))


def read_evidence(
    path: Path, generated: Path | None = None, signature: str | None = None
) -> Evidence:
    """Read a checkpoint, a log of fairseq-train, a --save-dir or a run directory of the recipes.

    `generated` is the output of fairseq-generate, `signature` that of a BLEU score. Raises OSError
    for a file that cannot be read, and ValueError, with the file, for one that is none of these or
    unsafe to load.
    """
    run = _of_path(path)
    if not run.options and not any(run.curves.values()):
        raise ValueError(f"{path}: has neither a configuration of fairseq-train nor statistics")
    run = _with_search(run, read_log(generated)) if generated else run
    return replace(run, signature=signature) if signature else run


def _of_path(path: Path) -> Evidence:
    """Read a checkpoint or a log; of a --save-dir, its log or its newest checkpoint."""
    if (path / "settings.json").exists():
        from fairseq_aiayn.runs.run import read_run

        return evidence_of_run(*read_run(path))
    if path.is_dir():
        from fairseq_aiayn.checkpoints import last_checkpoints

        files = [path / name for name in ("train.log", *CHECKPOINTS)]
        path = next(filter(Path.exists, files), None) or last_checkpoints(path, 1)[0]
    if path.is_file():  # a pipe is read only once
        with path.open("rb") as file:
            if file.read(2) in (ZIP, PICKLE):
                return _of_checkpoint(path)
    return _of_log(read_log(path))


def evidence_of_run(run: ScoredRun, log: Log = NO_LOG) -> Evidence:
    """Return what a finished run of the recipes says, with the log of its training or without."""
    settings, bleu = run.settings, getattr(run, "bleu", None)  # a parser has none
    fairseqs = {"--task": "translation", "--post-process": ""}
    search = fairseqs | settings.search if settings.search else {}
    return replace(
        _of_log(log),
        name=settings.name,
        row=settings.row,
        corpus=settings.corpus,
        updates=run.training.updates,
        is_finished=True,
        averaged=settings.averaged,
        search={argument(name): value for name, value in search.items()}
        | {"gen_subset": settings.subset},
        vocabulary=run.vocabulary,
        translated=run.sentences,
        signature=bleu.signature if bleu else None,
    )


def _of_checkpoint(path: Path) -> Evidence:
    from fairseq_aiayn.checkpoints import read_checkpoint

    state = read_checkpoint(path, weights=False)
    types = [
        tensor.shape[0]
        for name, tensor in state["model"].items()
        if name.endswith(("embed_tokens.weight", "embedding.weight")) and tensor.dim() == 2
    ]
    return Evidence(
        name=str(path),
        options=flat_options(plain_configuration(state)),
        updates=state["optimizer_history"][-1].get("num_updates"),
        vocabulary=types[-1] if types else None,
    )


def _of_log(log: Log) -> Evidence:
    """Read the last training of a log, finished or not, and a translation that follows it."""
    trainings = log.last_training
    run = _of_training(log, trainings)
    later = log.starts[log.starts.index(trainings[-1]) + 1 :] if trainings else []
    marks = (GENERATED, RESULT, TRANSLATED)  # fairseq-validate leaves none of them
    later = [start for start in later if any(mark.search(start.log.text) for mark in marks)]
    return _with_search(run, later[-1].log, later[-1]) if later else run


def _of_training(log: Log, starts: list[Start]) -> Evidence:
    """Return what the starts of one training say; the whole log, if it has no configuration."""
    options, last = (starts[-1].options, starts[-1].log) if starts else ({}, log)
    if starts:
        log = Log(log.path, [line for start in starts for line in start.log.lines])
    curves = curves_of(log, str(options.get("valid_subset") or "valid").split(",")[0])
    updates = max((max(curve) for curve in curves.values() if curve), default=None)
    asked = as_number(options.get("max_update"))
    devices = DEVICES.search(last.text)
    return Evidence(
        name=str(log.path),
        options=options,
        updates=updates,
        tokens_per_update=median(curves["tokens"].values()) if curves["tokens"] else None,
        gpus=int(devices[1]) if devices else None,
        vocabulary=[None, *log.dictionaries][-1],
        curves=curves,
        is_finished=bool(ENDED.search(last.text) or (asked and updates and updates >= asked)),
        starts=max(1, len(starts)),
        log=log,
    )


def _with_search(run: Evidence, log: Log, start: Start | None = None) -> Evidence:
    """Add what fairseq-generate's output says, with or without its configuration."""
    start = start or [None, *log.starts][-1]
    search = start.search_options if start else {}
    if result := RESULT.search(log.text):
        search = {"gen_subset": result[1], "beam": int(result[2])} | search
    matches = [match for match in GENERATED.findall(log.text) if match[0] in "DH"]
    count = TRANSLATED.search(log.text)
    if not search and not matches and not count:
        raise ValueError(f"{log.path}: has neither options of fairseq-generate nor a translation")
    kind = min((kind for kind, _, _ in matches), default="")  # D, detokenized, or else H
    texts = "\n".join(text for its_kind, _, text in matches if its_kind == kind)
    numbers = {int(number) for _, number, _ in matches}
    return replace(
        run,
        search=search,
        translated=len(numbers) or (_whole(count[1]) if count else None),
        missing=max(numbers, default=-1) + 1 - len(numbers),
        has_subwords=bool(MARK.search(texts)) if texts else None,
        signature=result[3] if result else None,
    )
