"""What the files of a training say: a checkpoint, a log, or a run directory of the recipes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

from fairseq_aiayn.configuration import flat_options, plain_configuration
from fairseq_aiayn.corpus.pieces import BEGINS, MARK
from fairseq_aiayn.diagnosis.endings import ending
from fairseq_aiayn.runs.logs import Line, Log, Start, as_number, curves_of, read_log
from fairseq_aiayn.scores import GENERATED, RESULT
from fairseq_aiayn.settings import OURS, argument, option

if TYPE_CHECKING:
    from fairseq_aiayn.runs.run import ScoredRun

__all__ = ["evidence_of_run", "read_evidence"]

NO_LOG = Log(Path(), ())
ZIP, PICKLE = b"PK", b"\x80\x02"  # how checkpoints begin: PyTorch since 1.6, and before
# What fairseq and hydra leave in a directory
NEWEST = ("train.log", "hydra_train.log", "checkpoint_last.pt", "checkpoint_best.pt")
TRANSFORMERS = re.compile(  # of the paper, by the names of fairseq's architectures and classes
    r"aiayn_\w+|AiaynModel|TransformerModel|transformer(_tiny|_iwslt_de_en|_wmt_en_de(_big(_t2t)?)?"
    r"|_vaswani_wmt_en_(de|fr)_big)?"
)
# Parts of fairseq of which this plugin has its own
STOCKS = {"task": "translation", "criterion": "label_smoothed_cross_entropy", "optimizer": "adam"}
# What a log says, in the words of all versions of fairseq from 0.8 on
DEVICES = re.compile(r"training on (\d+) (?:devices|GPUs)")
MODEL_CLASS = re.compile(r"(?:^|\| )model: (?:\S+ \()?(\w+)\)?$", re.MULTILINE)
STOPPED = re.compile(r"early stop since.*|stopping training (?:because|due to).*", re.IGNORECASE)
ENDED = re.compile(rf"done training in|{STOPPED.pattern}", re.IGNORECASE)
TRANSLATED = re.compile(r"Translated ([\d,]{1,20}) sentences")
# What plugin/left_out.py logs of each set, and what fairseq logs of a set
LEFT_OUT = re.compile(r"(?<!\S)((\S+): ([\d,]{1,20}) of ([\d,]{1,20}) pairs are left out by .*)")
SKIPPED = re.compile(r"(([\d,]{1,20}) samples have invalid sizes and will be skipped[^\[]*)")
# Pairs of a part of the data, which may lie in several folders, and their languages
EXAMPLES = re.compile(r"(?<!\S)(\S+ train\d*) (?:\S+-\S+ )?([\d,]{1,20}) examples\s*$")
PAIR = re.compile(r" train\d* ([^\s-]+)-(\S+) [\d,]{1,20} examples$", re.MULTILINE)


class Text(NamedTuple):
    """What a model was trained on."""

    pairs: int
    line: int  # of the log


class LeftOut(NamedTuple):
    """Pairs that were left out of a set."""

    pairs: int
    of: int  # 0: not known
    said: str  # by the log
    line: int


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
    starts: Sequence[Start] = ()
    trainings: Sequence[int] = ()  # of the file, by their first lines
    chosen: int = 1  # of the trainings
    log: Log = NO_LOG  # of the training
    types: Sequence[int] = ()  # of the dictionaries, source and target, or of the target alone
    averaged: int | None = None  # checkpoints
    search: Mapping[str, object] = field(default_factory=dict)  # options of fairseq-generate
    searches: Sequence[int] = ()  # of its output, by their first lines; the last counts
    translated: int | None = None  # sentences
    missing: int = 0  # sentences, by the numbers of those that were translated
    # How pieces in the text of the translation are joined, empty if it has none
    pieces: Literal["subword_nmt", "sentencepiece", ""] | None = None
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
        """The pairs that were left out of each set; without this plugin, of the largest."""
        found = {match[2]: (match, line) for line, match in self.log.find(LEFT_OUT)}
        if found:
            return [
                LeftOut(_whole(match[3]), _whole(match[4]), match[1], line)
                for match, line in found.values()
            ]
        pairs = self.trained_on.pairs if self.trained_on else 0
        skipped = [
            LeftOut(_whole(match[2]), pairs, match[1].rstrip(" ,"), line)
            for line, match in self.log.find(SKIPPED)
        ]
        return [max(skipped)] if skipped else []

    @cached_property
    def trained_on(self) -> Text | None:
        """The text, all folders together; a later start says it again."""
        parts = {match[1]: (line, match) for line, match in self.log.find(EXAMPLES)}
        if not parts:
            return None
        *_, (line, _) = parts.values()
        pairs = sum(_whole(match[2]) for _, match in parts.values())
        return Text(pairs, line)

    @cached_property
    def languages(self) -> tuple[str, str]:
        """Source and target language; empty where no file says them."""
        given = (self.text("source_lang"), self.text("target_lang"))
        pair = PAIR.search(self.log.text)
        logged = pair.groups() if pair else (*self.log.dictionaries, "", "")[:2]
        source, target = given if all(given) else logged
        return (source or "", target or "") if "None" not in logged else ("", "")

    @property
    def dictionaries(self) -> str:
        """The types of the dictionaries, in words."""
        several = "two dictionaries, of " * (len(set(self.types)) > 1)
        return (
            several + " and ".join(f"{types:,}" for types in dict.fromkeys(self.types)) + " types"
        )

    @property
    def devices(self) -> int:
        """The number of GPUs or processes, 1 if no file says more."""
        return int(self.gpus or self.number("distributed_world_size") or 1)

    @property
    def subset(self) -> str:
        """The set whose validations fairseq logs first."""
        return str(self.options.get("valid_subset") or "valid").split(",")[0]

    def line_of(self, curve: str, update: int) -> int:
        """Return the line of the log that has a point of a curve."""
        return self.log.line_of(update, self.subset if curve.startswith("development") else "")

    @property
    def is_papers_pair(self) -> bool:
        """Return whether figures of English-German may be of this text: no file says another."""
        codes = [language.lower()[:2] for language in self.languages]
        return codes in (["en", "de"], ["", ""])

    @property
    def is_transformer(self) -> bool:
        """Return whether the model is the paper's Transformer, by its class or architecture."""
        model = MODEL_CLASS.search(self.log.text)
        return bool(TRANSFORMERS.fullmatch(model[1] if model else str(self.options.get("arch"))))

    @property
    def is_seq2seq(self) -> bool:
        """Return whether losses are of target tokens, as in a translation, or nothing is said."""
        task = self.text("task") or "translation"
        return "translation" in task or task.startswith(OURS)

    @property
    def begun_from(self) -> str | None:
        """Return the option that names another model, with which the training began."""
        names = ("finetune_from_model", "encoder_embed_path", "decoder_embed_path", "restore_file")
        for name in names:
            if self.options.get(name) not in (None, "", "checkpoint_last.pt"):
                return f"{option(name)} {self.options[name]}"
        return None


def _pieces(text: str) -> Literal["subword_nmt", "sentencepiece", ""]:
    mark = MARK.search(text)
    return "" if mark is None else "sentencepiece" if mark[0] == BEGINS else "subword_nmt"


def _whole(number: str) -> int:
    return int(number.replace(",", ""))


def read_evidence(
    path: Path,
    generated: Path | None = None,
    signature: str | None = None,
    training: int | None = None,
) -> Evidence:
    """Read a checkpoint, a log of fairseq-train, a --save-dir or a run directory of the recipes.

    `generated` is the output of fairseq-generate, `signature` that of a BLEU score, `training` the
    number of one in a log, without it the last. Raises OSError for a file that cannot be read, and
    ValueError, with the file, for one that is none of these or unsafe to load.
    """
    run = _of_path(path, training)
    if training and not run.trainings:
        raise ValueError(f"--training: expected a log with several trainings, got {path}")
    if not run.options and not any(run.curves.values()) and not ending(run.log):
        text = f"{path}: has neither a configuration of fairseq-train nor statistics"
        if GENERATED.search(run.log.text):
            text += "; what fairseq-generate prints is read with --generate"
        raise ValueError(text)
    run = _with_search(run, searches_of(read_log(generated))) if generated else run
    return replace(run, signature=signature) if signature else run


def _of_path(path: Path, training: int | None) -> Evidence:
    """Read a checkpoint or a log; of a --save-dir or a directory of hydra's, its log or its newest
    checkpoint."""
    if (path / "settings.json").exists():
        from fairseq_aiayn.runs.run import read_run

        return evidence_of_run(*read_run(path))
    if path.is_dir():
        from fairseq_aiayn.checkpoints import last_checkpoints

        files = [folder / name for folder in (path, path / "checkpoints") for name in NEWEST]
        path = next(filter(Path.exists, files), None) or last_checkpoints(path, 1)[0]
    if path.is_file():  # a pipe is read only once
        with path.open("rb") as file:
            if file.read(2) in (ZIP, PICKLE):
                return _of_checkpoint(path)
    return _of_log(read_log(path), training)


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
        types=[run.vocabulary] if run.vocabulary else [],
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
        types=types,
    )


def _of_log(log: Log, chosen: int | None = None) -> Evidence:
    """Read a training of a log, finished or not, and a translation that follows it."""
    trainings = log.trainings
    number = chosen or len(trainings)
    if chosen and not 1 <= chosen <= len(trainings):
        raise ValueError(f"--training: expected 1 to {len(trainings)} of {log.path}, got {chosen}")
    starts = trainings[number - 1] if trainings else []
    begins = [training[0].log.lines[0].number for training in trainings]
    run = replace(_of_training(log, starts), trainings=begins, chosen=number)
    later = log.starts[log.starts.index(starts[-1]) + 1 :] if starts else []
    later = [*takewhile(lambda start: not start.is_training, later)]
    marks = (GENERATED, RESULT, TRANSLATED)  # fairseq-validate leaves none of them
    later = [start for start in later if any(mark.search(start.log.text) for mark in marks)]
    return _with_search(run, later) if later else run


def _of_training(log: Log, starts: list[Start]) -> Evidence:
    """Return what the starts of one training say; the whole log, if it has none."""
    options, last = (starts[-1].options, starts[-1].log) if starts else ({}, log)
    if starts:
        log = Log(log.path, [line for start in starts for line in start.log.lines])
    curves = curves_of(log, Evidence("", options).subset)
    updates = max((max(curve) for curve in curves.values() if curve), default=None)
    asked = as_number(options.get("max_update"))
    devices = DEVICES.search(last.text)
    return Evidence(
        name=str(log.path),
        options=options,
        updates=updates,
        tokens_per_update=median(curves["tokens"].values()) if curves["tokens"] else None,
        gpus=int(devices[1]) if devices else None,
        types=[*last.dictionaries.values()] or [*log.dictionaries.values()],
        curves=curves,
        is_finished=bool(ENDED.search(last.text) or (asked and updates and updates >= asked)),
        starts=starts,
        log=log,
    )


def searches_of(log: Log) -> list[Start]:
    """Return the searches of fairseq-generate's output, each with its configuration if it is
    there; without any, each ends with its result."""
    if log.starts and all(start.configuration for start in log.starts):
        return log.starts
    results = {number for number, _ in log.find(RESULT)}
    parts: list[list[Line]] = [[]]
    for line in log.lines:
        parts[-1].append(line)
        parts += [[]] * (line.number in results)
    return [Start({}, Log(log.path, part)) for part in parts if len(part) > 1 or len(parts) == 1]


def _with_search(run: Evidence, searches: Sequence[Start]) -> Evidence:
    """Add what the last search in fairseq-generate's output says."""
    *_, last = searches
    log, search = last.log, last.search_options
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
        searches=[each.log.lines[0].number for each in searches],
        translated=len(numbers) or (_whole(count[1]) if count else None),
        missing=max(numbers, default=-1) + 1 - len(numbers),
        pieces=_pieces(texts) if texts else None,
        signature=result[3] if result else None,
    )
