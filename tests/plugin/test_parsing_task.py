"""The parsing task: the search of section 6.3, the names of the languages, and trees over exactly
the words of the source."""

from argparse import ArgumentParser, Namespace
from types import SimpleNamespace

import pytest
import torch
from building import dictionary, padded, sharp_model
from fairseq.tasks.translation import TranslationTask

import fairseq_aiayn.plugin  # noqa: F401
from fairseq_aiayn.paper import PARSING_TINY
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.parsing import AiaynParsingConfig, AiaynParsingTask
from fairseq_aiayn.plugin.translation import AiaynTranslationTask
from fairseq_aiayn.treebank.repair import repair

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
    """Every hypothesis of every sentence, repaired if necessary."""
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
    """Breaks, too, if an empty line ends the whole command."""
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
    """Breaks if a missing file ends a training only at its first validation, or if a word with a
    no-break space becomes two: its sentence would not count."""
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
    """Breaks if another subset is measured against the trees of the development set."""
    task = SimpleNamespace(cfg=SimpleNamespace(eval_f1=True, train_subset="train"))
    with pytest.raises(ValueError, match=r"^--eval-f1: expected the subset valid, .*, got test"):
        AiaynParsingTask.load_dataset(task, "test")
