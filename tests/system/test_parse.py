"""Parsing (section 6.3): preprocess, train, generate, `aiayn parse`, on an invented treebank."""

import json
import re
from itertools import product

import pytest
from fairseq import options
from fairseq_cli import preprocess
from fairseq_commands import PLUGIN, SMALL

from fairseq_aiayn.corpus.subwords import fairseq_dictionary, learn, sentence_pieces
from fairseq_aiayn.treebank.evalb import score_sentence, summarize
from fairseq_aiayn.treebank.linearization import linearize, source_text
from fairseq_aiayn.treebank.trees import parse_trees, words_of, write_tree

pytestmark = pytest.mark.needs_repairs

UPDATES, EARLY = 150, 15  # after EARLY updates, most parses are wrong
NAMES, VERBS, THINGS = ("Ada", "Ben", "Cleo"), ("saw", "drew"), ("cat", "tree", "moon", "boat")
TEMPLATES = (
    "(TOP (S (NP (NNP {name})) (VP (VBD {verb}) (NP (DT the) (NN {thing}))) (. .)))",
    "(TOP (S (NP (DT the) (NN {thing})) (VP (VBD fell)) (. .)))",
    "(TOP (S (NP (NNP {name})) (VP (VBD {verb}) (NP (DT a) (JJ red) (NN {thing}))) (. !)))",
)
PARTS = product(TEMPLATES, NAMES, VERBS, THINGS)
LINES = [one.format(name=name, verb=verb, thing=thing) for one, name, verb, thing in PARTS]
TREES = list(parse_trees(LINES, "invented"))
SENTENCES = [[word.form for word in words_of(tree)] for tree in TREES]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The treebank as fairseq-preprocess writes it, with the word pieces next to it."""
    folder = tmp_path_factory.mktemp("treebank")
    texts = [*map(source_text, SENTENCES)]
    model = learn(texts, 40, "identity")
    (folder / "dict.txt").write_text(fairseq_dictionary(model))
    (folder / "pieces.model").write_bytes(model)
    cut = [*map(sentence_pieces(folder / "pieces.model"), texts)]
    sequences = [" ".join(linearize(tree, "pos")) for tree in TREES]
    for part, every in (("train", 1), ("valid", 12), ("test", 6)):
        for name, lines in (("words", cut), ("tree", sequences)):
            (folder / f"{part}.{name}").write_text("\n".join(lines[::every]) + "\n")
    arguments = [f"--{part}pref={folder / part}" for part in ("train", "valid", "test")]
    arguments += ["-s", "words", "-t", "tree", "--destdir", f"{folder / 'bin'}"]
    arguments += ["--srcdict", f"{folder / 'dict.txt'}"]
    preprocess.main(options.get_preprocessing_parser().parse_args(arguments))
    (folder / "pieces.model").rename(folder / "bin" / "pieces.model")
    held_out = folder / "bin" / "held_out"  # as the recipe writes it
    held_out.mkdir()
    for name, lines in (("words", map(" ".join, SENTENCES)), ("trees", map(write_tree, TREES))):
        (held_out / f"valid.{name}").write_text("\n".join([*lines][::12]) + "\n")
    return folder / "bin"


@pytest.fixture(scope="module")
def training(tmp_path_factory, run, data):
    """The log of a training, its model that has begun to learn, and the one that has learned."""
    folder = tmp_path_factory.mktemp("parser")
    done = run(
        *("fairseq-train", data, *PLUGIN, *SMALL, "--save-dir", folder, "--task", "aiayn_parsing"),
        *("--arch", "aiayn_parsing_tiny", "--max-tokens", "1024"),
        *("--warmup-updates", "50", "--lr-factor", "1"),
        *("--max-update", str(UPDATES), "--no-epoch-checkpoints", "--validate-interval", "1000"),
        *("--eval-f1", "--save-interval-updates", str(EARLY)),
    )
    (early,) = folder.glob(f"checkpoint_*_{EARLY}.pt")
    return done.stdout + done.stderr, early, folder / "checkpoint_last.pt"


def test_the_log_of_a_training_has_the_f1_of_greedy_parses(training, data, aiayn):
    log, early, checkpoint = training
    validations = [json.loads(line) for line in re.findall(r'\{.*"valid_f1".*\}', log)]
    logged = {int(one["valid_num_updates"]): float(one["valid_f1"]) for one in validations}
    gold = [write_tree(tree) for tree in TREES[::12]]
    lines = [*map(" ".join, SENTENCES[::12])]
    for path, updates in ((early, EARLY), (checkpoint, UPDATES)):
        given = ("--checkpoint", path, "--data-bin", data, "--cpu", "--beam", "1", "--tokenized")
        _, out, _ = aiayn("parse", *given, *lines)
        f1 = summarize(map(score_sentence, gold, out.splitlines())).all.f1
        assert logged[updates] == round(f1, 2) and f1 > 0


def test_the_command_parses_what_it_has_learned_in_order(training, data, aiayn, give, tmp_path):
    """With a checkpoint as with the folder that it becomes."""
    chosen = (0, -1, 30, 5)
    lines = [" ".join(SENTENCES[number]) for number in chosen]
    lines[2:2] = ["", "  "]
    expected = [write_tree(TREES[number]) for number in chosen]
    expected[2:2] = ["", ""]
    checkpoint = ("--checkpoint", training[-1], "--data-bin", data)
    assert aiayn("export", *checkpoint, "--output", tmp_path / "folder")[0] == 0
    for model in (("--model", tmp_path / "folder"), checkpoint):
        given = (*model, "--cpu", "--beam", "4")
        for more in ((), ("--tokenized",), ("--constrained",)):
            status, out, _ = aiayn("parse", *given, *more, *lines)
            assert (status, out.split("\n")) == (0, [*expected, ""])
    give("\n".join(lines))
    assert aiayn("parse", *given, "--batch-tokens", 9)[1].split("\n") == [*expected, ""]
    symbols = aiayn("parse", *given, "--linearised", lines[0])[1].split()
    assert symbols == linearize(TREES[0], "pos")
    drawn = aiayn("parse", *given, "--pretty", lines[0])[1].split("\n")
    assert drawn[0].strip() == "TOP" and drawn[-3].split() == lines[0].split()
    assert drawn[-2:] == ["", ""], "an empty line between trees"
