"""Rows as a table: their sizes, their costs and the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from fairseq_aiayn.cost.authors_count import authors_parameters
from fairseq_aiayn.cost.estimate import (
    BYTES_PER_PARAMETER,
    USUAL_LENGTH,
    forward_flops,
    parameters,
    training_bytes,
    training_flops,
)
from fairseq_aiayn.paper import Row
from fairseq_aiayn.regime.search import decoding


@dataclass(frozen=True)
class RowCost:
    """The costs of a row for a vocabulary and sentences of USUAL_LENGTH tokens."""

    parameters: int
    forward_flops: int  # for one source token and one target token
    training_flops: int
    training_bytes: int


def row_cost(row: Row, vocabulary: int) -> RowCost:
    """Compute a row's costs; raises ValueError for an empty vocabulary."""
    return RowCost(
        parameters(row, vocabulary),
        forward_flops(row, vocabulary, USUAL_LENGTH).total,
        training_flops(row, vocabulary, USUAL_LENGTH),
        training_bytes(row, vocabulary),
    )


def in_millions(count: float) -> str:
    """Format a count in millions: 63,045,632 becomes 63.05M."""
    return f"{count / 1e6:.2f}M"


def in_powers(count: float) -> str:
    """Format a count with two digits, as Table 2 prints FLOPs: 3.3e18."""
    return f"{count:.1e}".replace("e+", "e")


def in_gibibytes(count: float) -> str:
    """Format bytes in GiB: 1,008,730,112 becomes 0.94 GiB."""
    return f"{count / 2**30:.2f} GiB"


COST_CELLS: dict[str, Callable[[float], str]] = {
    "parameters": in_millions,
    "forward_flops": in_millions,
    "training_flops": in_powers,
    "training_bytes": in_gibibytes,
}


def _printed(field: str, form: str) -> Callable[[Row], str]:
    """Return a function that formats a figure which the paper prints for some rows."""

    def cell(row: Row) -> str:
        value = getattr(row.published, field)
        return "" if value is None else format(value, form)

    return cell


def _authors_count(row: Row) -> str:
    count = authors_parameters(row)
    return "" if count is None else in_millions(count)


def _value(field: str) -> Callable[[Row], str]:
    return lambda row: str(getattr(row, field))


SYMBOLS = ("name", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop")
SIZES: dict[str, Callable[[Row], str]] = {
    **{field: _value(field) for field in SYMBOLS},
    "eps_ls": _value("epsilon_ls"),
    "positions": lambda row: "learned" if row.learned_positions else "sinusoid",
    "steps": _value("steps"),
    "averaged": _value("averaged"),
}
COSTS = ("params", "FLOPs/pair", "training", "memory")  # in the order of COST_CELLS
AUTHORS: dict[str, Callable[[Row], str]] = {
    "t2t": _authors_count,
    "paper": lambda row: f"{row.published.parameters}M" if row.published.parameters else "",
    "PPL": _printed("ppl", ".2f"),
    "BLEU": _printed("bleu", ".1f"),
}


def row_table(rows: Sequence[Row], vocabulary: int) -> list[list[str]]:
    """Return the header and the cells of every row; raises ValueError for an empty vocabulary."""
    return [[*SIZES, *COSTS, *AUTHORS], *(_cells(row, vocabulary) for row in rows)]


def explanation(vocabulary: int) -> str:
    """Return an explanation of the columns of `row_table`, as Markdown."""
    return (
        f"Params: of our model with a vocabulary of {vocabulary:,} types; the parser has one of"
        " this size on each side. FLOPs/pair: the forward pass for one source token and one target"
        f" token, in sentences of {USUAL_LENGTH} tokens. Training: the FLOPs of all steps. Memory:"
        " weights, gradients and Adam's two moments in float32,"
        f" {BYTES_PER_PARAMETER} bytes per parameter, without activations. t2t: the parameters as"
        " the authors' code counted them. The last three columns are the paper's: parameters,"
        " development perplexity, BLEU."
    )


def row_as_json(row: Row, vocabulary: int) -> dict:
    """Return all cells of a row, ready for json.dump; raises ValueError for an empty vocabulary."""
    return (
        asdict(row)
        | {"arch": row.arch, "decoding": asdict(decoding(row))}
        | {"vocabulary": vocabulary, "length": USUAL_LENGTH}
        | asdict(row_cost(row, vocabulary))
        | {"authors_parameters": authors_parameters(row)}
    )


def _cells(row: Row, vocabulary: int) -> list[str]:
    costs = asdict(row_cost(row, vocabulary))
    return [
        *(cell(row) for cell in SIZES.values()),
        *(form(costs[name]) for name, form in COST_CELLS.items()),
        *(cell(row) for cell in AUTHORS.values()),
    ]
