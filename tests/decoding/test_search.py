"""The batched beam search, and the constraint to trees alone and in it, compared with their plain
references on small random models."""

import math
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fairseq_aiayn.decoding import beam_search as module
from fairseq_aiayn.decoding.beam_search import (
    BLOCK,
    EnsembleContinuations,
    Model,
    Search,
    Symbols,
    beam_search,
    plain_beam_search,
    top_tokens,
)
from fairseq_aiayn.decoding.tree_constraint import (
    ConstrainedContinuations,
    Forest,
    classify_tokens,
    continuations,
    forests,
)
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer
from fairseq_aiayn.treebank.linearization import split_symbol

LONGEST = 16  # lengths with a distribution of their own


class TableModels:
    """A table of next-token probabilities for each sentence, indexed by the length so far and the
    last token; yields log P of `part` rows at a time, and has its history, as a real decoder."""

    def __init__(self, B: int, V: int, end: int, seed: int, sharpness: float, part: int):
        torch.manual_seed(seed)
        self.tables = (sharpness * torch.randn(B, LONGEST, V, V)).log_softmax(-1)
        self.end = end
        self.sentence_of = torch.arange(B)
        self.part = part
        self.history = torch.empty(B, 0, dtype=torch.long)
        self.steps = 0

    def log_probabilities(self, tokens: Tensor) -> Iterator[Tensor]:
        self.steps += 1
        self.history = torch.cat([self.history, tokens], 1)
        sentence = self.sentence_of.repeat_interleave(len(tokens) // len(self.sentence_of))
        t = (self.history.size(1) - 1) % LONGEST
        yield from self.tables[sentence, t, tokens[:, 0]].split(self.part)

    def follow(self, parents: Tensor) -> None:
        B = self.sentence_of.numel()
        history = self.history.view(B, -1, self.history.size(1))
        self.history = history[torch.arange(B)[:, None], parents].flatten(0, 1)

    def keep_sentences(self, sentences: Tensor) -> None:
        history = self.history.unflatten(0, (self.sentence_of.numel(), -1))
        self.history = history[sentences].flatten(0, 1)
        self.sentence_of = self.sentence_of[sentences]

    def restricted(self, b: int, allows: Callable[[tuple[int, ...], int], bool]) -> Model:
        """The model of sentence b alone, which after some tokens writes only what is allowed."""

        def log_p(tokens: tuple[int, ...]) -> list[float]:
            values = self.tables[b, len(tokens) % LONGEST, (self.end, *tokens)[-1]].tolist()
            return [x if allows(tokens, y) else -math.inf for y, x in enumerate(values)]

        return log_p


PAD, END, V = 0, 1, 5
SYMBOLS = Symbols(end=END, padding=PAD)


def random_models(B: int, seed: int, sharpness: float = 2.0, part: int = 7) -> TableModels:
    return TableModels(B, V, END, seed, sharpness, part)


def limits(prefix: Sequence[int], min_length: int) -> Callable[[tuple[int, ...], int], bool]:
    """Allow what has the prefix and does not end before min_length; padding is never written."""

    def allows(tokens: tuple[int, ...], y: int) -> bool:
        t = len(tokens)
        return y == prefix[t] if t < len(prefix) else y > END or y == END and t >= min_length

    return allows


def search(models, lengths, prefix=None, **options):
    forced = torch.tensor(prefix) if prefix else None
    options = {"beam": 3, "alpha": 0.6, "b": 0} | options
    return beam_search(models, torch.tensor(lengths), SYMBOLS, Search(**options), forced)


@given(st.data())
def test_any_search_equals_the_plain_search(data: st.DataObject) -> None:
    B = data.draw(st.integers(1, 9), "sentences")
    beam = data.draw(st.integers(1, 9), "beam")  # 9 > V, so that some hypotheses are missing
    nbest = data.draw(st.integers(1, beam), "nbest")
    alpha = data.draw(st.sampled_from([0.0, 0.6, 1.5]), "alpha")
    min_length = data.draw(st.integers(0, 3), "min_length")
    lengths = data.draw(st.lists(st.integers(3, 12), min_size=B, max_size=B), "lengths")
    words = st.lists(st.integers(2, V - 1), max_size=3)
    prefixes = data.draw(st.lists(words, min_size=B, max_size=B), "prefixes")
    sharpness, part = data.draw(st.sampled_from([(0.3, 1), (1.0, 4), (3.0, 100)]), "sharpness")
    models = random_models(B, data.draw(st.integers(0, 10**6), "seed"), sharpness, part)
    padded = [[*prefix, PAD, PAD, PAD][:3] for prefix in prefixes]
    options = {"beam": beam, "alpha": alpha, "min_length": min_length, "nbest": nbest}
    outputs = search(models, lengths, padded, **options)
    for b, length in enumerate(lengths):
        model = models.restricted(b, limits(prefixes[b], min_length))
        expected = plain_beam_search(model, END, beam, alpha, length)[:nbest]
        assert [tuple(h.tokens.tolist()) for h in outputs[b]] == [tokens for _, tokens in expected]
        scores = [score for score, _ in expected]
        assert [h.score for h in outputs[b]] == pytest.approx(scores, abs=1e-5)
        for h in outputs[b]:  # lp counts the end token
            y = h.tokens.tolist()
            log_p = models.tables[b, torch.arange(len(y)), [END, *y[:-1]], y]
            torch.testing.assert_close(h.token_log_p, log_p)
            penalty = ((5 + len(y)) / 6) ** alpha
            assert h.score == pytest.approx(float(log_p.sum()) / penalty, rel=1e-5)


def test_a_prefix_may_contain_or_force_the_end() -> None:
    outputs = search(random_models(2, seed=2), [1, 1], [[2, END], [2, PAD]])
    assert [h.tokens.tolist() for (h,) in outputs] == [[2, END], [2, END]]
    models = random_models(2, seed=2)
    models.tables[..., END] += 9.0  # in a hurry to end
    outputs = search(models, [6, 6], [[2, 3, 4], [2, PAD, PAD]], min_length=3)
    assert all(h.tokens.numel() == 4 for (h,) in outputs)


def test_the_search_stops_as_soon_as_no_active_hypothesis_can_win() -> None:
    models = random_models(2, seed=4)
    models.tables[..., END] = -0.001  # ending is nearly certain everywhere
    search(models, [50, 50], beam=4, min_length=0)
    assert models.steps == 1


@pytest.mark.parametrize("V", [1, BLOCK, 40 * BLOCK, 40 * BLOCK + 3])
@pytest.mark.parametrize("m", [1, 5, 22])
def test_the_largest_of_a_vocabulary_are_those_of_topk(V: int, m: int) -> None:
    """Even if they are all in one block, after the last whole block, or many are equal."""
    torch.manual_seed(V + m)
    log_p = torch.randn(6, V).log_softmax(1)
    log_p[1, : 2 * m] += 9.0
    log_p[2, -2 * m :] += 9.0
    log_p[3, ::2] = -math.inf
    log_p[4].round_()
    value, token = top_tokens(log_p, m)
    n = min(m, V)
    assert value.shape == token.shape == (6, m) and 0 <= token.min() and token.max() < V
    assert torch.equal(value[:, :n], log_p.topk(n).values)
    assert torch.equal(value[:, :n], log_p.gather(1, token[:, :n]))
    assert all(row.unique().numel() == n for row in token[:, :n])
    assert (value[:, n:] == -math.inf).all()


@pytest.mark.parametrize("nbest", [1, 3])
def test_what_has_no_probability_is_refused_with_its_sentence(nbest: int) -> None:
    models = random_models(3, seed=2)
    models.tables[1, 2, :, 4] = math.nan
    with pytest.raises(ValueError, match="not a number, in sentence 2 of 3"):
        search(models, [6, 6, 6], nbest=nbest, min_length=4)
    models = random_models(2, seed=2)
    models.tables[1, 0] = -math.inf
    with pytest.raises(ValueError, match="a probability above 0, in sentence 2 of 2"):
        search(models, [3, 3], nbest=nbest)


def test_rows_without_a_hypothesis_may_be_no_number() -> None:
    """They are computed too. Breaks if they raise, or displace the hypotheses that are active."""
    models = random_models(1, seed=2)
    models.tables[0, 0, END, 2:] = -math.inf  # the first token is the end, or nothing
    models.tables[0, 1:] = math.nan
    assert search(models, [6], min_length=0)[0][0].tokens.tolist() == [END]
    expected = search(random_models(1, seed=2), [6], [[2]])[0][0].tokens.tolist()
    models = random_models(1, seed=2)
    models.tables[0, 1, [token for token in range(V) if token != 2]] = math.nan
    assert search(models, [6], [[2]])[0][0].tokens.tolist() == expected


def test_what_no_search_can_take_is_refused() -> None:
    """A beam beyond the vocabulary too; the paper's largest beam, 21, goes with any."""
    wrong = {"beam": (0, 31, 2.5, "4"), "alpha": (-0.1, math.nan, 1e6, None), "a": (math.nan,)}
    for option, values in (wrong | {"nbest": (5, 1.0), "b": (0.5,)}).items():
        for value in values:
            with pytest.raises(ValueError, match=f"got {value!r}|got 1000000"):
                Search(**{"beam": 4, "alpha": 0.6, "b": 50, option: value}).over(30)
    assert Search(21, 0.6, 50).over(5).beam == 21
    with pytest.raises(ValueError, match="minimum length 4 exceeds the maximum length 3"):
        search(random_models(1, seed=0), [3], min_length=4)
    with pytest.raises(ValueError, match="prefix of 2 tokens exceeds the maximum length 1"):
        search(random_models(1, seed=0), [1], [[2, 3]])


def test_the_maximum_length_is_exact() -> None:
    """Breaks if a·n + b is computed in float32: 1.05 · 60 is 63, in float32 a little less."""
    source = torch.full((2, 61), 2)
    source[:, -1], source[1, -2], source[1, -1] = END, END, PAD
    assert Search(1, 0.0, b=0, a=1.05).max_lengths(source, SYMBOLS).tolist() == [63, 61]
    assert Search(1, 0.0, b=50).max_lengths(source, SYMBOLS).tolist() == [110, 109]


@torch.no_grad()
def test_an_ensemble_keeps_the_beams_of_its_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a model keeps other rows than the first, or the logits of all beams need memory at
    once; tests/plugin has the values of log P."""
    monkeypatch.setitem(module.LOGITS, "cpu", 4 * V)
    sizes = Dimensions(N=1, d_model=8, d_ff=12, h=2, d_k=3, d_v=5, P_drop=0.1)
    models = [create_transformer(sizes, V, V, PAD).double().eval() for _ in range(2)]
    source, kept = torch.tensor([[2, 3, 4], [3, 2, 2], [PAD, 4, 3]]), torch.tensor([0, 2])
    both, alone = (EnsembleContinuations(models, part) for part in (source, source[kept]))
    for each, B in ((both, 3), (alone, 2)):
        list(each.log_probabilities(torch.full((B, 1), END)))
        each.follow(torch.zeros(B, 2, dtype=torch.long))
    parts = list(both.log_probabilities(torch.tensor([[2], [3], [4], [2], [3], [4]])))
    assert [len(part) for part in parts] == [4, 2]
    expected = torch.cat([*alone.log_probabilities(torch.tensor([[2], [3], [3], [4]]))])
    torch.testing.assert_close(torch.cat(parts)[[0, 1, 4, 5]], expected)
    both.keep_sentences(kept)
    newest = torch.tensor([[4], [4], [2], [2]])
    found, expected = (torch.cat([*each.log_probabilities(newest)]) for each in (both, alone))
    torch.testing.assert_close(found, expected)


# (X has no closing bracket, )Y no opening one, and "(" no label: none of them may be written
ALPHABET = ("<pad>", "</s>", "<unk>", "(A", ")B", "x", "(B", ")A", "(X", "y", ")Y", "(", ")")
TREE_SYMBOLS = classify_tokens([*map(split_symbol, ALPHABET)], ALPHABET.index("</s>"))
DEEP = 100


def tree_model(B: int, seed: int = 0) -> TableModels:
    return TableModels(B, len(ALPHABET), TREE_SYMBOLS.end, seed, sharpness=2.0, part=3)


def read(tokens: Tensor | tuple[int, ...]) -> Forest:
    return tuple(ALPHABET[int(token)] for token in tokens)


def constrained(model, words, lengths, deepest=DEEP):
    sizes = torch.tensor(words), torch.tensor(lengths)
    return ConstrainedContinuations(model, TREE_SYMBOLS, *sizes, deepest)


def allowed(search: ConstrainedContinuations, newest: Tensor) -> Tensor:
    """The tokens that may follow, [R, V]; each keeps the probability of the model."""
    log_p = torch.cat(list(search.log_probabilities(newest)))
    return log_p.isfinite()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("beam", [1, 3, 400])
@pytest.mark.parametrize("deepest", [0, 1, 2, DEEP])
def test_the_search_equals_the_plain_search_over_forests(seed, beam, deepest) -> None:
    """Every sentence has its own words and budget, and probabilities are not scaled up. The widest
    beam has every forest that fits."""
    sizes = [(1, 5), (2, 6), (3, 6), (3, 3), (1, 1)]  # some with an odd number of tokens to spare
    model = tree_model(len(sizes), seed)
    if beam > 3 and seed % 2:  # all continuations of a beam may have probability 0
        model.tables[:, :, ALPHABET.index("(A")] = -math.inf
    words, lengths = map(list, zip(*sizes, strict=True))
    tokens = Symbols(end=TREE_SYMBOLS.end, padding=ALPHABET.index("<pad>"))
    options = Search(beam, 0.3, 0, nbest=beam)
    search = constrained(model, words, lengths, deepest)
    outputs = beam_search(search, torch.tensor(lengths), tokens, options)
    for b, size in enumerate(sizes):
        every = [*forests(*size, ("A", "B"), ("x", "y"), deepest)]

        def allows(tokens: tuple[int, ...], y: int, every: list[Forest] = every) -> bool:
            next_token = "" if y == TREE_SYMBOLS.end else ALPHABET[y]
            return next_token in continuations(read(tokens), every)

        forest_model = model.restricted(b, allows)
        expected = plain_beam_search(forest_model, TREE_SYMBOLS.end, beam, 0.3, size[1])[:beam]
        assert [tuple(h.tokens.tolist()) for h in outputs[b]] == [tokens for _, tokens in expected]
        scores = [score for score, _ in expected]
        assert [h.score for h in outputs[b]] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("faulty", [")A", "</s>", "<pad>", "(X", ")Y"])
def test_a_row_that_wrote_what_it_may_not_or_has_ended_stays_dead(faulty: str) -> None:
    search = constrained(tree_model(1), [1], [5])
    allowed(search, torch.tensor([[TREE_SYMBOLS.end]]))
    search.follow(torch.tensor([[0, 0]]))
    newest = torch.tensor([[ALPHABET.index(faulty)], [ALPHABET.index("(A")]])
    for token in ("x", ")A", "</s>"):
        legal = allowed(search, newest)
        assert not legal[0].any() and legal[1, ALPHABET.index(token)]
        newest = torch.full((2, 1), ALPHABET.index(token))
        search.follow(torch.tensor([[0, 1]]))
    assert not allowed(search, newest).any(), "nothing follows the end"


def test_what_no_tree_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="a tree over 5 words does not fit into 4 tokens"):
        constrained(tree_model(2), [2, 5], [9, 4])
    with pytest.raises(ValueError, match="at least 1 word, got a sentence of 0"):
        constrained(tree_model(1), [0], [9])
