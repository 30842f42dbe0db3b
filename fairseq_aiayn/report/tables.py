"""Tables of runs beside the paper's figures: Table 2 and its like, Table 3 and Table 4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from statistics import fmean

from fairseq_aiayn.paper import BASE, ROWS, SEMI_SUPERVISED, TABLE_4, WSJ_ONLY, Published, Row
from fairseq_aiayn.report.document import Block, Bullets, Code, Details, Paragraph, Table, Text
from fairseq_aiayn.report.results import TABLE_3_ROWS, Unfinished
from fairseq_aiayn.runs.differences import EN_DE, published, unmet_conditions
from fairseq_aiayn.runs.record import TRAIN, Place, Settings
from fairseq_aiayn.runs.run import ParserRun, Run, TranslationRun
from fairseq_aiayn.runs.seeds import OverSeeds, against, deviation
from fairseq_aiayn.scores import (
    CONFIDENCE,
    FEWEST,
    LEVEL,
    SAMPLES_OF_DIFFERENCE,
    EstimatedDifference,
)
from fairseq_aiayn.treebank.evalb import LabelCount, percent

WSJ = ("wsj", "wsj_semi_supervised")  # as the recipe calls the paper's corpora
SECTION_23 = 2_416  # sentences
LABELS = 15  # that are printed
# Measured in tensor2tensor#317 on the authors' checkpoint of 3.8 million steps.
OTHER_MEASURE = (
    "The paper's BLEU is not sacreBLEU: for English-German, a base model of its authors has 29.02 "
    "by their script and 27.52 by sacreBLEU on newstest2014, 26.50 and 26.25 on newstest2013."
)
MEANING_OF_P = (
    "p is how often resampled test sets show a difference as large where there is none. It says "
    "nothing about another seed, which moves the score too."
)


def turned_table(runs: Sequence[Run], cells: Sequence[Mapping[str, str]]) -> Table:
    """Return a table with the cells of each run, turned so that a column of the page is a run; what
    is empty for all runs is left out."""
    rows = [[label, *(of_run[label] for of_run in cells)] for label in cells[0]]
    return Table(["", *(run.name for run in runs)], [row for row in rows if any(row[1:])])


def _training_cells(run: Run) -> dict[str, str]:
    """Return the cost of a training by the labels of a table, and its perplexity."""
    training = run.training
    return {
        "parameters": f"{training.parameters:,}",
        "updates": f"{training.updates:,}",
        "target tokens/s in training": f"{training.tokens_per_second:,.0f}",
        "seconds of training": f"{training.seconds:,.0f}",
        "wall time of training": clock(training.wall_seconds),
        "peak memory of training, MiB": _count(training.peak_memory),
        "peak GPU memory of training, MiB": _count(training.peak_gpu_memory),
        "development perplexity": f"{run.dev_perplexity:.2f}",
    }


def _count(value: int | None) -> str:
    return f"{value:,}" if value else ""


# Translations (Table 2)


def translations_blocks(runs: Sequence[TranslationRun]) -> list[Block]:
    """Return a column per run, with the paper's figures of its row, and what must be known to read
    it."""
    table = turned_table(runs, list(map(_translation_cells, runs)))
    return [table, *_caveats(runs), *_signatures(runs[0])]


def _translation_cells(run: TranslationRun) -> dict[str, str]:
    bleu, tokens, paper = run.bleu, run.token_bleu, published(run.settings) or Published()
    return {
        **_training_cells(run),
        "BLEU as the paper's": f"{bleu.score:.2f}" if bleu else "",
        "sacreBLEU": f"{run.sacrebleu.score:.2f}",
        "BLEU of tokens": f"{tokens.score:.2f}" if tokens else "",
        "translation ÷ reference, tokens": f"{bleu.length_ratio:.3f}" if bleu else "",
        "brevity penalty": f"{bleu.brevity_penalty:.3f}" if bleu else "",
        "BLEU, the paper's own": f"{paper.bleu:.1f}" if paper.bleu else "",
        "perplexity, the paper's own": f"{paper.ppl:.2f}" if paper.ppl else "",
        "10⁶ parameters, the paper's own": f"{paper.parameters}" if paper.parameters else "",
    }


def _signatures(run: TranslationRun) -> list[Block]:
    """Return how the run, and each run beside it, was scored."""
    scores = {
        "Paper's BLEU": run.bleu,
        "sacreBLEU": run.sacrebleu,
        "BLEU of tokens": run.token_bleu,
    }
    return [
        Paragraph([f"{name}: ", Code(score.signature)]) for name, score in scores.items() if score
    ]


def _caveats(runs: Sequence[TranslationRun]) -> list[Block]:
    """Return what to know before comparing runs with the paper's figures beside them: which
    conditions differ, and that sacreBLEU is another measure. Nothing if no figure is beside them.
    """
    alike: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        if published(run.settings):
            settings = run.settings
            kind = str(settings.row), str(settings.corpus), str(settings.subset)
            alike.setdefault(kind, []).append(run)
    texts = {
        row: unmet_conditions(of_row, corpus, subset)
        for (row, corpus, subset), of_row in alike.items()
    }
    blocks: list[Block] = [Paragraph(f"Row {row}: {text}") for row, text in texts.items() if text]
    return [*blocks, Paragraph(OTHER_MEASURE)] if alike else []


# Table 3

SYMBOLS = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop")


def table3_blocks(runs: Sequence[TranslationRun], unfinished: Sequence[Unfinished]) -> list[Block]:
    """Return the table in the paper's order of rows, and what must be known to read it."""
    systems = list(dict.fromkeys(run.settings.system for run in runs))
    cells = list(map(_table3_cells, group_by_row(runs)))
    blocks: list[Block] = []
    if runs:
        blocks.append(Table(list(cells[0]), [list(row.values()) for row in cells], left=2))
        texts = unmet_conditions(runs, EN_DE, "valid"), OTHER_MEASURE
        blocks += [Paragraph(text) for text in texts if text]
        blocks += _signatures(runs[0])
    if unfinished:
        reasons = [f"{run.name}: {run.reason}" for run in unfinished]
        blocks += [Paragraph("Not finished:"), Bullets(reasons)]
    for system in systems:
        finished = {run.settings.row for run in runs if run.settings.system == system}
        if missing := [row for row in TABLE_3_ROWS if row not in finished]:
            text = f"Rows without a finished run of {system}: {', '.join(missing)}"
            blocks.append(Paragraph(text))
    return blocks


def group_by_row(runs: Sequence[TranslationRun]) -> list[list[TranslationRun]]:
    """Group the runs of a row by one system: in the paper's order, and that of the runs."""
    groups: dict[tuple[str, str], list[TranslationRun]] = {}
    for run in runs:
        groups.setdefault((str(run.settings.row), run.settings.system), []).append(run)
    systems = [system for _, system in groups]
    order = sorted(groups, key=lambda key: (TABLE_3_ROWS.index(key[0]), systems.index(key[1])))
    return [groups[key] for key in order]


def _table3_cells(runs: Sequence[TranslationRun]) -> dict[str, str]:
    """Return what Table 3 says of the runs of one row, beside what the paper prints of it."""
    first = runs[0]
    row = ROWS[str(first.settings.row)]
    paper = row.published
    return {
        "row": row.name,
        "system": first.settings.system,
        **{name: _symbol(row, name) for name in SYMBOLS},
        "ε_ls": _symbol(row, "epsilon_ls"),
        "updates": f"{first.training.updates:,}",
        "PPL, paper": f"{paper.ppl:.2f}" if paper.ppl else "",
        "PPL, ours": _mean([run.dev_perplexity for run in runs]),
        "BLEU, paper": f"{paper.bleu:.1f}" if paper.bleu else "",
        "BLEU, ours": _mean([run.bleu.score for run in runs if run.bleu]),
        "sacreBLEU, ours": _mean([run.sacrebleu.score for run in runs]),
        "10⁶ params, paper": f"{paper.parameters:.0f}" if paper.parameters else "",
        "10⁶ params, ours": f"{first.training.parameters / 1e6:.1f}",
        "seeds": str(len(runs)),
    }


def _symbol(row: Row, name: str) -> str:
    """Return a setting of the paper's, which is empty where a row has the value of base."""
    value = getattr(row, name)
    return "" if row is not BASE and value == getattr(BASE, name) else str(value)


def _mean(values: Sequence[float]) -> str:
    """Return the mean over seeds, with the sample deviation if there are several."""
    if not values:
        return ""
    spread = f" ± {deviation(values):.2f}" if len(values) > 1 else ""
    return f"{fmean(values):.2f}{spread}"


# Parsers (Table 4)


def parsers_blocks(
    runs: Sequence[ParserRun], differences: Mapping[str, EstimatedDifference]
) -> list[Block]:
    """Return the paper's Table 4 with a row per run below it, how sure differences are, and a
    column per run with its training, its scores and its repairs."""
    repairs = dict.fromkeys(name for run in runs for name in run.repairs.repairs)
    cells = [_parsing_cells(run, repairs) for run in runs]
    parameters = Paragraph(f"Parameters of EVALB: {runs[0].scores.parameters}")
    return [
        *_table4(runs),
        *_f1_blocks(runs[0], differences),
        turned_table(runs, cells),
        parameters,
    ]


def _table4(runs: Sequence[ParserRun]) -> list[Block]:
    """Return the table, and what was parsed if it is not the paper's test set."""
    rows = [[row.parser, row.training, f"{row.f1:.1f}", ""] for row in TABLE_4]
    rows += [[run.name, _trained_on(run), "", f"{run.scores.all.f1:.2f}"] for run in runs]
    parsers = Table(["parser", "training", "F1, paper", "F1, ours"], rows, left=2)
    others = dict.fromkeys(_parsed(run) for run in runs if not _is_section_23(run))
    if not others:
        return [parsers]
    paper = f"section 23 of the WSJ, {SECTION_23:,} sentences"
    ours = " and of ".join(others)
    text = f"The paper's F1 is of {paper}; ours is of {ours}: they do not compare."
    return [parsers, Paragraph(text)]


def _trained_on(run: ParserRun) -> str:
    """Return what a run was trained on, in the paper's words if it is the paper's corpus."""
    trees, corpus = run.trees, run.settings.corpus or "not recorded"
    if corpus in WSJ:
        corpus = SEMI_SUPERVISED if trees.silver else WSJ_ONLY
    silver = f", {trees.silver:,} silver" if trees.silver else ""
    return f"{corpus}: {trees.gold:,} gold{silver} sentences"


def _parsed(run: ParserRun) -> str:
    settings = run.settings
    return (
        f"corpus {settings.corpus or 'not recorded'}, subset {settings.subset or 'not recorded'}, "
        f"{run.sentences:,} sentences"
    )


def _is_section_23(run: ParserRun) -> bool:
    """Return whether a run parsed the paper's test set."""
    settings = run.settings
    return (settings.corpus in WSJ, settings.subset, run.sentences) == (True, "test", SECTION_23)


def _f1_blocks(first: ParserRun, differences: Mapping[str, EstimatedDifference]) -> list[Block]:
    """Return each search against the first, over resampled sentences; nothing for one search."""
    if not differences:
        return []
    rows = [
        [
            name,
            f"{found.difference:+.2f}",
            _interval(found),
            f"{found.p_value:.4f}",
            verdict(found.p_value, first.sentences),
        ]
        for name, found in differences.items()
    ]
    what = f"F1 against {first.name}", "difference", f"{CONFIDENCE:.0%} interval", "p", "verdict"
    text = f"Paired bootstrap (Koehn, 2004) over {SAMPLES_OF_DIFFERENCE:,} samples: {MEANING_OF_P}"
    return [Table(what, rows), Paragraph(text)]


def _parsing_cells(run: ParserRun, repairs: Iterable[str]) -> dict[str, str]:
    """Return what a table says of a run that parses, by its labels, with these repairs."""
    trees, scores, search = run.trees, run.scores, run.search
    every, counts = scores.all, run.repairs.repairs
    options = run.settings.options(TRAIN)
    has_copies, is_tagged = trees.silver or trees.augmented, trees.tags != "XX"
    return {
        "row": run.settings.row or "",
        "gold trees": f"{trees.gold:,}",
        "silver trees": _count(trees.silver),
        "phrases and pairs of gold trees": _count(trees.augmented),
        "copies of the gold trees": options.get("--upsample-primary", "") if has_copies else "",
        "in a word's place": trees.tags,
        "word pieces": _count(run.vocabulary),
        "dropout": options.get("--dropout", ""),
        "attention dropout": options.get("--attention-dropout", ""),
        **_training_cells(run),
        "recall": f"{every.recall:.2f}",
        "precision": f"{every.precision:.2f}",
        "F1": f"{every.f1:.2f}",
        f"F1, at most {scores.cutoff} words": f"{scores.short.f1:.2f}",
        "complete match, %": f"{every.complete_match:.2f}",
        "crossing brackets per sentence": f"{every.average_crossing:.2f}",
        "no crossing brackets, %": f"{every.no_crossing:.2f}",
        "tagging accuracy": f"{every.tagging_accuracy:.2f}" if is_tagged else "",
        "errors of EVALB, which do not count": f"{every.errors:,}",
        "well-formed before repair, %": f"{run.repairs.share_well_formed:.2f}",
        **{f"repairs: {name}": _count(counts.get(name)) for name in repairs},
        "sentences parsed/s": f"{search.sentences / search.seconds:.1f}" if search.seconds else "",
    }


def labels_table(runs: Sequence[ParserRun]) -> Table:
    """Return recall, precision and F1 of the labels that are most frequent in the gold trees."""
    header = ["label", "gold"]
    for run in runs:
        header += [f"{what}, {run.name}" for what in ("recall", "precision", "F1")]
    gold = {label: counts.gold for label, counts in runs[0].scores.labels.items()}
    rows = []
    for label in sorted(gold, key=lambda label: (-gold[label], label))[:LABELS]:
        rows.append([label, f"{gold[label]:,}"])
        for run in runs:
            counts = run.scores.labels.get(label, LabelCount(0, 0, 0))
            rows[-1] += [
                f"{percent(counts.matched, counts.gold):.2f}",
                f"{percent(counts.matched, counts.predicted):.2f}",
                f"{percent(2 * counts.matched, counts.gold + counts.predicted):.2f}",
            ]
    return Table(header, rows)


# Several seeds, and how sure differences are


def over_seeds_blocks(groups: Sequence[OverSeeds]) -> list[Block]:
    """Return a table with mean ± deviation of each group, and how the others differ from the first;
    nothing if there are no groups."""
    if not groups:
        return []
    rows = []
    for group in groups:
        figures = zip(group.means, group.deviations, strict=True)
        means = [f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in figures]
        rows.append([group.name, ", ".join(map(str, group.seeds)), *means])
    header = ["mean ± standard deviation", "seeds", *groups[0].what]
    first, *others = groups
    rows += [
        [f"{other.name}, difference", "", *map(_difference_cell, against(first, other))]
        for other in others
    ]
    texts = []
    if others:
        texts.append(
            f"Differences are from {first.name}, with their {CONFIDENCE:.0%} confidence interval "
            "and p by Welch's t-test: p is how often seeds alone would make so large a difference."
        )
    texts.append("Where only one run of a group is shown, it is that of the first seed.")
    return [Table(header, rows, left=2), Paragraph(" ".join(texts))]


def _difference_cell(found: EstimatedDifference | None) -> str:
    if found is None:
        return ""
    return f"{found.difference:+.2f} ({_interval(found)}; p {found.p_value:.2f})"


def _interval(found: EstimatedDifference) -> str:
    """Return the confidence interval of a difference."""
    return f"{found.low:+.2f} to {found.high:+.2f}"


def verdict(p_value: float, sentences: int) -> str:
    """Say whether a difference on so many sentences is significant."""
    if sentences < FEWEST:
        return f"fewer than {FEWEST} sentences are too few to say"
    return "significant" if p_value < LEVEL else "may be chance"


# What a result is traced back to

MACHINE = {
    "processor": "{}",
    "cores": "{} cores",
    "memory_gib": "{} GiB of memory",
    "driver": "NVIDIA driver {}",
    "cuda": "CUDA {}",
}


def how_made(runs: Sequence[Run]) -> list[Block]:
    """Return a folded block per run, with all that its settings know."""
    return [Details(f"How {run.name} was made", _facts(run), run.settings.commands) for run in runs]


def clock(seconds: float) -> str:
    """Return seconds as 1:23:45, with days in front if there are any."""
    return str(timedelta(seconds=round(seconds)))


def _facts(run: Run) -> dict[str, Text]:
    """Return all that the run's settings know except the commands."""
    settings = run.settings
    what = {
        "row {}": settings.row,
        "corpus {}": settings.corpus,
        "subset {}": settings.subset,
        "{:,} sentences": run.sentences,
        "vocabulary of {:,}": run.vocabulary,
        "seed {}": settings.seed,
        "checkpoints averaged: {}": settings.averaged,
    }
    evaluated_by = settings.evaluated_by
    facts: dict[str, Text] = {
        "what": ", ".join(text.format(x) for text, x in what.items() if x is not None),
        "commit": [Code(settings.commit)] if settings.commit else "",
        "written": settings.written or "",
        "hardware": _machine(settings),
        "packages": ", ".join(f"{name} {number}" for name, number in settings.packages.items()),
        "wall time of training": f"{clock(run.training.wall_seconds)}, of that "
        f"{clock(run.training.seconds)} in updates",
        "resumed": _resumed(settings),
        "evaluated by commit": evaluated_by or "" if evaluated_by != settings.commit else "",
    }
    return {what: text for what, text in facts.items() if text}


def _resumed(settings: Settings) -> str:
    """Return the machines and commits with which a training went on from a checkpoint; the text is
    empty if they are always those of the first start."""
    first, *later = (
        f"on {_machine(start) or 'hardware not recorded'}, commit {start.commit or 'not recorded'}"
        for start in (settings, *settings.resumed)
    )
    return "; ".join(place for place in dict.fromkeys(later) if place != first)


def _machine(place: Place) -> str:
    """Return all that is known of a machine; the text is empty if nothing is."""
    parts = [
        text.format(place.hardware.get(key))
        for key, text in MACHINE.items()
        if place.hardware.get(key)
    ]
    return ", ".join(filter(None, (_gpus(place), *parts)))


def _gpus(place: Place) -> str:
    """Return the names of the GPUs that were used; the text is empty if none was."""
    if place.device != "cuda":
        return ""
    counts = Counter(place.hardware.get("gpus", [])[: place.gpus])
    gpus = " and ".join(f"{n} × {name}" if n > 1 else name for name, n in counts.items())
    return f"{place.nodes} nodes of {gpus}" if gpus and (place.nodes or 1) > 1 else gpus
