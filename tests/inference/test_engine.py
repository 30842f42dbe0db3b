"""Each sentence has its output in its place, whatever the batches."""

from collections.abc import Iterator
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_aiayn.inference.engine import Engine, pieces_of


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 30), st.integers(1, 25))
def test_an_engine_maps_each_sentence_in_its_place(lengths, batch_tokens, at_once):
    """The error of a sentence, here of more than 7 tokens, comes after the outputs before it."""

    def read(sentence: tuple[int, int]) -> tuple[int, int]:
        if sentence[1] > 7:
            raise ValueError("too long")
        return sentence

    def run(batch: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        assert len(batch) == 1 or len(batch) * max(n for _, n in batch) <= batch_tokens
        return iter(batch)

    sentences = [*enumerate(lengths, start=1)]
    engine = Engine(read, run, lambda: "empty", batch_tokens, itemgetter(1))
    expected = ["too long" if one[1] > 7 else one if one[1] else "empty" for one in sentences]
    outputs = engine.outputs(sentences, at_once)
    assert [str(o) if isinstance(o, ValueError) else o for o in outputs] == expected
    stream = engine.stream(sentences, at_once)
    before = expected.index("too long") if "too long" in expected else len(expected)
    assert [next(stream) for _ in range(before)] == expected[:before]
    if before == len(expected):
        assert engine(sentences) == expected
    else:
        with pytest.raises(ValueError, match=f"^sentence {before + 1}: too long"):
            next(stream)


def test_a_text_too_long_for_its_tokens_is_refused_before_it_is_cut():
    """Cutting takes seconds; white space and words that are not cut may be of any length."""
    for text in ("a" * 300_000, "a b " * 100_000):
        with pytest.raises(ValueError, match="at most 1,024 tokens, got [23]00,000 characters"):
            pieces_of(text, pytest.fail, 1_024)
    assert pieces_of(" " * 300_000 + "a", str.strip, 1_024) == "a"
    assert pieces_of("a" * 300_000, str.split, 1_024) == ["a" * 300_000]
