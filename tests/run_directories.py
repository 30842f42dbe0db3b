"""Invented run directories, as a recipe leaves them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from fairseq_aiayn.report.document import as_markdown, blocks_as_markdown
from fairseq_aiayn.report.pages import RESULTS, sections
from fairseq_aiayn.report.results import Results
from fairseq_aiayn.scores import Bleu, Scores
from fairseq_aiayn.treebank import evalb

SENTENCES = 4
PARAMETERS = "num. shared model params: 6,578,176 (num. trained: 6,578,176)"
END = "done training in 61.2 seconds"
MADE = {
    "name": "aiayn-base-1",
    "system": "aiayn",
    "row": "base",
    "corpus": "wmt14_en_de",
    "subset": "test",
    "averaged": 5,
    "seed": 1,
    "device": "cuda",
    "gpus": 2,
    "nodes": 1,
    "commands": {"train": "fairseq-train bin --note '```'", "score": "aiayn bleu"},
    "commit": "abc123+",
    "packages": {"torch": "2.0", "fairseq-fixed": "0.12"},
    "hardware": {"processor": "X1", "cores": 16, "memory_gib": 128.0, "gpus": ["H1"] * 3}
    | {"driver": "550.1", "cuda": "12.4"},
    "written": "2026-01-31T12:00:00+00:00",
}
TREES = {"gold": 9_800, "silver": 0, "tags": "pos"}
GOLD = "(TOP (S (NP (PRP I)) (VP (VBP sleep)) (. .)))"


def epoch(number: int, updates: int, tokens: float, seconds: int, speed: float) -> str:
    """fairseq's statistics at the end of an epoch: its tokens an update, and its tokens/s."""
    numbers = {"num_updates": updates, "wpb": tokens, "wps": speed, "train_wall": seconds}
    return json.dumps({"epoch": number} | {f"train_{key}": str(n) for key, n in numbers.items()})


def train_log(updates: int, *lines: str) -> str:
    """The log of a training of one epoch, which has these lines first."""
    return "\n".join((*lines, PARAMETERS, epoch(1, updates, 1000, updates // 10, 8000), END))


def inner(update: int, loss: float, seconds: int = 5, wall: int = 0) -> str:
    """What fairseq logs every --log-interval updates."""
    numbers = {"loss": loss, "ppl": 2 * loss, "num_updates": update, "lr": update / 1e6}
    numbers |= {"train_wall": seconds, "wall": wall}
    return json.dumps({"epoch": 1, "update": 0.5} | {key: str(n) for key, n in numbers.items()})


def valid(update: int, loss: float) -> str:
    numbers = {"valid_loss": loss, "valid_ppl": 2 * loss, "valid_num_updates": update}
    return json.dumps({"epoch": 1, **{key: str(value) for key, value in numbers.items()}})


def score(bleu: float, signature: str = "paper|1", tokens: float | None = None) -> str:
    """What `aiayn bleu --json` prints."""
    scores = Scores(
        sentences=SENTENCES,
        paper=_bleu(bleu, signature),
        sacrebleu=_bleu(bleu - 1, "sacre|2"),
        tokens=None if tokens is None else _bleu(tokens, "tok|3"),
    )
    return json.dumps(asdict(scores))


def _bleu(score: float, signature: str) -> Bleu:
    return Bleu(score, (60.0, 35.0, 22.5, 15.0), 0.99, 0.99, 99, 100, signature)


def f1_score(f1: float, sentences: int = SENTENCES, parameters: str = "COLLINS") -> str:
    """What `aiayn evalb --json` prints; no two of its figures are the same."""
    every = replace(evalb.Summary(*range(10, 28)), sentences=sentences, f1=f1)
    short = replace(evalb.Summary(*range(30, 48)), f1=f1 + 1)
    labels = {"NP": evalb.LabelCount(gold=40, predicted=50, matched=30)}
    return json.dumps(asdict(evalb.TreeScores(every, short, 40, parameters, labels)))


def repairs(well_formed: int, sentences: int = SENTENCES, **counts: int) -> str:
    """What is noted of the repairs of a search, with one kind of repair that never occurred."""
    kinds = {kind.replace("_", " "): count for kind, count in ({"unclosed": 0} | counts).items()}
    report = {"sentences": sentences, "well_formed": well_formed}
    return json.dumps(report | {"repairs": kinds, "sentences_with": kinds})


def valid_log(perplexity: float, vocabulary: int = 37_000) -> str:
    return (
        f"2026-01-31 12:00:00 | INFO | fairseq.tasks.translation | [de] dictionary: {vocabulary} "
        f'types\nx | INFO | valid | {{"epoch": 1, "valid_ppl": "{perplexity}"}}\n'
    )


def numbered(text: str) -> str:
    return "".join(f"{text} {k}\n" for k in range(SENTENCES))


def write_log(directory: Path, *lines: str) -> Path:
    path = directory / "train.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_run(directory: Path, settings: Mapping | None = None, **files: str | None) -> Path:
    """Write a finished run; `settings` replace some of MADE, `files` some contents or none."""
    contents = {
        "train.log": train_log(100_000),
        "valid.log": valid_log(9.87),
        "score.json": score(27.314),
        "source.txt": numbered("source"),
        "reference.txt": numbered("reference"),
        "hypothesis.txt": numbered(directory.name),
    }
    return _write(directory, {"name": directory.name} | (settings or {}), contents | files)


def write_search(
    directory: Path, settings: Mapping | None = None, part="test", sentences=SENTENCES, **files
) -> Path:
    """Write a parser's training and in it, in PART, which is returned, a search; as `write_run`."""
    own = {"name": directory.name, "row": "parsing", "corpus": "gum", "subset": part.split("-")[0]}
    contents = {
        "../data.json": json.dumps(TREES),
        "../train.log": train_log(12_000),
        "../valid.log": "x | [words] dictionary: 7001 types\n" + valid_log(1.234, 60),
        "words.txt": "I sleep .\n" * sentences,
        "gold.trees": f"{GOLD}\n" * sentences,
        "predicted.trees": f"{GOLD}\n" * sentences,
        "score.json": f1_score(85.678, sentences),
        "repairs.json": repairs(3, sentences),
        "seconds.json": json.dumps({"sentences": sentences, "seconds": 0.5}),
    }
    return _write(directory / part, own | (settings or {}), contents | files)


def _write(directory: Path, settings: Mapping, files: Mapping[str, str | None]) -> Path:
    directory.mkdir(parents=True)
    for file, content in ({"settings.json": json.dumps(MADE | settings)} | files).items():
        if content is not None:
            (directory / file).write_text(content, encoding="utf-8")
    return directory


def markdown(results: Results) -> str:
    """What `aiayn compare` prints."""
    return blocks_as_markdown(sections(results)[RESULTS])


def page(results: Results) -> str:
    """What it writes, as Markdown without the title."""
    return as_markdown(sections(results))


def table_rows(text: str) -> list[list[str]]:
    lines = (line for line in text.split("\n") if line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def tables_of(text: str) -> list[list[list[str]]]:
    """The tables of a Markdown text, each as the cells of its header, of its rule and its rows."""
    return [rows for block in text.split("\n\n") if (rows := table_rows(block))]


def cells_of(text: str) -> list[dict[str, str]]:
    """The rows of the first table, each as column to cell."""
    header, _, *rows = tables_of(text)[0]
    return [dict(zip(header, row, strict=True)) for row in rows]
