"""Runs in one table, beside the paper's figures: Table 2 and its like, Table 3 and Table 4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from statistics import fmean

from fairseq_aiayn.paper import BASE, ROWS, SEMI_SUPERVISED, TABLE_3, TABLE_4, WSJ_ONLY, Row
from fairseq_aiayn.report.document import (
    Block,
    Bullets,
    Code,
    Details,
    Paragraph,
    Table,
    Text,
    Texts,
)
from fairseq_aiayn.runs.differences import (
    TABLE_3_CONDITIONS,
    conditions_of,
    published,
    unmet_conditions,
)
from fairseq_aiayn.runs.record import TRAIN, Settings, Start, read_settings
from fairseq_aiayn.runs.run import (
    OverSeeds,
    Run,
    against,
    deviation,
    first_seeds,
    over_seeds,
    read_run,
    require_same,
    run_as_json,
    run_from_json,
    scored_alike,
)
from fairseq_aiayn.scores import (
    CONFIDENCE,
    FEWEST,
    LEVEL,
    SAMPLES_OF_DIFFERENCE,
    EstimatedDifference,
)
from fairseq_aiayn.text import dataclass_of
from fairseq_aiayn.treebank.evalb import LabelCount, percent

# Kinds of results, in JSON, each with what it has besides runs
COMPARISON, TABLE3, TABLE4 = "comparison", "table3", "table4"
OWN = {COMPARISON: "examples", TABLE3: "unfinished", TABLE4: "f1_differences"}
WSJ = ("wsj", "wsj_semi_supervised")  # as the recipe calls the paper's corpora
SECTION_23 = 2_416  # sentences
LABELS = 15  # that are printed
ROWS_3 = {row.name: row for row in TABLE_3}
PAPERS_BLEU = "BLEU as the paper's"
# Measured in tensor2tensor#317 on the authors' checkpoint of 3.8 million steps.
OTHER_MEASURE = (
    "The paper's BLEU is not sacreBLEU: for English-German, a base model of its authors has 29.02 "
    "by their script and 27.52 by sacreBLEU on newstest2014, 26.50 and 26.25 on newstest2013."
)
MEANING_OF_P = (
    "p is how often resampled test sets show a difference as large where there is none. It says "
    "nothing about another seed, which moves the score too."
)


@dataclass(frozen=True)
class Example:
    """One sentence with the translation of each system."""

    sentence: int  # from 1
    source: str
    reference: str
    translations: dict[str, str]  # by the name of the run


@dataclass(frozen=True)
class Unfinished:
    """A run that has no results, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Results:
    """Runs that stand in one table, and what its kind has besides."""

    kind: str  # COMPARISON, TABLE3 or TABLE4
    runs: tuple[Run, ...]
    examples: tuple[Example, ...] = ()  # of a comparison
    unfinished: tuple[Unfinished, ...] = ()  # of Table 3
    # Of Table 4: of each run from the first, by its name
    f1_differences: dict[str, EstimatedDifference] = field(default_factory=dict)

    @cached_property
    def seeds(self) -> list[OverSeeds]:
        """The runs that differ only in their seed."""
        return over_seeds(self.runs)


def results_as_json(results: Results) -> dict[str, object]:
    """Return all of a table, ready for json.dump."""
    own = OWN[results.kind]
    runs = list(map(run_as_json, results.runs))
    return {"kind": results.kind, "runs": runs, own: asdict(results)[own]}


def results_from_json(content: Mapping, where: object) -> Results:
    """Make Results of what `results_as_json` returns; raises KeyError or ValueError for anything
    else."""
    own = OWN[content["kind"]]
    without_runs = {"kind": content["kind"], "runs": [], own: content[own]}
    return replace(
        dataclass_of(without_runs, Results, where),
        runs=tuple(run_from_json(run, where) for run in content["runs"]),
    )


def summary_blocks(results: Results) -> list[Block]:
    """Return the table and what must be known to read it; of a comparison also the examples, of
    parsers the details of each run."""
    runs = results.runs
    if results.kind == TABLE3:
        return table3_blocks(results)
    if results.kind == TABLE4:
        return [
            *parsers_blocks(runs),
            *over_seeds_blocks(results.seeds),
            *f1_blocks(results),
            *details_blocks(runs),
        ]
    names = [run.name for run in first_seeds(runs, results.seeds)]
    return [
        *over_seeds_blocks(results.seeds),
        measured_table(runs),
        *signatures(runs[0]),
        machines(runs),
        *caveat(runs),
        *(example_block(example, names) for example in results.examples),
    ]


def full_blocks(results: Results) -> list[Block]:
    """Return the summary, and how each run was made; of parsers also the table of labels."""
    runs: Sequence[Run] = results.runs
    if results.kind == TABLE3:
        runs = [run for group in group_by_row(runs) for run in group]
    else:
        runs = first_seeds(runs, results.seeds)
    labels = [labels_table(runs)] if results.kind == TABLE4 else []
    return [*summary_blocks(results), *labels, *how_made(runs)]


# What tables say of one run


def training_cells(run: Run) -> dict[str, str]:
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


def translation_cells(run: Run) -> dict[str, str]:
    """Return what a table says of a run that translates, by its labels."""
    tokens = run.translation.token_bleu
    return {
        **training_cells(run),
        PAPERS_BLEU: f"{run.translation.bleu.score:.2f}",
        "sacreBLEU": f"{run.translation.sacrebleu.score:.2f}",
        "BLEU of tokens": f"{tokens.score:.2f}" if tokens else "",
    }


def parsing_cells(run: Run, repairs: Iterable[str]) -> dict[str, str]:
    """Return what a table says of a run that parses, by its labels, with these repairs."""
    trees, scores, search = run.parsing.trees, run.parsing.scores, run.parsing.search
    every, counts = scores.all, run.parsing.repairs.repairs
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
        **training_cells(run),
        "recall": f"{every.recall:.2f}",
        "precision": f"{every.precision:.2f}",
        "F1": f"{every.f1:.2f}",
        f"F1, at most {scores.cutoff} words": f"{scores.short.f1:.2f}",
        "complete match, %": f"{every.complete_match:.2f}",
        "crossing brackets per sentence": f"{every.average_crossing:.2f}",
        "no crossing brackets, %": f"{every.no_crossing:.2f}",
        "tagging accuracy": f"{every.tagging_accuracy:.2f}" if is_tagged else "",
        "errors of EVALB, which do not count": f"{every.errors:,}",
        "well-formed before repair, %": f"{run.parsing.repairs.share_well_formed:.2f}",
        **{f"repairs: {name}": _count(counts.get(name)) for name in repairs},
        "sentences parsed/s": f"{search.sentences / search.seconds:.1f}" if search.seconds else "",
    }


def _count(value: int | None) -> str:
    return f"{value:,}" if value else ""


def table(runs: Sequence[Run], cells: Sequence[Mapping[str, str]]) -> Table:
    """Return a table with the cells of each run, turned so that a column of the page is a run; what
    is empty for all runs is left out."""
    rows = [[label, *(of_run[label] for of_run in cells)] for label in cells[0]]
    return Table(["", *(run.name for run in runs)], [row for row in rows if any(row[1:])])


# Translations (Table 2)


def measured_table(runs: Sequence[Run]) -> Table:
    """Return a column per run, with the paper's figures of their row where it prints any."""
    measured, kinds = table(runs, list(map(translation_cells, runs))), set(map(_kind, runs))
    paper = published(runs[0].settings)
    if not paper or len(kinds) > 1:
        printed = [_printed_bleu(run) for run in runs]
        own = [["BLEU, the paper's own", *printed]] if any(printed) else []
        return Table(measured.header, [*measured.rows, *own])
    cells = {
        "parameters": f"{paper.parameters} × 10⁶" if paper.parameters else "",
        "updates": f"{ROWS[runs[0].settings.row or ''].steps:,}",
        "development perplexity": f"{paper.ppl:.2f}" if paper.ppl else "",
        PAPERS_BLEU: _printed_bleu(runs[0]),
    }
    return Table(
        [*measured.header, "paper"], [[*row, cells.get(row[0], "")] for row in measured.rows]
    )


def _kind(run: Run) -> tuple[str | None, str | None, str | None]:
    """Return row, corpus and subset, which the paper's figures are of."""
    return run.settings.row, run.settings.corpus, run.settings.subset


def _printed_bleu(run: Run) -> str:
    """Return the BLEU that the paper prints of a run's own row and corpus."""
    paper = published(run.settings)
    return f"{paper.bleu:.1f}" if paper and paper.bleu else ""


def signatures(run: Run) -> list[Block]:
    """Return how the run, and each run beside it, was scored."""
    scores = {
        "Paper's BLEU": run.translation.bleu,
        "sacreBLEU": run.translation.sacrebleu,
        "BLEU of tokens": run.translation.token_bleu,
    }
    return [
        Paragraph([f"{name}: ", Code(score.signature)]) for name, score in scores.items() if score
    ]


def caveat(runs: Sequence[Run]) -> list[Block]:
    """Return what to know before comparing runs with the paper's figures beside them: which
    conditions differ, and that sacreBLEU is another measure. Nothing if no figure is beside them.
    """
    by_kind: dict[tuple, list[Run]] = {}
    for run in runs:
        if published(run.settings):
            by_kind.setdefault(_kind(run), []).append(run)
    by_row = {
        row: unmet_conditions(alike, conditions_of(ROWS[row], corpus, subset))
        for (row, corpus, subset), alike in by_kind.items()
    }
    several = len(by_kind) > 1
    texts = [f"Row {row}: {text}" if several else text for row, text in by_row.items() if text]
    measures = [OTHER_MEASURE] if any(map(_printed_bleu, runs)) else []
    return [Paragraph(text) for text in (*texts, *measures)]


def example_block(
    example: Example, names: Sequence[str], chrf: Mapping[str, float] | None = None
) -> Texts:
    """Return a sentence with the translations of these runs; the chrF of each, if given, stands in
    brackets."""
    texts = [("source", example.source), ("reference", example.reference)]
    for name in names:
        translation = example.translations[name]
        texts.append((f"{name} ({chrf[name]:.1f})" if chrf else name, translation))
    return Texts(f"Sentence {example.sentence:,}", texts)


# Table 3


def read_table3(directories: Sequence[Path]) -> Results:
    """Read run directories, finished or not; an unfinished run keeps its name and the reason.

    Raises ValueError for runs that are not of Table 3 or cannot stand in one table.
    """
    finished, unfinished = [], []
    for directory in directories:
        try:
            finished.append((directory, read_run(directory).run))
        except (OSError, ValueError) as error:
            unfinished.append(Unfinished(_name(directory), _reason(directory, error)))
    _require_rows(finished)
    require_same(finished, _measured_alike)
    runs = tuple(run for _, run in finished)
    _require_one_budget(runs)
    return Results(TABLE3, runs, unfinished=tuple(unfinished))


def _measured_alike(run: Run) -> dict[str, object]:
    return {
        "corpus": run.settings.corpus,
        "subset": run.settings.subset,
        "number of averaged checkpoints": run.settings.averaged,
        "vocabulary": run.vocabulary,
        **scored_alike(run),
    }


def _require_rows(finished: Sequence[tuple[Path, Run]]) -> None:
    seen: dict[tuple, Path] = {}
    for directory, run in finished:
        settings = run.settings
        if settings.row not in ROWS_3:
            raise ValueError(
                f"{directory}: must be a run of one of the rows of Table 3, {', '.join(ROWS_3)}; "
                f"its row is {settings.row!r}"
            )
        key = settings.system, settings.row, settings.seed
        if key in seen:
            raise ValueError(
                f"{directory}: must have another seed than {seen[key]}, which is {key[0]}'s "
                f"{key[1]}, too, has {key[2]}"
            )
        seen[key] = directory


def _require_one_budget(runs: Sequence[Run]) -> None:
    """Raise ValueError unless all runs have the same updates, or the same share of the paper's."""
    updates = {run.training.updates for run in runs}
    shares = {Fraction(run.training.updates, ROWS_3[run.settings.row or ""].steps) for run in runs}
    if len(updates) > 1 and len(shares) > 1:
        budgets = dict.fromkeys(f"{run.settings.row} {run.training.updates:,}" for run in runs)
        raise ValueError(
            "all runs must have the same number of updates, or the same share of the steps that "
            f"their rows have in the paper, have {', '.join(budgets)}"
        )


def _name(directory: Path) -> str:
    try:
        return read_settings(directory / "settings.json").name
    except (OSError, ValueError):
        return directory.resolve().name


def _reason(directory: Path, error: OSError | ValueError) -> str:
    """Return an error's message, with the paths of files relative to the run directory."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    return message.replace(f"{directory}/", "")


SYMBOLS = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop")
COLUMNS = (
    *("row", "system", *SYMBOLS, "ε_ls", "updates", "PPL, paper", "PPL, ours", "BLEU, paper"),
    *("BLEU, ours", "sacreBLEU, ours", "10⁶ params, paper", "10⁶ params, ours", "seeds"),
)


def group_by_row(runs: Sequence[Run]) -> list[list[Run]]:
    """Group the runs of a row by one system: in the paper's order, and that of the runs."""
    systems = list(dict.fromkeys(run.settings.system for run in runs))
    groups: dict[tuple[str | None, str], list[Run]] = {
        (row, system): [] for row in ROWS_3 for system in systems
    }
    for run in runs:
        groups[run.settings.row, run.settings.system].append(run)
    return [group for group in groups.values() if group]


def table3_cells(runs: Sequence[Run]) -> dict[str, str]:
    """Return what Table 3 says of the runs of one row, beside what the paper prints of it."""
    first, translations = runs[0], [run.translation for run in runs]
    row = ROWS_3[first.settings.row or ""]
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
        "BLEU, ours": _mean([scores.bleu.score for scores in translations]),
        "sacreBLEU, ours": _mean([scores.sacrebleu.score for scores in translations]),
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
    spread = f" ± {deviation(values):.2f}" if len(values) > 1 else ""
    return f"{fmean(values):.2f}{spread}"


def table3_blocks(results: Results) -> list[Block]:
    """Return the table in the paper's order of rows, and what must be known to read it."""
    runs, groups = results.runs, group_by_row(results.runs)
    systems = list(dict.fromkeys(group[0].settings.system for group in groups))
    columns = [name for name in COLUMNS if name != "system" or len(systems) > 1]
    cells = map(table3_cells, groups)
    rows = [[of_group[name] for name in columns] for of_group in cells]
    blocks: list[Block] = [Table(columns, rows, left=2 if len(systems) > 1 else 1)]
    if runs:
        blocks += [*signatures(runs[0]), machines(runs)]
        texts = unmet_conditions(runs, TABLE_3_CONDITIONS), OTHER_MEASURE
        blocks += [Paragraph(text) for text in texts if text]
    if results.unfinished:
        reasons = [f"{run.name}: {run.reason}" for run in results.unfinished]
        blocks += [Paragraph("Not finished:"), Bullets(reasons)]
    for system in systems:
        finished = {run.settings.row for run in runs if run.settings.system == system}
        if missing := [row.name for row in TABLE_3 if row.name not in finished]:
            text = f"Rows without a finished run of {system}: {', '.join(missing)}"
            blocks.append(Paragraph(text))
    return blocks


# Parsers (Table 4)


def parsers_blocks(runs: Sequence[Run]) -> list[Block]:
    """Return the paper's Table 4 with a row per run below it, and what was parsed if it is not the
    paper's test set."""
    rows = [[row.parser, row.training, f"{row.f1:.1f}", ""] for row in TABLE_4]
    rows += [[run.name, _trained_on(run), "", f"{run.parsing.scores.all.f1:.2f}"] for run in runs]
    parsers = Table(["parser", "training", "F1, paper", "F1, ours"], rows, left=2)
    others = dict.fromkeys(_parsed(run) for run in runs if not _is_section_23(run))
    if not others:
        return [parsers]
    paper = f"section 23 of the WSJ, {SECTION_23:,} sentences"
    ours = " and of ".join(others)
    text = f"The paper's F1 is of {paper}; ours is of {ours}: they do not compare."
    return [parsers, Paragraph(text)]


def _trained_on(run: Run) -> str:
    """Return what a run was trained on, in the paper's words if it is the paper's corpus."""
    trees, corpus = run.parsing.trees, run.settings.corpus or "not recorded"
    if corpus in WSJ:
        corpus = SEMI_SUPERVISED if trees.silver else WSJ_ONLY
    silver = f", {trees.silver:,} silver" if trees.silver else ""
    return f"{corpus}: {trees.gold:,} gold{silver} sentences"


def _parsed(run: Run) -> str:
    settings = run.settings
    return (
        f"corpus {settings.corpus or 'not recorded'}, subset {settings.subset or 'not recorded'}, "
        f"{run.sentences:,} sentences"
    )


def _is_section_23(run: Run) -> bool:
    """Return whether a run parsed the paper's test set."""
    settings = run.settings
    return (settings.corpus in WSJ, settings.subset, run.sentences) == (True, "test", SECTION_23)


def f1_blocks(results: Results) -> list[Block]:
    """Return each search against the first, over resampled sentences; nothing for one search."""
    if not results.f1_differences:
        return []
    first = results.runs[0]
    rows = [
        [
            name,
            f"{found.difference:+.2f}",
            interval(found),
            f"{found.p_value:.4f}",
            verdict(found.p_value, first.sentences),
        ]
        for name, found in results.f1_differences.items()
    ]
    what = f"F1 against {first.name}", "difference", f"{CONFIDENCE:.0%} interval", "p", "verdict"
    text = f"Paired bootstrap (Koehn, 2004) over {SAMPLES_OF_DIFFERENCE:,} samples: {MEANING_OF_P}"
    return [Table(what, rows), Paragraph(text)]


def details_blocks(runs: Sequence[Run]) -> list[Block]:
    """Return a column per run with its training, its scores and its repairs; how they were scored,
    and on what they were made."""
    scores = runs[0].parsing.scores
    repairs = dict.fromkeys(name for run in runs for name in run.parsing.repairs.repairs)
    cells = [parsing_cells(run, repairs) for run in runs]
    parameters = Paragraph(f"Parameters of EVALB: {scores.parameters}")
    return [table(runs, cells), parameters, machines(runs)]


def labels_table(runs: Sequence[Run]) -> Table:
    """Return recall, precision and F1 of the labels that are most frequent in the gold trees."""
    header = ["label", "gold"]
    for run in runs:
        header += [f"{what}, {run.name}" for what in ("recall", "precision", "F1")]
    gold = {label: counts.gold for label, counts in runs[0].parsing.scores.labels.items()}
    rows = []
    for label in sorted(gold, key=lambda label: (-gold[label], label))[:LABELS]:
        rows.append([label, f"{gold[label]:,}"])
        for run in runs:
            counts = run.parsing.scores.labels.get(label, LabelCount(0, 0, 0))
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
    return f"{found.difference:+.2f} ({interval(found)}; p {found.p_value:.2f})"


def interval(found: EstimatedDifference) -> str:
    """Return the confidence interval of a difference."""
    return f"{found.low:+.2f} to {found.high:+.2f}"


def verdict(p_value: float, sentences: int) -> str:
    """Say whether a difference on so many sentences is significant."""
    if sentences < FEWEST:
        return f"fewer than {FEWEST} sentences are too few to say"
    return "significant" if p_value < LEVEL else "may be chance"


# What a result is traced back to


PROCESSOR = {"processor": "{}", "cores": "{} cores"}
MACHINE = {
    **PROCESSOR,
    "memory_gib": "{} GiB of memory",
    "driver": "NVIDIA driver {}",
    "cuda": "CUDA {}",
}


def machines(runs: Sequence[Run]) -> Block:
    """Return on what the runs were made: once if it is the same for all of them, else by name."""
    names: dict[str, list[str]] = {}
    for run in runs:
        names.setdefault(_made_on(run), []).append(run.name)
    if len(names) == 1:
        return Paragraph(*names)
    return Bullets([f"{', '.join(same)}: {made_on}" for made_on, same in names.items()])


def _made_on(run: Run) -> str:
    """Return what was translated or parsed, the machine of the training and its versions."""
    settings = run.settings
    sentences = f"{run.sentences:,} sentences"
    if settings.corpus and settings.subset:
        sentences += f" ({settings.corpus}, {settings.subset})"
    machine = _gpus(settings) or _filled(PROCESSOR, settings.hardware)
    names = [name for name in settings.packages if "fairseq" in name or name == "torch"]
    trained = f"trained on {machine}" if machine else ""
    return "; ".join(filter(None, (sentences, trained, _versions(settings, names))))


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
        "vocabulary of {:,}": run.vocabulary,
        "seed {}": settings.seed,
        "checkpoints averaged: {}": settings.averaged,
    }
    evaluated_by = settings.evaluated_by
    is_other = evaluated_by and evaluated_by != settings.commit
    facts: dict[str, Text] = {
        "what": ", ".join(text.format(x) for text, x in what.items() if x is not None),
        "commit": [Code(settings.commit)] if settings.commit else "",
        "written": settings.written or "",
        "hardware": _machine(settings),
        "packages": _versions(settings, list(settings.packages)),
        "wall time of training": f"{clock(run.training.wall_seconds)}, of that "
        f"{clock(run.training.seconds)} in updates",
        "resumed": _resumed(settings),
        "evaluated": ["by commit ", Code(evaluated_by)] if is_other else "",
    }
    return {what: text for what, text in facts.items() if text}


def _resumed(settings: Settings) -> Sequence[str]:
    """Return how often a training went on from a checkpoint, and with what machines and commits.

    The text is empty if machine and commit are always those of the first start.
    """
    starts = settings.resumed
    machines = _others(map(_machine, starts), _machine(settings))
    commits = _others((start.commit for start in starts), settings.commit)
    if not machines and not commits:
        return ""
    text = ["once" if len(starts) == 1 else f"{len(starts)} times"]
    if machines:
        text.append(", ")
        text.append(
            " and ".join(f"on {machine or 'hardware not recorded'}" for machine in machines)
        )
    for index, commit in enumerate(commits):
        of = f", of commit{'s' if len(commits) > 1 else ''} "
        text += [" and " if index else of, Code(commit) if commit else "not recorded"]
    return text


def _others(values: Iterable, first: object) -> list:
    return [value for value in dict.fromkeys(values) if value != first]


def _machine(start: Settings | Start) -> str:
    """Return all that is known of a machine; the text is empty if nothing is."""
    return ", ".join(filter(None, (_gpus(start), _filled(MACHINE, start.hardware))))


def _gpus(settings: Settings | Start) -> str:
    """Return the names of the GPUs that were used; the text is empty if none was."""
    if settings.device != "cuda":
        return ""
    counts = Counter(settings.hardware.get("gpus", [])[: settings.gpus])
    gpus = " and ".join(f"{n} × {name}" if n > 1 else name for name, n in counts.items())
    return f"{settings.nodes} nodes of {gpus}" if gpus and (settings.nodes or 1) > 1 else gpus


def _filled(texts: Mapping[str, str], values: Mapping[str, object]) -> str:
    return ", ".join(text.format(values[key]) for key, text in texts.items() if values.get(key))


def _versions(settings: Settings, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {settings.packages[name]}" for name in names)
