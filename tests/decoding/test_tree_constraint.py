"""The tree constraint compared with its reference: which outputs it admits, alone and in the beam
search."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import TableModels
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import Search, Symbols, beam_search, plain_beam_search
from fairseq_aiayn.decoding.tree_constraint import (
    ConstrainedContinuations,
    Forest,
    TreeSymbols,
    classify_tokens,
    continuations,
    forests,
)
from fairseq_aiayn.treebank.linearization import split_symbol

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
# (X has no closing bracket, )Y no opening one, and "(" no label: none of them may be written
ALPHABET = (PAD, END, UNKNOWN, "(A", ")B", "x", "(B", ")A", "(X", "y", ")Y", "(", ")")
V, DEEP = len(ALPHABET), 100


def symbols_of(alphabet: tuple[str, ...]) -> TreeSymbols:
    return classify_tokens([split_symbol(symbol) for symbol in alphabet], alphabet.index(END))


SYMBOLS = symbols_of(ALPHABET)


def random_model(B: int, seed: int = 0) -> TableModels:
    return TableModels(B, V, SYMBOLS.end, seed, sharpness=2.0, part=3)


def read(tokens: Tensor | tuple[int, ...]) -> Forest:
    return tuple(ALPHABET[int(token)] for token in tokens)


def all_forests(words: int, max_length: int, deepest: int = DEEP) -> list[Forest]:
    return list(forests(words, max_length, ("A", "B"), ("x", "y"), deepest))


def constrained(model, words, lengths, deepest=DEEP):
    sizes = torch.tensor(words), torch.tensor(lengths)
    return ConstrainedContinuations(model, SYMBOLS, *sizes, deepest)


def allowed(search: ConstrainedContinuations, newest: Tensor) -> Tensor:
    """The tokens that may follow, [R, V]; each keeps the probability of the model."""
    log_p = torch.cat(list(search.log_probabilities(newest)))
    return log_p.isfinite()


def admitted(words: int, max_length: int, deepest: int) -> list[Forest]:
    """Every output that can be written step by step; fails if one comes to a dead end."""
    model = random_model(1)
    search = constrained(model, [words], [max_length], deepest)
    newest, outputs = torch.tensor([[SYMBOLS.end]]), []
    for _ in range(max_length + 1):
        legal = allowed(search, newest)
        assert legal.any(dim=1).all(), "a dead end"
        rows, tokens = legal.nonzero().unbind(1)
        ended = tokens == SYMBOLS.end
        outputs += [read(model.history[row, 1:]) for row in rows[ended]]
        search.follow(rows[~ended][None])
        newest = tokens[~ended].unsqueeze(1)
        if not newest.numel():
            return outputs
    raise AssertionError("longer than it may be")


@pytest.mark.parametrize(
    ("words", "spare", "deepest"),
    [*((words, spare, DEEP) for words in (1, 2, 3) for spare in (0, 4, 5))]
    + [(2, 6, deepest) for deepest in range(4)],
)
def test_what_can_be_written_is_every_forest_within_the_budget_and_nothing_else(
    words: int, spare: int, deepest: int
) -> None:
    outputs = admitted(words, words + spare, deepest)
    assert sorted(outputs) == sorted(all_forests(words, words + spare, deepest))
    assert len(set(outputs)) == len(outputs)


@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), beam=st.sampled_from([1, 3, 21, 400]))
def test_the_search_equals_the_plain_search_over_forests(seed: int, beam: int) -> None:
    """Every sentence has its own words and budget, and probabilities are not scaled up."""
    sizes = [(1, 5), (2, 6), (3, 5), (3, 3), (1, 1)]
    model = random_model(len(sizes), seed)
    if beam > 3 and seed % 2:  # all continuations of a beam may have probability 0
        model.tables[:, :, ALPHABET.index("(A")] = -math.inf
    words, lengths = map(list, zip(*sizes, strict=True))
    tokens = Symbols(end=SYMBOLS.end, padding=ALPHABET.index(PAD))
    options = Search(beam, 0.3, 0, nbest=beam)
    search = constrained(model, words, lengths)
    outputs = beam_search(search, torch.tensor(lengths), tokens, options)
    for b, size in enumerate(sizes):
        every = all_forests(*size)

        def allows(tokens: tuple[int, ...], y: int, every: list[Forest] = every) -> bool:
            return ("" if y == SYMBOLS.end else ALPHABET[y]) in continuations(read(tokens), every)

        forest_model = model.restricted(b, allows)
        expected = plain_beam_search(forest_model, SYMBOLS.end, beam, 0.3, size[1])[:beam]
        assert [tuple(h.tokens.tolist()) for h in outputs[b]] == [tokens for _, tokens in expected]
        scores = [score for score, _ in expected]
        assert [h.score for h in outputs[b]] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("faulty", [")A", END, PAD, "(X", ")Y"])
def test_a_row_that_wrote_what_it_may_not_or_has_ended_stays_dead(faulty: str) -> None:
    """A beam without a hypothesis continues with any token. Its row must stay dead and must not
    affect others."""
    search = constrained(random_model(1), [1], [5])
    allowed(search, torch.tensor([[SYMBOLS.end]]))
    search.follow(torch.tensor([[0, 0]]))
    newest = torch.tensor([[ALPHABET.index(faulty)], [ALPHABET.index("(A")]])
    for token in ("x", ")A", END):
        legal = allowed(search, newest)
        assert not legal[0].any() and legal[1, ALPHABET.index(token)]
        newest = torch.full((2, 1), ALPHABET.index(token))
        search.follow(torch.tensor([[0, 1]]))
    assert not allowed(search, newest).any(), "nothing follows the end"


def test_what_no_tree_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="a tree over 5 words does not fit into 4 tokens"):
        constrained(random_model(2), [2, 5], [9, 4])
    with pytest.raises(ValueError, match="at least 1 word, got a sentence of 0"):
        constrained(random_model(1), [0], [9])
    for alphabet in ((PAD, END, "(A", ")A"), (PAD, END, "x"), (PAD, END, "x", "(A", ")B")):
        with pytest.raises(ValueError, match="no target token stands for a word|both an opening"):
            symbols_of(alphabet)
