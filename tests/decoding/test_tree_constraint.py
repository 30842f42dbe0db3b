"""The tree constraint compared with its reference: which outputs it admits, alone and in the beam
search."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import (
    Continuations,
    SearchOptions,
    Symbols,
    beam_search,
    exhaustive_search,
    plain_beam_search,
)
from fairseq_aiayn.decoding.tree_constraint import (
    ConstrainedContinuations,
    Forest,
    TreeSymbols,
    classify_tokens,
    continuations,
    forests,
)
from fairseq_aiayn.treebank.linearization import delinearize, linearize, split_symbol

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
# (X has no closing bracket, )Y no opening one, and "(" no label: none of them may be written
ALPHABET = (PAD, END, UNKNOWN, "(A", ")B", "x", "(B", ")A", "(X", "y", ")Y", "(", ")")
V = len(ALPHABET)
DEEP = 100


def symbols_of(alphabet: tuple[str, ...]) -> TreeSymbols:
    return classify_tokens([split_symbol(symbol) for symbol in alphabet], alphabet.index(END))


SYMBOLS = symbols_of(ALPHABET)
SEARCH_SYMBOLS = Symbols(end=ALPHABET.index(END), padding=ALPHABET.index(PAD))


class Indifferent:
    """A model that gives all tokens the same probability and records the tokens of each row."""

    def __init__(self) -> None:
        self.history: Tensor | None = None

    def log_probabilities(self, tokens: Tensor) -> Iterator[Tensor]:
        self.history = tokens if self.history is None else torch.cat([self.history, tokens], 1)
        yield torch.zeros(len(tokens), V)

    def follow(self, parents: Tensor) -> None:
        r = len(self.history) // len(parents)
        rows = parents + r * torch.arange(len(parents))[:, None]
        self.history = self.history[rows.flatten()]

    def keep_sentences(self, sentences: Tensor) -> None:
        pass


def log_probabilities(continuations: Continuations, tokens: Tensor) -> Tensor:
    """The log-probabilities of all rows of a step in one tensor."""
    return torch.cat(list(continuations.log_probabilities(tokens)))


class RandomModel(Indifferent):
    """A model with a different distribution for every sentence and every pair of last tokens."""

    def __init__(self, B: int, seed: int, sharpness: float = 2.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.tables = (sharpness * torch.randn(B, V, V, V)).log_softmax(-1)
        self.sentence_of = torch.arange(B)

    def log_probabilities(self, tokens: Tensor) -> Iterator[Tensor]:
        before = tokens if self.history is None else self.history[:, -1:]
        list(super().log_probabilities(tokens))
        sentence = self.sentence_of.repeat_interleave(len(tokens) // len(self.sentence_of))
        yield from self.tables[sentence, before[:, 0], tokens[:, 0]].split(3)

    def keep_sentences(self, sentences: Tensor) -> None:
        history = self.history.unflatten(0, (len(self.sentence_of), -1))
        self.history = history[sentences].flatten(0, 1)
        self.sentence_of = self.sentence_of[sentences]

    def one(self, b: int, every: list[Forest]):
        """The model of sentence b, restricted to continuations of these forests."""
        end = ALPHABET.index(END)

        def log_p(tokens: tuple[int, ...]) -> list[float]:
            before, last = (end, end, *tokens)[-2:]
            allowed = continuations(read(tokens), every)
            return [
                value if ("" if token == END else token) in allowed else -math.inf
                for token, value in zip(ALPHABET, self.tables[b, before, last].tolist())
            ]

        return log_p


def read(tokens: Tensor | tuple[int, ...]) -> Forest:
    return tuple(ALPHABET[int(token)] for token in tokens)


def all_forests(words: int, max_length: int, deepest: int = DEEP) -> list[Forest]:
    return list(forests(words, max_length, ("A", "B"), ("x", "y"), deepest))


def admitted(words: int, max_length: int, deepest: int = DEEP) -> list[Forest]:
    """Every output that can be written step by step; fails if one comes to a dead end."""
    model = Indifferent()
    constrained = ConstrainedContinuations(
        model, SYMBOLS, torch.tensor([words]), torch.tensor([max_length]), deepest
    )
    newest, found = torch.tensor([[SYMBOLS.end]]), []
    for _ in range(max_length + 1):
        log_p = log_probabilities(constrained, newest)
        assert (log_p == 0).any(dim=1).all(), "a dead end"
        rows, tokens = (log_p == 0).nonzero().unbind(1)
        ended = tokens == SYMBOLS.end
        found += [read(model.history[row, 1:]) for row in rows[ended]]
        constrained.follow(rows[~ended][None])
        newest = tokens[~ended].unsqueeze(1)
        if not newest.numel():
            return found
    raise AssertionError("longer than it may be")


def search(
    model: RandomModel, words: list[int], lengths: list[int], **options: float
) -> list[list[tuple[float, Forest]]]:
    max_lengths, chosen = torch.tensor(lengths), SearchOptions(**options)
    constrained = ConstrainedContinuations(model, SYMBOLS, torch.tensor(words), max_lengths, DEEP)
    found = beam_search(constrained, max_lengths, SEARCH_SYMBOLS, chosen)
    assert all(h.tokens[-1] == SYMBOLS.end for hypotheses in found for h in hypotheses)
    return [[(h.score, read(h.tokens[:-1])) for h in hypotheses] for hypotheses in found]


def is_forest(tokens: Forest, words: int) -> bool:
    """A simple check, for outputs that are too many to enumerate."""
    try:
        return linearize(delinearize(tokens, ["w"] * words), "pos") == list(tokens)
    except ValueError:
        return False


def test_the_twin_gives_the_forests_that_can_be_counted_by_hand():
    assert set(forests(1, 3, ("A",), ("x",), 1)) == {("x",), ("(A", "x", ")A")}
    assert set(forests(2, 4, ("A",), ("x",), 9)) == {
        ("x", "x"),
        ("(A", "x", "x", ")A"),
        ("(A", "x", ")A", "x"),
        ("x", "(A", "x", ")A"),
    }
    assert ("(A", "(A", "x", ")A", ")A") in set(forests(1, 5, ("A",), ("x",), 2))
    assert list(forests(3, 2, ("A",), ("x",), 9)) == []


@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("spare", range(6))
def test_what_can_be_written_is_every_forest_within_the_budget_and_nothing_else(words, spare):
    written, expected = admitted(words, words + spare), all_forests(words, words + spare)
    assert sorted(written) == sorted(expected) and len(set(written)) == len(written)


@pytest.mark.parametrize("deepest", range(4))
def test_brackets_inside_each_other_are_limited(deepest):
    assert sorted(admitted(2, 8, deepest)) == sorted(all_forests(2, 8, deepest))


@pytest.mark.parametrize("words", [1, 7, 40])
def test_the_longest_and_the_shortest_output_are_forests_too(words):
    """Too many to list: one output prefers brackets, the other words, whenever they are allowed."""
    for wish in ("(A", "x"):
        model = Indifferent()
        max_length = words + 300
        constrained = ConstrainedContinuations(
            model, SYMBOLS, torch.tensor([words]), torch.tensor([max_length]), DEEP
        )
        newest = torch.tensor([[SYMBOLS.end]])
        for _ in range(max_length + 1):
            allowed = read((log_probabilities(constrained, newest)[0] == 0).nonzero())
            if allowed == (END,):
                break
            newest[0] = ALPHABET.index(wish if wish in allowed else allowed[0])
        written = read(model.history[0, 1:])
        assert is_forest(written, words) and allowed == (END,)
        assert len(written) == (words if wish == "x" else words + 2 * DEEP)


def test_every_sentence_of_a_batch_has_its_own_words_and_budget():
    sizes = [(1, 3), (3, 3), (2, 6), (1, 5)]
    model = RandomModel(len(sizes), seed=1)
    every = [all_forests(*size) for size in sizes]
    words, lengths = map(list, zip(*sizes, strict=True))
    beam = max(map(len, every))
    found = search(model, words, lengths, beam=beam, alpha=0.3, nbest=beam)
    for hypotheses, expected in zip(found, every, strict=True):
        assert sorted(tokens for _, tokens in hypotheses) == sorted(expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam", [1, 3, 21])
def test_the_search_equals_the_plain_search_over_forests(seed, beam):
    sizes = [(1, 5), (2, 6), (3, 5), (3, 3), (2, 7)]
    model = RandomModel(len(sizes), seed)
    words, lengths = map(list, zip(*sizes, strict=True))
    found = search(model, words, lengths, beam=beam, alpha=0.3, nbest=beam)
    for b, (n, length) in enumerate(sizes):
        forest_model = model.one(b, all_forests(n, length))
        expected = plain_beam_search(forest_model, SYMBOLS.end, beam, 0.3, length)[:beam]
        assert [tokens for _, tokens in found[b]] == [read(tokens[:-1]) for _, tokens in expected]
        assert [score for score, _ in found[b]] == pytest.approx([s for s, _ in expected], abs=1e-4)


def test_a_wide_beam_finds_the_most_probable_forest():
    sizes = [(2, 6), (3, 5), (1, 5)]
    model = RandomModel(len(sizes), seed=9)
    words, lengths = map(list, zip(*sizes, strict=True))
    found = search(model, words, lengths, beam=400, alpha=0.3)
    for b, (n, length) in enumerate(sizes):
        forest_model = model.one(b, all_forests(n, length))
        score, tokens = exhaustive_search(forest_model, SYMBOLS.end, 0.3, length)[0]
        assert found[b][0] == (pytest.approx(score, abs=1e-4), read(tokens[:-1]))


@pytest.mark.parametrize("seed", range(25))
def test_random_models_write_forests_only_whatever_beam_and_budget(seed):
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(1, 12, (5,), generator=generator)
    lengths = words + torch.randint(0, 30, (5,), generator=generator)
    beam = [1, 2, 5, 21][seed % 4]
    model = RandomModel(5, seed, sharpness=[0.0, 1.0, 10.0][seed % 3])
    found = search(model, words.tolist(), lengths.tolist(), beam=beam, alpha=0.3, nbest=beam)
    for hypotheses, n, longest in zip(found, words.tolist(), lengths.tolist(), strict=True):
        assert hypotheses and all(math.isfinite(score) for score, _ in hypotheses)
        assert all(is_forest(tokens, n) and len(tokens) <= longest for _, tokens in hypotheses)


def test_fewer_forests_than_beams_are_all_that_comes_back():
    model = RandomModel(2, seed=3)
    found = search(model, [1, 1], [1, 3], beam=21, alpha=0.3, nbest=21)
    assert [len(hypotheses) for hypotheses in found] == [2, 2 + 4]
    assert {tokens for _, tokens in found[0]} == {("x",), ("y",)}


def test_scores_are_the_models_own_probabilities_not_scaled_up():
    model = RandomModel(1, seed=3)
    ((score, tokens),) = search(model, [1], [1], beam=1, alpha=0.0)[0]
    end, word = SYMBOLS.end, ALPHABET.index(tokens[0])
    expected = model.tables[0, end, end, word] + model.tables[0, end, word, end]
    assert score == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("faulty", [")A", END, PAD, UNKNOWN, "(X", ")Y", "("])
def test_a_row_that_wrote_what_it_may_not_or_has_ended_stays_dead(faulty):
    """A beam without a hypothesis continues with any token. Its row must stay dead and must not
    affect others."""
    constrained = ConstrainedContinuations(
        Indifferent(), SYMBOLS, torch.tensor([1]), torch.tensor([5]), DEEP
    )
    log_probabilities(constrained, torch.full((1, 1), SYMBOLS.end))
    constrained.follow(torch.tensor([[0, 0]]))
    newest = torch.tensor([[ALPHABET.index(faulty)], [ALPHABET.index("(A")]])
    for token in ("x", ")A", END):
        log_p = log_probabilities(constrained, newest)
        assert (log_p[0] == -math.inf).all()
        assert log_p[1, ALPHABET.index(token)] == 0
        newest = torch.full((2, 1), ALPHABET.index(token))
        constrained.follow(torch.tensor([[0, 1]]))
    log_p = log_probabilities(constrained, newest)
    assert (log_p == -math.inf).all(), "nothing follows the end"


def test_a_model_whose_log_probabilities_are_minus_infinity_gives_no_nan():
    """All continuations of a beam may be impossible; the other beams continue."""
    model = RandomModel(1, seed=5)
    model.tables[0, :, ALPHABET.index("(A")] = -math.inf
    for _, tokens in search(model, [2], [8], beam=8, alpha=0.3, nbest=8)[0]:
        assert is_forest(tokens, 2) and "(A" not in tokens


@pytest.mark.parametrize(
    ("words", "lengths", "message"),
    [
        ([2, 5], [9, 4], "a tree over 5 words does not fit into 4 tokens"),
        ([0], [9], "a tree needs at least 1 word, got a sentence of 0"),
    ],
)
def test_sentences_without_a_tree_are_refused(words, lengths, message):
    with pytest.raises(ValueError, match=message):
        search(RandomModel(1, seed=0), words, lengths, beam=2, alpha=0.3)


@pytest.mark.parametrize(
    ("alphabet", "message"),
    [
        ((PAD, END, UNKNOWN, "(A", ")A"), "no target token stands for a word"),
        ((PAD, END, UNKNOWN, "x"), "no label has both an opening and a closing bracket"),
        ((PAD, END, "x", "(A", ")B"), "no label has both an opening and a closing bracket"),
    ],
)
def test_dictionaries_that_cannot_write_a_tree_are_refused(alphabet, message):
    with pytest.raises(ValueError, match=message):
        symbols_of(alphabet)
