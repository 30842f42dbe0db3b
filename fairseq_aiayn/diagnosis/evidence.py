"""What the files of a training say: a checkpoint, a log, or a run directory of the recipes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import dropwhile, takewhile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

from fairseq_aiayn.configuration import flat_options, plain_configuration
from fairseq_aiayn.corpus.pieces import BEGINS, MARK
from fairseq_aiayn.diagnosis.endings import LACKED_MEMORY, ending
from fairseq_aiayn.paper import PAIRS_EN_DE
from fairseq_aiayn.runs.logs import Log, Points, as_number, curves_of, read_log
from fairseq_aiayn.scores import GENERATED, RESULT
from fairseq_aiayn.settings import OURS, Fit, argument, fitting, option

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
# What repairs/left_out.py logs of each set, and what fairseq logs of a set
LEFT_OUT = re.compile(r"(?<!\S)((\S+): ([\d,]{1,20}) of ([\d,]{1,20}) pairs are left out by .*)")
SKIPPED = re.compile(r"(([\d,]{1,20}) samples have invalid sizes and will be skipped[^\[]*)")
# Pairs of a part of the data, which may lie in several folders, and their languages
EXAMPLES = re.compile(r"(?<!\S)(\S+ train\d*) (?:([^\s-]+)-(\S+) )?([\d,]{1,20}) examples\s*$")

NEWSTEST2014 = 3_003  # sentences
FILTERED = 2_737  # of them, without those that a filter of the organizers left out


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
    is_finished: bool | None = None
    log: Log = NO_LOG  # of the training
    starts: Sequence[Log] = ()  # of the training
    trainings: Sequence[Sequence[Log]] = ()  # of the file, by their starts
    types: Sequence[int] = ()  # of the dictionaries, source and target, or of the target alone
    averaged: int | None = None  # checkpoints
    search: Mapping[str, object] = field(default_factory=dict)  # options of fairseq-generate
    searches: Sequence[Log] = ()  # of its output; the last counts
    translated: int | None = None  # sentences
    missing: int = 0  # sentences, by the numbers of those that were translated
    # How pieces in the text of the translation are joined, empty if it has none
    pieces: Literal["subword_nmt", "sentencepiece", ""] | None = None
    signature: str | None = None  # of BLEU

    def number(self, name: str) -> float | None:
        """Return an option that is a number; of a list, such as --lr 0.1,0.2, the last."""
        return as_number(self.options.get(name))

    def shown(self, name: str) -> str | None:
        """Return an option that is a number as findings show it."""
        return as_text(self.number(name))

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
    def curves(self) -> dict[str, Points]:
        """The curves of the training, by update."""
        return curves_of(self.log, self.subset)

    @cached_property
    def left_out(self) -> list[tuple[float, str, int]]:
        """What was left out of each set, without this plugin of the largest: the share of the
        pairs, what the log says, and its line."""
        ours = {
            match[2]: (_whole(match[3]) / (_whole(match[4]) or PAIRS_EN_DE), match[1], line)
            for line, match in self.log.find(LEFT_OUT)
        }
        pairs = self.trained_on[0] or PAIRS_EN_DE
        found = self.log.find(SKIPPED)
        stocks = [(_whole(said[2]) / pairs, said[1].rstrip(" ,"), line) for line, said in found]
        return [*ours.values()] or sorted(stocks)[-1:]

    @cached_property
    def trained_on(self) -> tuple[int, int]:
        """The pairs of the text, all folders together, and a line that says them; a later start
        says them again."""
        parts = {match[1]: (_whole(match[4]), line) for line, match in self.log.find(EXAMPLES)}
        return sum(pairs for pairs, _ in parts.values()), [(0, 0), *parts.values()][-1][1]

    @property
    def fits(self) -> Fit | None:
        """What fits the text; None for a large or unknown one, which the paper's rows fit."""
        return fitting(self.trained_on[0]) if self.trained_on[1] else None

    @cached_property
    def languages(self) -> tuple[str, str]:
        """Source and target language; xx where no file says them."""
        given = (self.text("source_lang"), self.text("target_lang"))
        pairs = (match.group(2, 3) for _, match in self.log.find(EXAMPLES) if match[2])
        logged = next(pairs, (*self.log.dictionaries, "", "")[:2])
        source, target = given if all(given) else logged
        return (source or "xx", target or "xx") if "None" not in logged else ("xx", "xx")

    @property
    def dictionaries(self) -> str:
        """The types of the dictionaries, in words."""
        numbers = [f"{types:,}" for types in dict.fromkeys(self.types)]
        return "two dictionaries, of " * (len(numbers) > 1) + f"{' and '.join(numbers)} types"

    @cached_property
    def lacked_memory(self) -> bool:
        """Whether a batch was too large for the memory of a GPU."""
        return bool(self.log.find(LACKED_MEMORY))

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
        """Return whether figures of English-German's newstest2014 may be of this training."""
        is_english_german = [each.lower()[:2] for each in self.languages] == ["en", "de"]
        return is_english_german and self.translated in (None, NEWSTEST2014, FILTERED)

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


def as_text(number: float | None) -> str | None:
    """Return a number as findings show it."""
    return None if number is None else f"{number:,g}"


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
    if training is not None and not run.trainings:
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
    ends = ("embed_tokens.weight", "embedding.weight")
    embeddings = (tensor for name, tensor in state["model"].items() if name.endswith(ends))
    types = [tensor.shape[0] for tensor in embeddings if tensor.dim() == 2]
    return Evidence(
        name=str(path),
        options=flat_options(plain_configuration(state)),
        updates=state["optimizer_history"][-1].get("num_updates"),
        types=types,
    )


def _of_log(log: Log, chosen: int | None = None) -> Evidence:
    """Read a training of a log, finished or not, and a translation that follows it; of a log that
    has none, all that it says."""
    # Of a configuration that is written twice in a row, the second begins the start
    doubled = [a for a, b in zip(log.starts, log.starts[1:]) if a.text == b.lines[0].text]
    several = log.trainings or [[log]]
    trainings = [[start for start in starts if start not in doubled] for starts in several]
    if chosen is not None and not 1 <= chosen <= len(trainings):
        raise ValueError(f"--training: expected 1 to {len(trainings)} of {log.path}, got {chosen}")
    run = replace(_of_starts(trainings[(chosen or 0) - 1]), trainings=trainings)
    after = dropwhile(lambda start: start is not run.starts[-1], log.starts)
    later = takewhile(lambda start: not start.is_training, [*after][1:])
    marks = (GENERATED, RESULT, TRANSLATED)  # fairseq-validate leaves none of them
    searches = [start for start in later if any(mark.search(start.text) for mark in marks)]
    return _with_search(run, searches) if searches else run


def _of_starts(starts: Sequence[Log]) -> Evidence:
    """Return what the starts of one training say."""
    log = last = starts[-1]
    if len(starts) > 1:
        log = Log(last.path, [line for start in starts for line in start.lines])
    options = last.options if last.is_training else {}
    run = Evidence(str(log.path), options, log=log, starts=starts)
    updates = max((max(curve) for curve in run.curves.values() if curve), default=None)
    asked, devices = run.number("max_update"), DEVICES.search(last.text)
    return replace(
        run,
        updates=updates,
        tokens_per_update=median(run.curves["tokens"].values() or [0]) or None,
        gpus=int(devices[1]) if devices else None,
        types=[*last.dictionaries.values()] or [*log.dictionaries.values()],
        is_finished=bool(ENDED.search(last.text) or (asked and updates and updates >= asked)),
    )


def searches_of(log: Log) -> list[Log]:
    """Return the searches of fairseq-generate's output, each with its configuration if it is
    there; without any, each ends with its result."""
    if all(start.configuration for start in log.starts):
        return log.starts
    ends = [index for index, line in enumerate(log.lines, 1) if RESULT.search(line.text)]
    parts = log.parts([0, *ends])
    return [part for part in parts if len(part.lines) > 1] or parts[:1]


def _with_search(run: Evidence, searches: Sequence[Log]) -> Evidence:
    """Add what the last search in fairseq-generate's output says."""
    last = searches[-1]
    search = last.search_options
    if result := RESULT.search(last.text):
        search = {"gen_subset": result[1], "beam": int(result[2])} | search
    matches = [match for match in GENERATED.findall(last.text) if match[0] in "DH"]
    count = TRANSLATED.search(last.text)
    if not search and not matches and not count:
        raise ValueError(f"{last.path}: has neither options of fairseq-generate nor a translation")
    kind = min((kind for kind, _, _ in matches), default="")  # D, detokenized, or else H
    texts = "\n".join(text for its_kind, _, text in matches if its_kind == kind)
    numbers = {int(number) for _, number, _ in matches}
    return replace(
        run,
        search=search,
        searches=searches,
        translated=len(numbers) or (_whole(count[1]) if count else None),
        missing=max(numbers, default=-1) + 1 - len(numbers),
        pieces=_pieces(texts) if texts else None,
        signature=result[3] if result else None,
    )
