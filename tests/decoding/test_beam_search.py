"""The batched beam search compared with its reference implementations, on small random models."""

import math
from collections.abc import Iterator, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import (
    BLOCK,
    LARGEST_ALPHA,
    LONGEST_OUTPUT,
    MaximumLength,
    Model,
    SearchOptions,
    Symbols,
    beam_search,
    exhaustive_search,
    length_penalty,
    plain_beam_search,
    top_tokens,
)
from fairseq_aiayn.decoding.hypotheses import Hypothesis

PAD, END, V = 0, 1, 5
LONGEST = 16
SYMBOLS = Symbols(end=END, padding=PAD)


class TableModels:
    """A table of next-token probabilities for each sentence, indexed by the length so far and the
    last token; yields log P of `part` rows at a time.

    Like the state of a real decoder, it tracks its own history of tokens in follow and
    keep_sentences.
    """

    def __init__(self, B: int, seed: int, sharpness: float = 2.0, part: int = 7):
        torch.manual_seed(seed)
        logits = sharpness * torch.randn(B, LONGEST, V, V)
        logits[..., PAD] = -math.inf
        self.tables = logits.log_softmax(-1)
        self.sentence_of = torch.arange(B)
        self.part = part
        self.history: Tensor | None = None

    def log_probabilities(self, tokens: Tensor) -> Iterator[Tensor]:
        self.history = tokens if self.history is None else torch.cat([self.history, tokens], 1)
        k = tokens.size(0) // self.sentence_of.numel()
        sentence = self.sentence_of.repeat_interleave(k)
        t = self.history.size(1) - 1
        yield from self.tables[sentence, t, tokens[:, 0]].split(self.part)

    def follow(self, parents: Tensor) -> None:
        B = self.sentence_of.numel()
        history = self.history.view(B, -1, self.history.size(1))
        self.history = history[torch.arange(B)[:, None], parents].flatten(0, 1)

    def keep_sentences(self, sentences: Tensor) -> None:
        history = self.history.unflatten(0, (self.sentence_of.numel(), -1))
        self.history = history[sentences].flatten(0, 1)
        self.sentence_of = self.sentence_of[sentences]

    def one(self, b: int) -> Model:
        """The model of sentence b as a function of the tokens so far."""

        def log_p(tokens: tuple[int, ...]) -> list[float]:
            return self.tables[b, len(tokens), (END, *tokens)[-1]].tolist()

        return log_p


def limited(model: Model, prefix: Sequence[int], min_length: int) -> Model:
    """The model restricted to outputs that begin with the prefix and, after it, do not end before
    min_length."""

    def log_p(tokens: tuple[int, ...]) -> list[float]:
        t = len(tokens)
        if t < len(prefix):
            return [x if y == prefix[t] else -math.inf for y, x in enumerate(model(tokens))]
        short = t < min_length
        return [-math.inf if y == END and short else x for y, x in enumerate(model(tokens))]

    return log_p


def as_pair(hypothesis: Hypothesis) -> tuple[float, tuple[int, ...]]:
    return hypothesis.score, tuple(hypothesis.tokens.tolist())


def search(models: TableModels, lengths: list[int], **options: float) -> list[list[Hypothesis]]:
    return beam_search(models, torch.tensor(lengths), SYMBOLS, SearchOptions(**options))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_a_beam_as_wide_as_the_space_finds_what_exhaustive_search_finds(alpha):
    lengths = [3, 2, 3, 1]
    models = TableModels(len(lengths), seed=1)
    width = (V - 1) ** 4
    found = search(models, lengths, beam=width, alpha=alpha, min_length=0)
    for b, length in enumerate(lengths):
        score, tokens = exhaustive_search(models.one(b), END, alpha, length)[0]
        assert as_pair(found[b][0]) == (pytest.approx(score, abs=1e-5), tokens)


def test_score_is_the_sum_of_token_log_probabilities_over_the_length_penalty():
    for sentence in search(TableModels(4, seed=3), [8, 5, 3, 6], beam=4, alpha=0.6, nbest=4):
        assert [h.score for h in sentence] == sorted((h.score for h in sentence), reverse=True)
        for hypothesis in sentence:
            n = hypothesis.tokens.numel()
            assert hypothesis.tokens[-1] == END and hypothesis.token_log_p.numel() == n
            total = hypothesis.token_log_p.sum().item()
            assert hypothesis.score == pytest.approx(total / ((5 + n) / 6) ** 0.6, rel=1e-5)


def test_length_penalty_is_gnmts_and_prefers_longer_outputs_with_larger_alpha():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 0.6) == pytest.approx(2**0.6)
    models = [TableModels(20, seed=11, sharpness=0.3) for _ in range(2)]
    short, long = (
        sum(s[0].tokens.numel() for s in search(m, [12] * 20, beam=4, alpha=alpha))
        for m, alpha in zip(models, (0.0, 2.0), strict=True)
    )
    assert long > short


def test_minimum_and_maximum_length_count_tokens_without_the_end():
    models = TableModels(6, seed=5, sharpness=0.5)
    models.tables[..., END] += 4.0  # in a hurry to end
    for sentence in search(models, [4] * 6, beam=2, alpha=0.0, min_length=3):
        assert all(4 <= h.tokens.numel() <= 5 for h in sentence)
    models = TableModels(6, seed=5, sharpness=0.5)
    models.tables[..., END] -= 50.0  # never ends by itself
    lengths = [3, 2, 1, 4, 2, 3]
    found = search(models, lengths, beam=2, alpha=0.6, min_length=0)
    assert [s[0].tokens.numel() for s in found] == [n + 1 for n in lengths]


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_any_search_equals_the_plain_search(data):
    """For any lengths, beam, prefixes and parts; sentences end at different steps."""
    B = data.draw(st.integers(1, 9), "sentences")
    beam = data.draw(st.integers(1, 9), "beam")  # 9 > V, so that some hypotheses are missing
    nbest = data.draw(st.integers(1, beam), "nbest")
    alpha = data.draw(st.sampled_from([0.0, 0.6, 1.5]), "alpha")
    min_length = data.draw(st.integers(0, 3), "min_length")
    lengths = data.draw(st.lists(st.integers(3, 12), min_size=B, max_size=B), "lengths")
    words = st.lists(st.integers(2, V - 1), max_size=3)
    prefixes = data.draw(st.lists(words, min_size=B, max_size=B), "prefixes")
    sharpness, part = data.draw(st.sampled_from([(0.3, 1), (1.0, 4), (3.0, 100)]), "sharpness")
    models = TableModels(B, data.draw(st.integers(0, 10**6), "seed"), sharpness, part)
    prefix = torch.tensor([[*words, PAD, PAD, PAD][:3] for words in prefixes])
    options = SearchOptions(beam, alpha, min_length, nbest)
    found = beam_search(models, torch.tensor(lengths), SYMBOLS, options, prefix)
    for b, length in enumerate(lengths):
        model = limited(models.one(b), prefixes[b], min_length)
        expected = plain_beam_search(model, END, beam, alpha, length)[:nbest]
        assert [tuple(h.tokens.tolist()) for h in found[b]] == [tokens for _, tokens in expected]
        assert [h.score for h in found[b]] == pytest.approx([s for s, _ in expected], abs=1e-5)


def test_a_prefix_may_end_the_output_at_its_longest():
    """Both the prefix and the length leave only the end token."""
    models, prefix = TableModels(2, seed=2), torch.tensor([[2, END], [2, PAD]])
    found = beam_search(models, torch.tensor([1, 1]), SYMBOLS, SearchOptions(2, 0.6), prefix)
    assert found[0][0].tokens.tolist() == [2, END]
    assert found[1][0].tokens.tolist() == [2, END]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("V", [1, 6, BLOCK, 9 * BLOCK, 40 * BLOCK, 40 * BLOCK + 3])
@pytest.mark.parametrize("m", [1, 5, 22])
def test_the_largest_of_a_vocabulary_are_those_of_topk(V, m, dtype):
    """Even if they are all in one block, or after the last whole block."""
    torch.manual_seed(V + m)
    log_p = torch.randn(6, V).log_softmax(1).to(dtype)
    log_p[1, : 2 * m] += 9.0
    log_p[2, -2 * m :] += 9.0
    log_p[3, ::2] = -math.inf
    value, token = top_tokens(log_p, m)
    found = min(m, V)
    assert value.shape == token.shape == (6, m) and 0 <= token.min() and token.max() < V
    assert torch.equal(value[:, :found], log_p.topk(found).values)
    assert torch.equal(value[:, :found], log_p.gather(1, token[:, :found]))
    assert all(row.unique().numel() == found for row in token[:, :found])
    assert (value[:, found:] == -math.inf).all()


def test_prefix_is_kept_and_searched_from():
    models = TableModels(3, seed=2)
    prefix = torch.tensor([[2, 3], [4, PAD], [3, END]])
    found = beam_search(models, torch.tensor([5, 5, 5]), SYMBOLS, SearchOptions(3, 0.6), prefix)
    assert found[0][0].tokens[:2].tolist() == [2, 3]
    assert found[1][0].tokens[0] == 4
    assert found[2][0].tokens.tolist() == [3, END]


def test_the_minimum_length_holds_where_a_shorter_prefix_has_ended():
    models = TableModels(2, seed=2)
    models.tables[..., END] += 9.0  # in a hurry to end
    prefix = torch.tensor([[2, 3, 4], [2, PAD, PAD]])
    options = SearchOptions(2, 0.6, min_length=3)
    found = beam_search(models, torch.tensor([6, 6]), SYMBOLS, options, prefix)
    assert all(sentence[0].tokens.numel() == 4 for sentence in found)


@pytest.mark.parametrize("nbest", [1, 3])
def test_one_probability_that_is_no_number_is_refused(nbest):
    """NaN for one token after one late prefix. Breaks if the search still returns some
    hypotheses."""
    models = TableModels(3, seed=2)
    models.tables[1, 2, :, 4] = math.nan
    with pytest.raises(ValueError, match="not a number, in sentence 2 of 3 of a batch: are its"):
        search(models, [6, 6, 6], beam=3, alpha=0.6, nbest=nbest, min_length=4)


def test_what_no_open_hypothesis_has_may_be_no_number():
    """Rows of impossible hypotheses are computed too, but their values have no meaning."""
    models = TableModels(1, seed=2)
    models.tables[0, 0, END, 2:] = -math.inf  # the first token is the end, or nothing
    models.tables[0, 1:] = math.nan
    (found,) = search(models, [6], beam=3, alpha=0.6, min_length=0)
    assert found[0].tokens.tolist() == [END]


def test_no_number_where_nothing_is_open_takes_no_place():
    """Breaks if such rows, which a forced prefix leaves, displace the hypotheses that are open."""
    models, prefix = TableModels(1, seed=2), torch.tensor([[2]])
    options = SearchOptions(3, 0.6)
    (expected,) = beam_search(models, torch.tensor([6]), SYMBOLS, options, prefix)
    models = TableModels(1, seed=2)
    models.tables[0, 1, [token for token in range(V) if token != 2]] = math.nan
    (found,) = beam_search(models, torch.tensor([6]), SYMBOLS, options, prefix)
    assert found[0].tokens.tolist() == expected[0].tokens.tolist()


def test_the_largest_length_penalty_is_a_number():
    """Breaks if the longest outputs are divided by infinity, in the type of the scores."""
    longest = torch.tensor([LONGEST_OUTPUT[1]])
    assert length_penalty(longest, LARGEST_ALPHA).isfinite()
    assert not length_penalty(longest, 10.0).isfinite()


def test_a_sentence_without_any_possible_output_is_named():
    models = TableModels(2, seed=2)
    models.tables[1, 0] = -math.inf
    with pytest.raises(ValueError, match="a probability above 0, in sentence 2 of 2 of a batch"):
        search(models, [3, 3], beam=2, alpha=0.6)


def test_the_search_stops_as_soon_as_no_open_hypothesis_can_win():
    models = TableModels(2, seed=4)
    models.tables[..., END] = -0.001  # ending is nearly certain everywhere
    calls = []
    original = models.log_probabilities
    models.log_probabilities = lambda tokens: (calls.append(1), original(tokens))[1]
    search(models, [50, 50], beam=4, alpha=0.6, min_length=0)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0, "alpha": 0.6}, "beam size must be at least 1, got 0"),
        ({"beam": 4, "alpha": -0.1}, "α must be a number from 0 to 8, got -0.1"),
        ({"beam": 4, "alpha": math.nan}, "α must be a number from 0 to 8, got nan"),
        (
            {"beam": 4, "alpha": 0.6, "nbest": 5},
            "nbest must be between 1 and the beam size 4, got 5",
        ),
        (
            {"beam": 4, "alpha": 0.6, "min_length": -1},
            "minimum length must not be negative, got -1",
        ),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SearchOptions(**options)


def test_contradictory_lengths_are_refused():
    with pytest.raises(ValueError, match="minimum length 4 exceeds the maximum length 3"):
        search(TableModels(1, seed=0), [3], beam=1, alpha=0.0, min_length=4)
    with pytest.raises(ValueError, match="prefix of 2 tokens exceeds the maximum length 1"):
        beam_search(
            TableModels(1, seed=0),
            torch.tensor([1]),
            SYMBOLS,
            SearchOptions(1, 0.0),
            torch.tensor([[2, 3]]),
        )


def test_the_longest_output_is_exact():
    """Breaks if a·n + b is computed in float32: 1.05 · 60 is 63, in float32 a little less."""
    source = torch.full((2, 61), 2)
    source[:, -1], source[1, -2], source[1, -1] = END, END, PAD
    assert MaximumLength(1.05, 0).of(source, SYMBOLS).tolist() == [63, 61]
    assert MaximumLength(1, 50).of(source, SYMBOLS).tolist() == [110, 109]
