"""Every row by name: those of the paper, and this project's own small ones."""

from __future__ import annotations

from dataclasses import replace

from fairseq_aiayn.paper import BASE, BEYOND_TABLE_3, TABLE_3, Published, Row

# For the demo and the tests: small enough to learn from 20,000 short sentences on two CPU cores.
TINY = replace(
    BASE,
    name="tiny",
    N=3,
    d_model=256,
    d_ff=1024,
    h=4,
    steps=1_450,
    warmup=1_000,
    batch_tokens=768,
    checkpoint_updates=50,
    initialization="fairseq",
    published=Published(),
)

# The text-only Transformer-Tiny of "Good for Misconceived Reasons" (Wu et al., ACL 2021)
# for Multi30k, a result obtained with stock fairseq. An epoch has about 60 of its batches.
MULTI30K_TINY = replace(
    BASE,
    name="multi30k_tiny",
    N=4,
    d_model=128,
    d_ff=256,
    h=4,
    d_k=32,
    d_v=32,
    P_drop=0.3,
    steps=8_000,
    warmup=2_000,
    lr_factor=2.53,  # a peak of 0.005
    batch_tokens=8_192,
    checkpoint_updates=60,
    averaged=10,
    initialization="fairseq",
    published=Published(),
)

# For parsing with 10,000 trees and more that are made of them, such as GUM's (see --augment of
# recipes/wsj_parsing).
PARSING_TINY = replace(
    MULTI30K_TINY,
    name="parsing_tiny",
    P_drop=0.1,
    shared_vocabulary=False,
    steps=40_000,
    warmup=1_000,
    lr_factor=0.5,  # a peak of 0.0014
    batch_tokens=2_048,
    checkpoint_updates=920,
    averaged=5,
)

OWN = (TINY, MULTI30K_TINY, PARSING_TINY)
ROWS: dict[str, Row] = {row.name: row for row in (*TABLE_3, *BEYOND_TABLE_3, *OWN)}


def find_row(name: str) -> Row:
    """Return a row by `name`, which may begin with aiayn_ as an --arch does.

    Raises ValueError if there is no such row.
    """
    row = ROWS.get(name.removeprefix("aiayn_"))
    if row is None:
        raise ValueError(f"unknown row {name!r}: the rows are {', '.join(ROWS)}")
    return row
