"""The tasks: batches by length with each pair, or the log says why not; parsing (section 6.3)."""

import logging
import multiprocessing
import threading
from argparse import ArgumentParser, Namespace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from building import dictionary, padded, sharp_model
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.data.iterators import BackgroundConsumer
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import resolve_max_positions
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE

from fairseq_aiayn.paper import PARSING_TINY
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.parsing import AiaynParsingConfig, AiaynParsingTask
from fairseq_aiayn.plugin.translation import (
    AiaynTranslationConfig,
    AiaynTranslationTask,
    PairsByLength,
    by_length,
)
from fairseq_aiayn.treebank.repair import repair

SOURCE = "--max-source-positions 30"
LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40)


def dataset(source: np.ndarray, target: np.ndarray) -> LanguagePairDataset:
    dictionary = Dictionary()
    sides = ([torch.full((n,), 3) for n in side.tolist()] for side in (source, target))
    texts = [(tokens, lengths) for tokens, lengths in zip(sides, (source, target), strict=True)]
    (ours, s), (theirs, t) = texts
    return LanguagePairDataset(ours, s, dictionary, theirs, t, dictionary)


@given(LENGTHS)
def test_neighbours_are_alike_and_nothing_is_lost(lengths: list[tuple[int, int]]) -> None:
    """By the longer side, then by the other, which alternately ascends and descends."""
    source, target = np.array(lengths).T
    order = by_length(source, target)
    assert sorted(order.tolist()) == list(range(len(lengths)))
    longer, surplus = np.maximum(source, target)[order], (source - target)[order]
    assert (np.diff(longer) >= 0).all()
    for length in set(longer.tolist()):
        steps = np.diff(surplus[longer == length])
        assert (steps >= 0).all() if length % 2 == 0 else (steps <= 0).all()
        assert (np.diff(order[longer == length])[steps == 0] > 0).all()


def test_pairs_of_equal_lengths_keep_fairseqs_order() -> None:
    """Which is random in an epoch. Breaks, too, if pairs keep fairseq's order by the source."""
    pairs = dataset(np.array([5, 9, 5, 4]), np.array([6, 2, 6, 7]))
    pairs.ordered_indices = lambda: np.array([2, 1, 0, 3])
    assert PairsByLength(pairs).ordered_indices().tolist() == [2, 0, 3, 1]


def test_batches_say_whether_sources_are_padded() -> None:
    """Breaks if the model leaves out a mask that is needed."""
    pairs = PairsByLength(dataset(np.array([5, 5, 6]), np.array([3, 8, 8])))
    batches = [pairs.collater([pairs[i] for i in batch]) for batch in ([0, 1], [1, 2], [2])]
    assert [batch["is_padded"] for batch in batches] == [False, True, False]
    assert pairs.collater([]) == {}


def test_workers_end_with_their_epoch() -> None:
    """Breaks if they wait for another epoch of their iterator, which has only one."""
    task = AiaynTranslationTask(AiaynTranslationConfig(), Dictionary(), Dictionary())
    pairs = dataset(np.arange(3, 12), np.arange(3, 12))
    epoch = task.get_batch_iterator(pairs, max_tokens=64, num_workers=1, data_buffer_size=2)
    assert sum(batch["nsentences"] for batch in epoch.next_epoch_itr()) == 9
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            thread.join(PATIENCE)
    assert not multiprocessing.active_children()


@pytest.mark.needs_repairs
@pytest.mark.parametrize("task", [TranslationTask, AiaynTranslationTask])
@pytest.mark.parametrize(
    ("limits", "reasons"),
    [
        ({"max_tokens": 20}, ["--max-tokens 20 (2, of up to 40 tokens)"]),
        (
            {"max_tokens": 30, "max_source_positions": 30, "max_target_positions": 9},
            [f"{name} (1, of up to 40 tokens)" for name in (SOURCE, "--max-tokens 30")]
            + ["--max-target-positions 9 (2, of up to 25 tokens)"],
        ),
        ({"model": 10}, ["the model's 10 positions (3, of up to 40 tokens)"]),
        ({"multiple": 3}, ["--required-batch-size-multiple 3 (1, of up to 40 tokens)"]),
        ({"max_tokens": 40, "max_target_positions": 25}, []),
    ],
)
def test_pairs_in_no_batch_are_in_the_log_once(task, limits, reasons, caplog) -> None:
    """Breaks if an option is named whose change would change nothing."""
    caplog.set_level(logging.WARNING)
    pairs = dataset(np.array([8, 15, 22, 40]), np.array([9, 12, 25, 7]))
    positions = {name: n for name, n in limits.items() if name.endswith("positions")}
    config = AiaynTranslationConfig if task is AiaynTranslationTask else TranslationConfig
    loaded = task(config(train_subset="train", **positions), Dictionary(), Dictionary())
    loaded.datasets["train"] = pairs
    model, tokens = limits.get("model"), limits.get("max_tokens")
    sizes = {"required_batch_size_multiple": limits.get("multiple", 1), "max_tokens": tokens}
    sizes["max_positions"] = resolve_max_positions(loaded.max_positions(), model, tokens)
    options = {"ignore_invalid_inputs": True, "max_sentences": 4}
    for epoch in (1, 2):
        loaded.get_batch_iterator(pairs, **sizes, **options, epoch=epoch)
    lines = [line for line in caplog.messages if "left out" in line]
    assert len(lines) == bool(reasons)
    for line in lines:
        said, _, given = line.partition(" are left out by ")
        assert said.startswith("train: ") and said.endswith(" of 4 pairs")
        assert sorted(given.split("; ")) == sorted(reasons)


@pytest.mark.needs_repairs
def test_a_set_without_pairs_that_are_left_is_refused() -> None:
    task = TranslationTask(TranslationConfig(max_source_positions=9), Dictionary(), Dictionary())
    pairs = task.datasets["test"] = dataset(np.array([8, 40]), np.array([9, 7]))
    with pytest.raises(ValueError, match="2 of 2 pairs are left out by"):
        task.get_batch_iterator(pairs, max_positions=(5, 5), ignore_invalid_inputs=True)


# "▁a" to "▁h" begin a word, "s" and "t" continue one; "madeupword0000" is fairseq's filler
PIECES = [*(f"\u2581{letter}" for letter in "abcdefgh"), "s", "t"]
SYMBOLS = ["(NP", ")NP", "(S", ")S", "(VP", ")VP", "NN", "VB", "-LRB-", "madeupword0000"]


def task(constrained=True, pieces=PIECES, symbols=SYMBOLS):
    config = AiaynParsingConfig(constrained=constrained)
    return AiaynParsingTask(config, dictionary(pieces), dictionary(symbols))


def build_model(task: AiaynParsingTask, seed: int) -> AiaynModel:
    sizes = {"encoder_layers": 1, "encoder_ffn_embed_dim": 16, "d_v": 8}
    return sharp_model(task, PARSING_TINY, seed, 2.0, **sizes)


def sample(task: AiaynParsingTask, words: tuple[int, ...], seed: int = 0) -> dict:
    """A batch of sentences with these numbers of words, of one or two pieces each."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for n in words:
        row: list[int] = []
        for _ in range(n):
            row.append(int(torch.randint(4, 12, (), generator=generator)))
            if torch.rand((), generator=generator) < 0.5:
                row.append(int(torch.randint(12, 14, (), generator=generator)))
        rows.append(row)
    tokens = padded(rows, task.source_dictionary)
    return {"id": torch.arange(len(rows)), "net_input": {"src_tokens": tokens}}


def parse(task, models, batch, words, **options):
    generator = task.build_generator(models, Namespace(**options))
    return [
        [
            repair([task.target_dictionary[t] for t in h["tokens"][:-1]], ["w"] * max(n, 1))
            for h in hypotheses
        ]
        for hypotheses, n in zip(generator.generate(models, batch), words, strict=True)
    ]


WORDS = (3, 1, 7, 5, 0)


@pytest.mark.parametrize(("seeds", "max_len_b"), [((0,), 3), ((1,), 17), ((1, 2), 8)])
def test_only_constrained_outputs_of_random_models_need_no_repair(seeds, max_len_b):
    for constrained in (True, False):  # without the constraint, these models write no tree
        parsing = task(constrained)
        models = [build_model(parsing, seed) for seed in seeds]
        batch = sample(parsing, WORDS, seeds[0])
        found = parse(parsing, models, batch, WORDS, beam=5, max_len_b=max_len_b)
        assert all(found)
        assert {one.well_formed for sentence in found for one in sentence} == {constrained}


def test_defaults_are_section_6_3s_and_translations_stay_6_1s():
    parsing = task()
    generator = parsing.build_generator([build_model(parsing, 0)], Namespace())
    assert (generator.options.beam, generator.options.alpha) == (21, 0.3)
    tokens = sample(parsing, (4,))["net_input"]["src_tokens"]
    pieces = tokens.numel() - 1
    longest = generator.options.max_lengths(tokens, generator.source_symbols)
    assert longest.tolist() == [pieces + 300]
    names = ("beam", "lenpen", "max_len_a", "max_len_b", "required_batch_size_multiple")
    papers = {AiaynParsingTask: [21, 0.3, 1, 300, 1], AiaynTranslationTask: [4, 0.6, 1, 50, 1]}
    for kind, values in papers.items():
        parser = ArgumentParser()
        kind.add_args(parser)
        defaults = vars(parser.parse_args(["data"]))
        assert [defaults[name] for name in names] == values


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        ({"symbols": ["NN", "VB"]}, {}, "no label has both"),
        ({"symbols": ["(NP", ")NP"]}, {}, "no target token stands"),
        ({"pieces": "abcdefghij"}, {}, "no source token begins a word"),
        ({}, {"min_len": 4}, "--min-len"),
        ({}, {"prefix_size": 1}, "--prefix-size"),
    ],
)
def test_what_the_constraint_cannot_work_with_is_refused(changed, options, message):
    with pytest.raises(ValueError, match=message):
        task(**changed).build_generator([], Namespace(**options))
    task(constrained=False, **changed).build_generator([], Namespace(**options))


def test_trees_are_read_with_the_development_set(tmp_path, monkeypatch):
    monkeypatch.setattr(TranslationTask, "load_dataset", lambda *_, **__: None)
    config = AiaynParsingConfig(data=str(tmp_path), train_subset="train", eval_f1=True)
    parsing = AiaynParsingTask(config, dictionary(PIECES), dictionary(SYMBOLS))
    parsing.datasets = {"train": SimpleNamespace(tgt=None), "valid": [0]}
    parsing.load_dataset("train")
    with pytest.raises(FileNotFoundError, match=r"held_out/valid\.words"):
        parsing.load_dataset("valid")
    (tmp_path / "held_out").mkdir()
    (tmp_path / "held_out" / "valid.words").write_text("1\u00a0000 francs\n", encoding="utf-8")
    tree = "(TOP (NP (CD 1\u00a0000) (NNS francs)))"
    (tmp_path / "held_out" / "valid.trees").write_text(f"{tree}\n", encoding="utf-8")
    parsing.load_dataset("valid")
    assert parsing.development_trees == [(["1\u00a0000", "francs"], tree)]


def test_f1_of_a_subset_whose_trees_are_not_known_is_refused():
    task = SimpleNamespace(cfg=SimpleNamespace(eval_f1=True, train_subset="train"))
    with pytest.raises(ValueError, match=r"^--eval-f1: expected the subset valid, .*, got test"):
        AiaynParsingTask.load_dataset(task, "test")
