"""What the files of a training say: a checkpoint, a log, or a run directory of the recipes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from fairseq_aiayn.runs.configurations import Start, flat_options, starts_of
from fairseq_aiayn.runs.logs import TYPES, Log, as_number, read_log, series
from fairseq_aiayn.runs.record import SEARCH, Settings, papers_search, read_settings
from fairseq_aiayn.settings import OURS, argument, option
from fairseq_aiayn.text import read_json

if TYPE_CHECKING:
    from fairseq_aiayn.runs.run import Run

ZIP, PICKLE = b"PK", b"\x80\x02"  # how checkpoints begin: PyTorch since 1.6, and before
CHECKPOINTS = ("checkpoint_last.pt", "checkpoint_best.pt")  # what fairseq leaves in a --save-dir
TRANSFORMERS = re.compile(  # of the paper, by the names of fairseq's architectures and classes
    r"aiayn_\w+|AiaynModel|TransformerModel|transformer(_tiny|_iwslt_de_en|_wmt_en_de(_big(_t2t)?)?"
    r"|_vaswani_wmt_en_(de|fr)_big)?"
)
# What a log says, in the words of all versions of fairseq from 0.8 on
DEVICES = re.compile(r"training on (\d+) (?:devices|GPUs)")
MODEL_CLASS = re.compile(r"(?:^|\| )model: (?:\S+ \()?(\w+)\)?$")
SKIPPED = re.compile(r"([\d,]+) samples have invalid sizes and will be skipped")
EXAMPLES = re.compile(r"([\d,]+) examples")  # of one side of a part of the data
LOADED = re.compile(r"[Ll]oaded checkpoint (\S+) \(epoch (\d+) @ (\d+) updates\)")
OVERFLOW = "overflow detected"
GAVE_UP = "Minimum loss scale reached"
LOST_BATCH = re.compile(r"recover from OOM in forward|out of memory, (?:skipping|retrying) batch")
ERROR = re.compile(r"^(?:\S+ )*?((?:[\w.]+(?:Error|Exception)|KeyboardInterrupt)\b.*)")
ENDED = re.compile(r"done training in|early stop since|stopping training because", re.IGNORECASE)
PROJECTION_BIAS = re.compile(r"(?:[qkv]_proj|in_proj|out_proj|W_QKV|W_[QKVO])[._]bias$")
HYPOTHESIS = re.compile(r"([DH])-(\d+)\t[^\t]*\t(.*)")
SUBWORD = re.compile(r"@@ |@@$|\u2581")
RESULT = re.compile(r"Generate (\S+) with beam=(\d+)")  # the last line of fairseq-generate
CURVES = {  # what the log calls them
    "loss": "loss",  # label-smoothed, in bits per target token
    "perplexity": "ppl",
    "gradient norm": "gnorm",
    "loss scale": "loss_scale",
    "tokens": "wpb",  # target tokens per update
    "speed": "wps",  # target tokens per second
}


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
    model: str | None = None  # its class
    curves: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # by update, see CURVES
    epochs: int | None = None
    is_finished: bool | None = None
    error: str | None = None  # with which it ended
    starts: int = 1
    first_update: int = 0  # after which the file begins
    skipped: int = 0  # pairs, as too long
    examples: int | None = None  # of the training data
    lost_batches: int = 0  # for want of memory
    has_groups: bool = False  # of options, as fairseq prints since 0.12
    projection_biases: bool | None = None  # in W^Q, W^K, W^V or W^O, by the names of parameters
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

    def has_our(self, name: str) -> bool:
        """Return whether an option, such as arch or task, names a part of this plugin."""
        return str(self.options.get(name, "")).startswith(OURS)

    @property
    def is_our_search(self) -> bool | None:
        """Return whether this plugin's task searched; None if that is not known."""
        task = self.search.get("task")
        return None if task is None else str(task).startswith(OURS)

    @property
    def is_transformer(self) -> bool:
        """Return whether the model is the paper's Transformer, by its class or architecture."""
        return bool(TRANSFORMERS.fullmatch(self.model or str(self.options.get("arch"))))

    @property
    def begun_from(self) -> str | None:
        """Return the option that names another model, with which the training began."""
        for name in ("finetune_from_model", "encoder_embed_path", "decoder_embed_path"):
            if self.options.get(name):
                return f"{option(name)} {self.options[name]}"
        restored = self.text("restore_file")
        if restored in (None, "", "checkpoint_last.pt"):
            return None
        return f"--restore-file {restored}"


def read_evidence(
    path: Path, generated: Path | None = None, signature: str | None = None
) -> Evidence:
    """Read a checkpoint, a log of fairseq-train, a --save-dir or a run directory of the recipes.

    `generated` is the output of fairseq-generate, `signature` that of a BLEU score. Raises OSError
    for a file that cannot be read, and ValueError, with the file, for one that is none of these or
    unsafe to load.
    """
    run = _of_directory(path) if path.is_dir() else _of_file(path)
    if not run.options and not any(run.curves.values()):
        raise ValueError(
            f"{path}: has no configuration of fairseq-train that can be read, and no statistics"
        )
    if generated:
        run = _with_search(run, read_log(generated))
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
    if command:  # fairseq's own defaults, where the command does not say otherwise
        search = {"--task": "translation", "--post-process": ""} | search
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
    configuration = plain_configuration(state)
    return Evidence(
        name=str(path),
        options=flat_options(configuration),
        updates=state["optimizer_history"][-1].get("num_updates"),
        has_groups="model" in configuration,
        projection_biases=any(PROJECTION_BIAS.search(name) for name in state["model"]),
        vocabulary=types[-1] if types else None,
    )


def _of_log(log: Log) -> Evidence:
    """Read the last training of a log, finished or not, and a translation that follows it."""
    starts = starts_of(log)
    trainings = _last_training(starts)
    run = _of_training(log, trainings)
    later = starts[starts.index(trainings[-1]) + 1 :] if trainings else []
    return _with_search(run, later[-1].log, later[-1]) if later else run


def _last_training(starts: list[Start]) -> list[Start]:
    """Return the starts of the last training: the last, and those whose checkpoints it loaded."""
    trainings: list[Start] = []
    for start in starts:
        if start.is_training:
            match = _first(LOADED, start.log.lines)
            first = trainings[0].options.get("save_dir") if trainings else None
            resumes = match and int(match[3]) and start.options.get("save_dir") == first
            trainings = [*trainings, start] if resumes else [start]
    return trainings


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next(filter(None, map(pattern.search, lines)), None)


def _of_training(log: Log, starts: list[Start]) -> Evidence:
    """Return what the starts of one training say; the whole log, if it has no configuration."""
    if starts:
        log = Log(log.path, [line for start in starts for line in start.log.lines])
    options = starts[-1].options if starts else {}
    last = starts[-1].log.lines if starts else log.lines
    loaded, model, devices = (
        _first(pattern, lines)
        for pattern, lines in ((LOADED, log.lines), (MODEL_CLASS, last), (DEVICES, last))
    )
    text = "\n".join(log.lines)
    curves = _curves(log, str(options.get("valid_subset") or "valid").split(",")[0])
    updates = max((max(curve) for curve in curves.values() if curve), default=None)
    asked = as_number(options.get("max_update"))
    is_done = any(map(ENDED.search, last[-200:])) or bool(asked and updates and updates >= asked)
    skipped, examples = _left_out(log)
    errors = [match[1] for line in last[-50:] if (match := ERROR.search(line))]
    return Evidence(
        name=str(log.path),
        options=options,
        updates=updates,
        tokens_per_update=median(curves["tokens"].values()) if curves["tokens"] else None,
        gpus=int(devices[1]) if devices else None,
        overflows=text.count(OVERFLOW),
        gave_up_scaling=GAVE_UP in text,
        vocabulary=_vocabulary(text),
        model=model[1] if model else None,
        curves=curves,
        epochs=max(
            (int(line["epoch"]) for line in log.statistics if "epoch" in line), default=None
        ),
        is_finished=is_done,
        error=errors[-1] if errors and not is_done else None,
        starts=max(1, len(starts)),
        first_update=int(loaded[3]) if loaded and len(starts) < 2 else 0,
        skipped=skipped,
        examples=examples,
        lost_batches=len(LOST_BATCH.findall(text)),
        has_groups=bool(starts) and "model" in starts[-1].configuration,
    )


def _curves(log: Log, subset: str) -> dict[str, dict[int, float]]:
    """Return the curves of the training, or of its epochs if that is all, and of the validation."""
    curves = {name: series(log, key) or series(log, key, "train_") for name, key in CURVES.items()}
    for name in ("loss", "perplexity"):
        curves[f"development {name}"] = series(log, CURVES[name], f"{subset}_")
    return curves


def _left_out(log: Log) -> tuple[int, int | None]:
    """Return how many training pairs were left out, and how many there were before."""
    validates, skipped, examples = False, 0, 0
    for line in log.lines:
        if "validation" in line:
            validates = "begin" in line
        elif "epoch" in line:
            validates = False
        elif not validates and (match := SKIPPED.search(line)):
            skipped = max(skipped, int(match[1].replace(",", "")))
        elif "train" in line and (match := EXAMPLES.search(line)):
            examples = max(examples, int(match[1].replace(",", "")))
    return skipped, examples or None


def _vocabulary(text: str) -> int | None:
    """Return the types of the target language, which a log names last."""
    types = TYPES.findall(text)
    return int(types[-1]) if types else None


def _with_search(run: Evidence, log: Log, start: Start | None = None) -> Evidence:
    """Add what fairseq-generate's output says, with or without its configuration."""
    start = start or next(iter(reversed(starts_of(log))), None)
    search: dict[str, object] = {}
    if start:
        search = start.options
        for group in ("generation", "common_eval"):
            values = start.configuration.get(group)
            search |= values if isinstance(values, dict) else {}
    if result := _first(RESULT, log.lines):
        search = {"gen_subset": result[1], "beam": int(result[2])} | search
    matches = [match for line in log.lines if (match := HYPOTHESIS.match(line))]
    if not search and not matches:
        raise ValueError(
            f"{log.path}: has no configuration of fairseq-generate that can be read, and no "
            "translation"
        )
    kind = "D" if any(match[1] == "D" for match in matches) else "H"
    texts = [match[3] for match in matches if match[1] == kind]
    numbers = {int(match[2]) for match in matches}
    subset = search.get("gen_subset")
    return replace(
        run,
        search=search,
        subset=None if subset is None else str(subset),
        translated=len(numbers) or None,
        missing=max(numbers, default=-1) + 1 - len(numbers),
        has_subwords=any(map(SUBWORD.search, texts)) if texts else None,
    )


def _with_score(run: Evidence, path: Path) -> Evidence:
    """Add what a recipe's score.json says of a translation; a parser's is of its trees."""
    scores = read_json(path) if path.exists() else None
    paper = scores.get("paper") if isinstance(scores, dict) else None
    if not isinstance(scores, dict) or not isinstance(paper, dict):
        return run
    return replace(run, signature=str(paper.get("signature")), translated=scores.get("sentences"))
