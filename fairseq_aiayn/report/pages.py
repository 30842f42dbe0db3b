"""The page on runs: tables beside the paper's figures, and all its sections, in three formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from pathlib import Path

from fairseq_aiayn.console import one_line
from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, diagnose, unequal_aspects
from fairseq_aiayn.diagnosis.evidence import evidence_of_run
from fairseq_aiayn.diagnosis.findings import Weight
from fairseq_aiayn.files import write_whole
from fairseq_aiayn.paper import ROWS, SEMI_SUPERVISED, TABLE_3, TABLE_4, WSJ_ONLY, Published
from fairseq_aiayn.report.curves import curves_blocks
from fairseq_aiayn.report.document import (
    Block,
    Cell,
    Code,
    Details,
    Sections,
    Table,
    Texts,
    as_html,
    as_markdown,
    blocks_as_markdown,
    escaped,
    table_of,
    turned,
)
from fairseq_aiayn.report.results import TABLE3, Example, Report, Results, results_as_json
from fairseq_aiayn.report.significance import (
    EstimatedDifference,
    f1_blocks,
    mean_of,
    seeds_blocks,
    significance_blocks,
)
from fairseq_aiayn.runs.differences import Difference, published
from fairseq_aiayn.runs.run import ParserRun, ScoredRun, TranslationRun
from fairseq_aiayn.settings import EN_DE, ENCODER_AND_DECODER, SIDES, TOLERANCE, option

__all__ = ["write_page"]

RESULTS, SIGNIFICANCE = "Results", "Significance"
LANGUAGES = ("--source-lang", "--target-lang")
WSJ = ("wsj", "wsj_semi_supervised")  # as the recipe calls the paper's corpora
SECTION_23 = 2_416  # sentences
SIZES = {  # columns of Table 3: a field of Row, and the options of fairseq-train that change it
    symbol: (symbol, *(option(f"{side}_{name}") for side in SIDES))
    for name, symbol in ENCODER_AND_DECODER.items()
} | {
    "d_k": ("d_k", "--d-k"),
    "d_v": ("d_v", "--d-v"),
    "P_drop": ("P_drop", "--dropout"),
    "ε_ls": ("epsilon_ls", "--label-smoothing"),
}
CONDITIONS = ("vocabulary", "averaging")  # of the paper's figures, as diagnosed
# Measured in tensor2tensor#317 on the authors' checkpoint of 3.8 million steps.
OTHER_MEASURE = (
    "The paper's BLEU is not sacreBLEU: for English-German, a base model of its authors has 29.02 "
    "by their script and 27.52 by sacreBLEU on newstest2014, 26.50 and 26.25 on newstest2013."
)


def write_page(results: Results, directory: Path, stem: str) -> str:
    """Write `stem`.md, `stem`.json and report.html into a directory, which is created if it is
    missing, and return the table for a terminal, and who is ahead."""
    title = "Table 3" if results.kind == TABLE3 else " · ".join(run.name for run in results.runs)
    lead, found = what_was_trained(results.runs), sections(results)
    head = f"# {escaped(title)}\n\n" + f"{escaped(lead)}\n\n" * bool(lead)
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / f"{stem}.md", head + as_markdown(found))
    write_whole(directory / f"{stem}.json", results_as_json(results))
    write_whole(directory / "report.html", as_html(title, lead, found))
    leads = [] if results.seeds else found.get(SIGNIFICANCE, ())[:1]
    return blocks_as_markdown([*found[RESULTS], *leads], one_line)


def what_was_trained(runs: Sequence[ScoredRun]) -> str:
    """Return corpora, directions, days and processors of trainings, as far as they are recorded."""
    made = [run.settings for run in runs]
    options = [each.training for each in made]
    days = sorted(each.written[:10] for each in made if each.written)
    facts: list[tuple[str, list[str | None]]] = [
        (" and ", [each.corpus for each in made]),
        (" and ", [" → ".join(own[name] for name in LANGUAGES if name in own) for own in options]),
        (" to ", [*days[:1], *days[-1:]]),
        (" and ", [_gpus(run) or run.settings.hardware.get("processor") for run in runs]),
    ]
    texts = [word.join(dict.fromkeys(filter(None, values))) for word, values in facts]
    return f"Trained: {', '.join(filter(None, texts))}" if any(texts) else ""


def sections(results: Results) -> Sections:
    """Return the sections by their headings; one without anything to say is left out."""
    translations = [run for run in results.runs if isinstance(run, TranslationRun)]
    parsers = [run for run in results.runs if isinstance(run, ParserRun)]
    firsts, seeds = results.first_runs, seeds_blocks(results.seeds)
    found: dict[str, Sequence[Block]] = {}
    if results.kind == TABLE3:
        found[RESULTS] = [*table3_blocks(translations, results.unfinished), *seeds]
        firsts = [*translations]
    elif parsers:
        found[RESULTS] = [*seeds, *parsers_blocks(parsers, results.f1_differences)]
    else:
        found[RESULTS] = [*seeds, *translations_blocks(translations)]
    if isinstance(results, Report):
        found |= {
            SIGNIFICANCE: significance_blocks(results.significance, results.runs[0].sentences),
            "What differs": differences_blocks(results.differences, results.diagnoses),
            "Learning curves": curves_blocks(results.curves),
        }
    found["Examples"] = examples_blocks(results.examples, [run.name for run in firsts])
    found["How the runs were made"] = [how_made(run) for run in firsts]
    return {heading: blocks for heading, blocks in found.items() if blocks}


def _cost(run: ScoredRun) -> list[Cell]:
    """Return the cost of a training, and its perplexity."""
    training = run.training
    return [
        ("parameters", training.parameters, ","),
        ("updates", training.updates, ","),
        ("target tokens/s in training", training.tokens_per_second, ",.0f"),
        ("seconds of training", training.seconds, ",.0f"),
        ("wall time of training", timedelta(seconds=round(training.wall_seconds)), ""),
        ("peak memory of training, MiB", training.peak_memory, ","),
        ("peak GPU memory of training, MiB", training.peak_gpu_memory or None, ","),
        ("development perplexity", run.dev_perplexity, ".2f"),
    ]


# Translations (Table 2)


def translations_blocks(runs: Sequence[TranslationRun]) -> list[Block]:
    """Return a column per run, and notes on how to read it."""
    blocks: list[Block] = [turned(table_of([*map(_translation_cells, runs)]))]
    printed = [run for run in runs if published(run.settings)]
    for row in dict.fromkeys(run.settings.row for run in printed):
        of_row = [run for run in printed if run.settings.row == row]
        settings = of_row[0].settings
        if text := unmet_conditions(of_row, str(settings.corpus), str(settings.subset)):
            blocks.append(f"Row {row}: {text}")
    return [*blocks, *([OTHER_MEASURE] if printed else []), *_signatures(runs[0])]


def unmet_conditions(runs: Sequence[TranslationRun], corpus: str, subset: str) -> str:
    """List where runs depart from the conditions of the paper's figures; empty if nowhere."""
    unmet = []
    for run in runs:
        own = run.settings
        if (own.corpus, own.subset) != (corpus, subset):
            unmet.append(f"corpus {own.corpus}, subset {own.subset} (paper: {corpus}, {subset})")
        row, here = sizes_of(run, {}), sizes_of(run, own.training)
        changed = (name for name in SIZES if here[name] != row[name])
        unmet += [f"{name} {here[name]} (paper: {row[name]})" for name in changed]
        updates, steps = run.training.updates, ROWS[str(own.row)].steps
        if abs(updates / steps - 1) > TOLERANCE:
            unmet.append(f"updates {updates:,} (paper: {steps:,})")
        findings = diagnose(evidence_of_run(run)).findings
        for name in CONDITIONS:
            found = findings.get(name)
            if not found:
                unmet.append(f"{name} not recorded")
            elif found.differs:
                unmet.append(f"{name} {found.here} (paper: {found.paper})")
    text = ", ".join(dict.fromkeys(unmet))
    return f"Not as for the paper's figures: {text}." if unmet else ""


def _translation_cells(run: TranslationRun) -> list[Cell]:
    bleu, paper = run.bleu, published(run.settings) or Published()
    return [
        ("", run.name, ""),
        *_cost(run),
        *((name, score and score.score, ".2f") for name, score in run.measures.items()),
        ("translation ÷ reference, tokens", bleu and bleu.length_ratio, ".3f"),
        ("brevity penalty", bleu and bleu.brevity_penalty, ".3f"),
        ("BLEU, the paper's own", paper.bleu, ".1f"),
        ("perplexity, the paper's own", paper.ppl, ".2f"),
        ("10⁶ parameters, the paper's own", paper.parameters, ""),
    ]


def _signatures(run: TranslationRun) -> list[Block]:
    """Return how the run, and each run compared with it, was scored."""
    scored = run.measures.items()
    return [[f"{name}: ", Code(measure.signature)] for name, measure in scored if measure]


# Table 3


def table3_blocks(
    runs: Sequence[TranslationRun], unfinished: Sequence[Mapping[str, str]]
) -> list[Block]:
    """Return the table in the paper's order of rows, and notes on how to read it."""
    blocks: list[Block] = []
    if runs:
        blocks += [_table3(runs), "An empty size is that of the first row."]
        blocks += filter(None, (unmet_conditions(runs, EN_DE, "valid"), OTHER_MEASURE))
        blocks += _signatures(runs[0])
    if unfinished:
        blocks.append(Texts("Not finished:", [(run["name"], run["reason"]) for run in unfinished]))
    for system in dict.fromkeys(run.settings.system for run in runs):
        rows = {run.settings.row for run in runs if run.settings.system == system}
        if missing := [row.name for row in TABLE_3 if row.name not in rows]:
            blocks.append(f"Rows without a finished run of {system}: {', '.join(missing)}")
    return blocks


def _table3(runs: Sequence[TranslationRun]) -> Table:
    groups = groupby(runs, key=lambda run: (run.settings.row, run.settings.system))
    first, *others = (_table3_cells([*group]) for _, group in groups)
    empty = {cell: (cell[0], None, "") for cell in first if cell[0] in SIZES}
    return table_of([first, *([empty.get(cell, cell) for cell in row] for row in others)], left=2)


def _table3_cells(runs: Sequence[TranslationRun]) -> list[Cell]:
    """Return what Table 3 says of the runs of one row, beside what the paper prints of it."""
    first = runs[0]
    row = ROWS[str(first.settings.row)]
    sizes = sizes_of(first, first.settings.training)
    return [
        ("row", row.name, ""),
        ("system", first.settings.system, ""),
        *((name, size, "") for name, size in sizes.items()),
        ("updates", first.training.updates, ","),
        ("PPL, paper", row.published.ppl, ".2f"),
        ("PPL, ours", mean_of([run.dev_perplexity for run in runs]), ""),
        ("BLEU, paper", row.published.bleu, ".1f"),
        ("BLEU, ours", mean_of([run.bleu.score for run in runs if run.bleu]), ""),
        ("sacreBLEU, ours", mean_of([run.sacrebleu.score for run in runs]), ""),
        ("10⁶ params, paper", row.published.parameters, ".0f"),
        ("10⁶ params, ours", first.training.parameters / 1e6, ".1f"),
        ("seeds", len(runs), ""),
    ]


def sizes_of(run: ScoredRun, options: Mapping[str, str]) -> dict[str, float]:
    """Return the sizes and rates of a run's row, with those that options of a training change."""
    row, found = ROWS[str(run.settings.row)], {}
    for symbol, (field, *changing) in SIZES.items():
        value = getattr(row, field)
        given = next((options[each] for each in changing if each in options), value)
        found[symbol] = type(value)(given)
    if run.settings.system == "stock" and options:  # whose heads divide d_model
        found["d_k"] = found["d_v"] = found["d_model"] // found["h"]
    return found


# Parsers (Table 4)


def parsers_blocks(
    runs: Sequence[ParserRun], differences: Mapping[str, EstimatedDifference]
) -> list[Block]:
    """Return the paper's Table 4 with a row per run, tests of differences, and a column per run."""
    repairs = dict.fromkeys(name for run in runs for name in run.repairs.repairs)
    return [
        *_table4(runs),
        *f1_blocks(runs[0], differences),
        turned(table_of([_parsing_cells(run, repairs) for run in runs])),
        f"Parameters of EVALB: {runs[0].scores.parameters}",
    ]


def _table4(runs: Sequence[ParserRun]) -> list[Block]:
    """Return the table, and what was parsed if it is not the paper's test set."""
    rows = [[row.parser, row.training, f"{row.f1:.1f}", ""] for row in TABLE_4]
    rows += [[run.name, _trained_on(run), "", f"{run.scores.all.f1:.2f}"] for run in runs]
    parsers = Table(["parser", "training", "F1, paper", "F1, ours"], rows, left=2)
    others = dict.fromkeys(filter(None, map(_other_set, runs)))
    if not others:
        return [parsers]
    ours = " and of ".join(others)
    paper = f"section 23 of the WSJ, {SECTION_23:,} sentences"
    return [parsers, f"The paper's F1 is of {paper}; ours is of {ours}: they do not compare."]


def _trained_on(run: ParserRun) -> str:
    """Return what a run was trained on, in the paper's words if it is the paper's corpus."""
    trees, corpus = run.trees, run.settings.corpus or "not recorded"
    if corpus in WSJ:
        corpus = SEMI_SUPERVISED if trees.silver else WSJ_ONLY
    silver = f", {trees.silver:,} silver" if trees.silver else ""
    return f"{corpus}: {trees.gold:,} gold{silver} sentences"


def _other_set(run: ParserRun) -> str:
    """Return what a run parsed if it is not the paper's test set."""
    corpus, subset = run.settings.corpus, run.settings.subset
    if corpus in WSJ and (subset, run.sentences) == ("test", SECTION_23):
        return ""
    unknown = "not recorded"
    return f"corpus {corpus or unknown}, subset {subset or unknown}, {run.sentences:,} sentences"


def _parsing_cells(run: ParserRun, repairs: Iterable[str]) -> list[Cell]:
    """Return what a table says of a run that parses, with these repairs."""
    trees, every, search = run.trees, run.scores.all, run.search
    counts, options = run.repairs.repairs, run.settings.training
    speed = search.sentences / search.seconds if search.seconds else None
    return [
        ("", run.name, ""),
        ("row", run.settings.row, ""),
        ("gold trees", trees.gold, ","),
        ("silver trees", trees.silver or None, ","),
        ("phrases and pairs of gold trees", trees.augmented or None, ","),
        ("copies of the gold trees", options.get("--upsample-primary"), ""),
        ("in a word's place", trees.tags, ""),
        ("word pieces", run.vocabulary or None, ","),
        ("dropout", options.get("--dropout"), ""),
        ("attention dropout", options.get("--attention-dropout"), ""),
        *_cost(run),
        ("recall", every.recall, ".2f"),
        ("precision", every.precision, ".2f"),
        ("F1", every.f1, ".2f"),
        (f"F1, at most {run.scores.cutoff} words", run.scores.short.f1, ".2f"),
        ("complete match, %", every.complete_match, ".2f"),
        ("crossing brackets per sentence", every.average_crossing, ".2f"),
        ("no crossing brackets, %", every.no_crossing, ".2f"),
        ("tagging accuracy", every.tagging_accuracy if trees.tags != "XX" else None, ".2f"),
        ("errors of EVALB, which do not count", every.errors, ","),
        ("well-formed before repair, %", run.repairs.share_well_formed, ".2f"),
        *((f"repairs: {name}", counts.get(name) or None, ",") for name in repairs),
        ("sentences parsed/s", speed, ".1f"),
    ]


def differences_blocks(
    differences: Sequence[Difference], diagnoses: Mapping[str, Diagnosis]
) -> list[Block]:
    """Return what went wrong in trainings, and where runs differ from their rows and each other."""
    wrong = [
        f"{found.name}: {event.text}"
        for found in diagnoses.values()
        for event in found.events
        if event.weight >= Weight.MEDIUM
    ]
    blocks: list[Block] = [*dict.fromkeys(wrong)]  # once for all searches with a parser
    if aspects := unequal_aspects(diagnoses.values()):
        header = ["", "the row of the paper or of aiayn", *diagnoses, "effect"]
        rows = [_aspect_cells(aspect, diagnoses.values()) for aspect in aspects]
        text = "Where a run differs from its row, the most important first ("
        blocks += [[text, Code("aiayn diagnose"), ")."], Table(header, rows, left=len(header))]
    if len(diagnoses) > 1:
        text = (
            "Every fact and option in which the runs differ, even if one of the systems does not "
            "use it. An empty cell means that it was not given."
        )
        rows = [[found.where, found.what, *found.values] for found in differences]
        header = ["where", "what", *diagnoses]
        blocks += [text, Table(header, rows, left=len(header))]
    return blocks


def _aspect_cells(aspect: str, diagnoses: Iterable[Diagnosis]) -> list[str]:
    """Return what the paper and each run have of an aspect, and the effect of the heaviest."""
    findings = [diagnosis.findings.get(aspect) for diagnosis in diagnoses]
    heaviest = max(filter(None, findings), key=lambda found: (found.differs, found.weight))
    cells = [(found.here if found.differs else "the same") if found else "" for found in findings]
    return [aspect, heaviest.paper, *cells, heaviest.effect]


def examples_blocks(examples: Sequence[Example], names: Sequence[str]) -> list[Block]:
    """Return a text and sentences, if any, with the translations of runs."""
    blocks: list[Block] = ["Sentences at equal distances in the test set."]
    for example in examples:
        texts = [("source", example.source), ("reference", example.reference)]
        texts += [(name, example.translations[name]) for name in names]
        blocks.append(Texts(f"Sentence {example.sentence:,}", texts))
    return blocks if examples else []


# What a result is traced back to


def how_made(run: ScoredRun) -> Details:
    """Return a folded block with all that a run's settings know."""
    settings, training = run.settings, run.training
    is_same_code = settings.evaluated_by == settings.commit
    cells: list[Cell] = [
        ("row", settings.row, ""),
        ("corpus", settings.corpus, ""),
        ("subset", settings.subset, ""),
        ("sentences", run.sentences, ","),
        ("vocabulary", run.vocabulary, ","),
        ("seed", settings.seed, ""),
        ("checkpoints averaged", settings.averaged, ""),
        ("commit", settings.commit, ""),
        ("evaluated by commit", None if is_same_code else settings.evaluated_by, ""),
        ("written", settings.written, ""),
        ("GPUs", _gpus(run), ""),
        *((name, known, "") for name, known in settings.hardware.items() if name != "gpus"),
        *((name, number, "") for name, number in settings.packages.items()),
        ("wall time of training", timedelta(seconds=round(training.wall_seconds)), ""),
        ("of that in updates", timedelta(seconds=round(training.seconds)), ""),
    ]
    facts = {name: format(value, form) for name, value, form in cells if value is not None}
    return Details(f"How {run.name} was made", facts, settings.commands)


def _gpus(run: ScoredRun) -> str | None:
    """Return the GPUs that a training used."""
    settings = run.settings
    used = settings.hardware.get("gpus", [])[: settings.gpus] if settings.device == "cuda" else []
    gpus = " and ".join(f"{n} × {name}" if n > 1 else name for name, n in Counter(used).items())
    nodes = f"{settings.nodes} nodes of " if (settings.nodes or 1) > 1 else ""
    return f"{nodes}{gpus}" if gpus else None
