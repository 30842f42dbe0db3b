"""Read what a checkpoint, a log or a run directory says of a training."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

from fairseq_aiayn.diagnosis.evidence import Evidence, Weights
from fairseq_aiayn.runs.configuration import flat_options, printed_configuration
from fairseq_aiayn.runs.differences import SEARCH, options_of, papers_search
from fairseq_aiayn.runs.fairseq_log import Log, read_log
from fairseq_aiayn.runs.run_directory import TrainedRun, read_settings
from fairseq_aiayn.runs.settings import Settings
from fairseq_aiayn.runs.train_log import TYPES
from fairseq_aiayn.settings import SIZE_ARGUMENTS, argument
from fairseq_aiayn.text import read_json

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


def read_evidence(
    path: Path, generated: Path | None = None, signature: str | None = None
) -> Evidence:
    """Read a checkpoint, a log of fairseq-train, a --save-dir or a run directory of the recipes.

    `generated` is the output of fairseq-generate, `signature` that of a BLEU score. Raises OSError
    for a file that cannot be read, and ValueError, with the file, for one that is none of these, is
    unsafe to load, or is of another model than a Transformer with an encoder and a decoder.
    """
    found = _of_directory(path) if path.is_dir() else _of_file(path)
    if not found.options:
        raise ValueError(f"{path}: has no configuration of fairseq-train that can be read")
    if missing := [name for name in SIZE_ARGUMENTS if found.number(name) is None]:
        raise ValueError(
            f"{path}: must be of a Transformer with an encoder and a decoder; its model "
            f"{found.text('arch')!r} of task {found.text('task')!r} has no {missing[0]}"
        )
    if generated:
        found = replace(found, **_search_of(generated))
    return replace(found, signature=signature) if signature else found


def evidence_of_run(run: TrainedRun, log: Log, signature: str | None = None) -> Evidence:
    """Return what a finished run of the recipes says; `log` is of its training."""
    return replace(
        _of_settings(run.settings, log),
        vocabulary=run.vocabulary,
        translated=run.sentences,
        signature=signature,
    )


def _of_settings(settings: Settings, log: Log) -> Evidence:
    """Return what the settings of a recipe's run and the log of its training say."""
    command = options_of(settings.commands.get(SEARCH, ""))
    return replace(
        _of_log(log),
        name=settings.name,
        row=settings.row,
        corpus=settings.corpus,
        subset=settings.subset,
        averaged=settings.averaged,
        search=_arguments(papers_search(settings) | command if command else {}),
    )


def _of_directory(directory: Path) -> Evidence:
    """Read a run directory of the recipes, or the newest checkpoint of a --save-dir."""
    settings = directory / "settings.json"
    if settings.exists():
        has_log = (directory / "train.log").exists()  # a parser's search stands below its training
        training = directory if has_log else directory.parent
        found = _of_settings(read_settings(settings), read_log(training / "train.log"))
        valid = training / "valid.log"
        types = _vocabulary("\n".join(read_log(valid).lines)) if valid.exists() else None
        return replace(found, vocabulary=types, **_score_of(directory / "score.json"))
    for name in ("train.log", *CHECKPOINTS):
        if (directory / name).exists():
            return _of_file(directory / name)
    raise ValueError(
        f"{directory}: must have a settings.json, a train.log or a {CHECKPOINTS[0]}, has none"
    )


def _of_file(path: Path) -> Evidence:
    with path.open("rb") as file:
        start = file.read(2)
    return _of_checkpoint(path) if start in (ZIP, PICKLE) else _of_log(read_log(path))


def _of_checkpoint(path: Path) -> Evidence:
    from fairseq_aiayn.checkpoints import plain_configuration, read_checkpoint

    state = read_checkpoint(path)
    return Evidence(
        name=str(path),
        options=flat_options(plain_configuration(state)),
        updates=state["optimizer_history"][-1].get("num_updates"),
        weights=_weights(state["model"]),
    )


def _weights(model: Mapping) -> Weights:
    """Look at parameters by their names."""
    types = [
        tensor.shape[0]
        for name, tensor in model.items()
        if name.endswith(("embed_tokens.weight", "embedding.weight")) and tensor.dim() == 2
    ]
    return Weights(
        projection_biases=any(PROJECTION_BIAS.search(name) for name in model),
        vocabulary=types[-1] if types else None,
    )


def _of_log(log: Log) -> Evidence:
    """Read the log of a training, of any of fairseq's formats, finished or not."""
    lines = [line for line in log.lines if "Namespace(" not in line]
    text = "\n".join(lines)
    training = "\n".join(line for line in lines if VALIDATION not in line)
    tokens = [float(found.replace(",", "")) for found in TOKENS.findall(training)]
    updates = [int(found) for found in UPDATES.findall(text)]
    devices = DEVICES.findall(text)
    return Evidence(
        name=str(log.path),
        options=flat_options(printed_configuration(log.lines)),
        updates=updates[-1] if updates else None,
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


def _search_of(path: Path) -> dict[str, object]:
    """Return what fairseq-generate's output says: options, subset, and how many sentences."""
    log = read_log(path)
    configuration = printed_configuration(log.lines)
    groups = [configuration.get(name) or {} for name in ("generation", "common_eval")]
    search = flat_options(configuration) | groups[0] | groups[1]
    if not search:
        raise ValueError(f"{path}: has no configuration of fairseq-generate that can be read")
    sentences = {found[1] for line in log.lines if (found := HYPOTHESIS.match(line))}
    subset = search.get("gen_subset")
    return {"search": search, "subset": subset, "translated": len(sentences) or None}


def _score_of(path: Path) -> dict[str, object]:
    """Return what a recipe's score.json says of a translation; nothing of a parser."""
    scores = read_json(path) if path.exists() else None
    paper = scores.get("paper") if isinstance(scores, dict) else None
    if not isinstance(paper, dict):
        return {}
    return {"signature": str(paper.get("signature")), "translated": scores.get("sentences")}


def _arguments(options: Mapping[str, object]) -> dict[str, object]:
    return {argument(name): value for name, value in options.items()}
