"""The search for a row's task (sections 6.1 and 6.3) as options of fairseq-generate."""

from __future__ import annotations

from fairseq_aiayn.paper import PARSING_DECODING, TRANSLATION, Decoding, Row

PARSING_TASK = "aiayn_parsing"


def decoding(row: Row) -> Decoding:
    """Return the search for the row's task; rows with two vocabularies are for parsing."""
    return TRANSLATION if row.shared_vocabulary else PARSING_DECODING


def task_of(row: Row) -> str:
    """Return the name of the plugin's task for a row."""
    return "aiayn_translation" if row.shared_vocabulary else PARSING_TASK


def generate_options(search: Decoding) -> dict[str, object]:
    """Return beam size, α and longest output, input + b, as fairseq-generate's options."""
    return {
        "--beam": search.beam,
        "--lenpen": search.alpha,
        "--max-len-a": 1,
        "--max-len-b": search.extra_length,
    }
