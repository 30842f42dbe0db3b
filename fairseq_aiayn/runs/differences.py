"""What differs between runs, and the measurements that the paper prints of such runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairseq_aiayn.configuration import as_typed
from fairseq_aiayn.paper import ROWS, TABLE_2, TABLE_3, Published
from fairseq_aiayn.runs.record import SEARCH, TRAIN, Settings
from fairseq_aiayn.runs.run import Run
from fairseq_aiayn.settings import EN_DE, EN_FR, option

__all__ = ["Difference", "published", "run_differences"]

# Options that say where a run lies and by what port its processes met, not how it was made
ABSOLUTE_PATHS = {
    *("--distributed-init-method", "--distributed-port", "--data"),
    *("--save-dir", "--log-file", "--path", "--results-path", "--user-dir", "--dir", "--output"),
    *("--hypothesis", "--reference", "--tokens", "--words", "--gold", "--restore-file"),
}
FACTS = (
    *("system", "row", "corpus", "text_sha256", "subset", "seed", "averaged"),
    *("device", "gpus", "nodes"),
)
TRANSFORMER_BASE, TRANSFORMER_BIG = TABLE_2[-2:]
TABLE_2_BLEU = {  # by row and corpus
    ("base", EN_DE): TRANSFORMER_BASE.bleu_en_de,
    ("base", EN_FR): TRANSFORMER_BASE.bleu_en_fr,
    ("big", EN_DE): TRANSFORMER_BIG.bleu_en_de,
    ("big_en_fr", EN_FR): TRANSFORMER_BIG.bleu_en_fr,
}


@dataclass(frozen=True)
class Difference:
    """Something that is not the same for all runs."""

    where: str  # a stage of the recipe, "run", "package" or "machine"
    what: str
    values: tuple[str, ...]  # of each run; empty where it has none


def run_differences(
    runs: Sequence[Run], logged: Sequence[Mapping[str, object]] = ()
) -> list[Difference]:
    """List all that differs between runs, in the order in which a run is made; `logged` has the
    options that the log of each training shows, defaults included."""
    settings = [run.settings for run in runs]
    facts = [{name: getattr(each, name) for name in FACTS} for each in settings]
    for run, known in zip(runs, facts, strict=True):
        known |= {"vocabulary": run.vocabulary, "commit": run.settings.commit}
    differences = _unequal("run", facts)
    for stage in _keys([each.commands for each in settings]):
        options: Sequence[Mapping[str, object]] = [each.options(stage) for each in settings]
        if stage == TRAIN and logged and all(logged):
            options = _with_defaults(options, logged)
        elif stage == SEARCH:
            options = [each.search for each in settings]
        differences += _unequal(stage, options)
    differences += _unequal("package", [each.packages for each in settings])
    machines = [
        each.hardware | {"gpus": ", ".join(each.hardware.get("gpus", []))} for each in settings
    ]
    return differences + _unequal("machine", machines)


def _unequal(where: str, mappings: Sequence[Mapping[str, object]]) -> list[Difference]:
    """Return a difference for each key, but for places, whose values are not the same in all."""
    differences = []
    for key in _keys(mappings):
        found = [mapping.get(key) for mapping in mappings]
        values = tuple("" if value is None else as_typed(value) for value in found)
        if len(set(values)) > 1 and key not in ABSOLUTE_PATHS:
            differences.append(Difference(where, key, values))
    return differences


def _with_defaults(
    asked: Sequence[Mapping[str, object]], logged: Sequence[Mapping[str, object]]
) -> list[dict[str, object]]:
    """Return the logged options that all runs have, or that a command asked for."""
    options = [{option(name): own[name] for name in own if name[0] != "_"} for own in logged]
    shown = {*_keys(asked)} | set.intersection(*map(set, options))
    return [{name: own[name] for name in own if name in shown} for own in options]


def _keys(mappings: Sequence[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def published(settings: Settings) -> Published | None:
    """Return Table 2's BLEU for a test set, and Table 3's results for newstest2013; None if the
    paper prints nothing of this row, corpus and subset."""
    row = settings.row or ""
    if settings.subset == "test":
        bleu = TABLE_2_BLEU.get((row, settings.corpus or ""))
        return Published(bleu=bleu) if bleu else None
    in_table_3 = ROWS.get(row) in TABLE_3
    is_newstest2013 = (settings.corpus, settings.subset) == (EN_DE, "valid")
    return ROWS[row].published if in_table_3 and is_newstest2013 else None
