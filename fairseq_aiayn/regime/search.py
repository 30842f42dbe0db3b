"""Sections 6.1 and 6.3: the search of a row's task, as options of fairseq-generate."""

from __future__ import annotations

from fairseq_aiayn.paper import PARSING_DECODING, TRANSLATION, Decoding, Row


def decoding(row: Row) -> Decoding:
    """Return the search of the row's task: only parsing keeps two vocabularies (section 6.3)."""
    return TRANSLATION if row.shared_vocabulary else PARSING_DECODING


def search_options(search: Decoding) -> dict[str, object]:
    """Return beam size, α and longest output, input + b, as fairseq-generate's options."""
    return {
        "--beam": search.beam,
        "--lenpen": search.alpha,
        "--max-len-a": 1,
        "--max-len-b": search.extra_length,
    }
