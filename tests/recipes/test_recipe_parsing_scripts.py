"""The scripts of recipes/wsj_parsing: which trees, what is made of them, and their vocabularies."""

import ast
import gzip
import importlib.util
import json
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import recipe_runs
import sentencepiece
import treebanks
from hypothesis import given
from hypothesis import strategies as st
from invented_trees import forms
from recipe_runs import RECIPES, lines_of, refusal

from fairseq_aiayn.corpus import subwords
from fairseq_aiayn.treebank.linearization import source_text

RECIPE = RECIPES / "wsj_parsing"
GUM = RECIPE / "gum"
BEGINS = "\u2581"


def script(name: str, *arguments: object, text: str = "") -> subprocess.CompletedProcess:
    return recipe_runs.script(RECIPE / name, *arguments, text=text)


# --- list_trees.py ---


def test_sections_02_to_21_train_22_chooses_and_23_tests(tmp_path):
    treebank, output = treebanks.write_treebank(tmp_path / "wsj"), tmp_path / "lists"
    done = script("list_trees.py", "--treebank", treebank, "--output", output)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "train: 20 files, valid: 1 files, test: 1 files\n"
    train = ["02/wsj_0201.mrg.gz", *(f"{n:02}/wsj_{n:02}01.mrg" for n in range(3, 22))]
    assert lines_of(output / "train") == [f"{treebank}/{file}" for file in train]
    assert lines_of(output / "valid") == [f"{treebank}/22/wsj_2201.mrg"]
    assert lines_of(output / "test") == [f"{treebank}/23/wsj_2301.mrg"]
    assert sorted(path.name for path in output.iterdir()) == ["test", "train", "valid"]


def test_capitals_as_old_disks_have_them_name_trees_too(tmp_path):
    treebank, output = treebanks.write_treebank(tmp_path / "wsj"), tmp_path / "lists"
    for name in ("22/wsj_2201.mrg", "02/wsj_0201.mrg.gz"):
        (treebank / name).rename((treebank / name).with_name(Path(name).name.upper()))
    assert script("list_trees.py", "--treebank", treebank, "--output", output).returncode == 0
    assert lines_of(output / "valid") == [f"{treebank}/22/WSJ_2201.MRG"]
    assert lines_of(output / "train")[0] == f"{treebank}/02/WSJ_0201.MRG.GZ"
    options = ("--tags", "XX", "--list", output / "train", "--output", tmp_path / "trees")
    done = script("write_trees.py", *options)
    assert done.stdout == f"trees: {20 * treebanks.PER_SECTION} trees\n", done.stderr


def test_a_missing_section_is_named(tmp_path):
    wsj = treebanks.write_treebank(tmp_path / "wsj")
    (wsj / "14" / "wsj_1401.mrg").rename(wsj / "14" / "wsj_1401.mrg.orig")
    done = script("list_trees.py", "--treebank", wsj, "--output", tmp_path / "lists")
    assert refusal(done) == f"list_trees: {wsj}: must have files 14/*.mrg, has none"
    assert not (tmp_path / "lists").exists()


def test_lists_say_what_is_in_which_set(tmp_path):
    write_lists(tmp_path, "b.ptb\n\n  sub/a.ptb \n", "c.ptb\n", "d.ptb")
    done = script(*list_command(tmp_path))
    assert (done.returncode, done.stdout) == (0, "train: 2 files, valid: 1 files, test: 1 files\n")
    trees, lists = tmp_path / "trees", tmp_path / "output"
    assert lines_of(lists / "train") == [f"{trees}/b.ptb", f"{trees}/sub/a.ptb"]
    assert lines_of(lists / "test") == [f"{trees}/d.ptb"]


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("a", "sub/../a", "sub/../a: must be in one list once, is in train and test"),
        ("a\na", "b", "a: must be in one list once, is in train and train"),
        ("\n \n", "b", "{}/lists/train: must name at least one file"),
        ("a", "absent", "[Errno 2] No such file or directory: '{}/trees/absent'"),
        ("a", "sub", "{}/lists/test: must name files, sub is a directory"),
        ("a", ".", "{}/lists/test: must name files, . is a directory"),
    ],
)
def test_lists_that_are_not_of_different_files_are_refused(tmp_path, train, test, message):
    write_lists(tmp_path, train, "c", test)
    (tmp_path / "trees" / "absent").unlink(missing_ok=True)
    done = script(*list_command(tmp_path))
    assert refusal(done) == f"list_trees: {message.format(tmp_path)}"
    assert not (tmp_path / "output").exists()


def test_only_line_feeds_part_the_paths_of_a_list(tmp_path):
    write_lists(tmp_path, "a\u2028b c\u0085.ptb\nd", "e", "f")
    assert script(*list_command(tmp_path)).returncode == 0
    trees, written = tmp_path / "trees", tmp_path / "output" / "train"
    assert written.read_text() == f"{trees}/a\u2028b c\u0085.ptb\n{trees}/d\n"
    for name in ("a\u2028b c\u0085.ptb", "d"):
        (trees / name).write_text("(NP (NN x))")
    options = ("--tags", "XX", "--list", written, "--output", tmp_path / "x")
    assert script("write_trees.py", *options).stdout == "x: 2 trees\n"


def test_a_missing_list_is_named(tmp_path):
    write_lists(tmp_path, "a", "b", "c")
    (tmp_path / "lists" / "valid").unlink()
    assert f"No such file or directory: '{tmp_path}/lists/valid'" in refusal(
        script(*list_command(tmp_path))
    )


def write_lists(directory: Path, train: str, valid: str, test: str) -> None:
    """Write lists and every file that they name."""
    (directory / "lists").mkdir()
    (directory / "trees" / "sub").mkdir(parents=True)
    for name, text in (("train", train), ("valid", valid), ("test", test)):
        (directory / "lists" / name).write_text(text)
        for file in filter(None, map(str.strip, text.split("\n"))):
            if not (directory / "trees" / file).is_dir():
                (directory / "trees" / file).touch()


def list_command(directory: Path) -> list[object]:
    options = ("--treebank", directory / "trees", "--lists", directory / "lists")
    return ["list_trees.py", *options, "--output", directory / "output"]


def test_gums_lists_share_its_files_but_those_without_words():
    lists = [lines_of(GUM / name) for name in ("train", "valid", "test")]
    files = [line.split("  ")[1] for line in lines_of(GUM / "sha256")]
    named = [file for names in lists for file in names]
    assert len(set(named)) == len(named)
    assert sorted(named) == sorted(files)
    assert not [file for file in files if "reddit" in file]
    assert [len(names) for names in lists] == [177, 30, 30]
    # Every genre is developed and tested on, too.
    genres = [{file.split("_")[1] for file in names} for names in lists]
    assert genres[0] == genres[1] == genres[2]


# --- write_trees.py ---

BANK = """\
( (S (NP-SBJ-1 (DT the) (NN board) )
    (VP (VBD was)
      (VP (VBN moved)
        (NP (-NONE- *-1) )
        (PP-DIR=2 (-LRB- -LRB-) (TO to)
          (NP (NNP Ba\u2581ke\u00a0Li) ) (-RRB- -RRB-) ) )) (. .) ))
(ROOT (NP (CD 1\\/2)))  (TOP (UH no))
"""
TREES = [
    (
        "(TOP (S (NP (DT the) (NN board)) (VP (VBD was) (VP (VBN moved) (PP (-LRB- -LRB-) (TO to)"
        " (NP (NNP Ba\u2581ke\u00a0Li)) (-RRB- -RRB-)))) (. .)))"
    ),
    "(TOP (NP (CD 1\\/2)))",
    "(TOP (UH no))",
]
SYMBOLS = [
    "(S (NP DT NN )NP (VP VBD (VP VBN (PP -LRB- TO (NP NNP )NP -RRB- )PP )VP )VP . )S",
    "(NP CD )NP",
    "UH",
]


@pytest.fixture
def write(tmp_path):
    """Return a function that writes text to a file and its trees to OUTPUT, and the directory."""

    def run(text: str | bytes, *options: str, name: str = "bank.mrg"):
        file = tmp_path / name
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        output = tmp_path / "trees" / "train"
        return script("write_trees.py", *options, "--output", output, file)

    return run, tmp_path / "trees"


def test_trees_words_and_symbols_are_written_line_for_line(write):
    run, trees = write
    done = run(BANK, "--tags", "pos")
    assert (done.returncode, done.stdout, done.stderr) == (0, "train: 3 trees\n", "")
    assert lines_of(trees / "train.trees") == TREES
    assert lines_of(trees / "train.words") == [
        "the board was moved -LRB- to Ba\u2581ke\u00a0Li -RRB- .",
        "1\\/2",
        "no",
    ]
    # A piece that begins with U+2581 must begin a word, and fairseq splits at any white space.
    assert lines_of(trees / "train.text")[0] == "the board was moved -LRB- to Ba_ke_Li -RRB- ."
    assert lines_of(trees / "train.tree") == SYMBOLS
    assert len(list(trees.iterdir())) == 4


def test_one_symbol_can_stand_for_every_word(write):
    run, trees = write
    assert run(BANK, "--tags", "XX").returncode == 0
    assert lines_of(trees / "train.tree") == [
        "(S (NP XX XX )NP (VP XX (VP XX (PP XX XX (NP XX )NP XX )PP )VP )VP XX )S",
        "(NP XX )NP",
        "XX",
    ]
    assert lines_of(trees / "train.trees") == TREES  # what is scored keeps its tags


@pytest.mark.parametrize(("longest", "kept"), [(21, (0, 1, 2)), (20, (1, 2)), (2, (2,))])
def test_longer_trees_are_left_out_of_every_file(write, longest, kept):
    run, trees = write
    assert len(SYMBOLS[0].split()) == 21
    done = run(BANK, "--tags", "pos", "--longest", str(longest))
    assert done.stdout == f"train: {len(kept)} trees, {3 - len(kept)} left out as too long\n"
    assert lines_of(trees / "train.tree") == [SYMBOLS[k] for k in kept]
    assert lines_of(trees / "train.trees") == [TREES[k] for k in kept]
    assert len(lines_of(trees / "train.words")) == len(lines_of(trees / "train.text")) == len(kept)


def test_lists_and_files_are_read_one_after_the_other(write, tmp_path):
    run, trees = write
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"(NP (NN a))"))
    (tmp_path / "b").write_text("(NP (NN b))")
    (tmp_path / "list").write_text(f"{tmp_path}/b\n{tmp_path}/a.gz\n")
    done = run("(NP (NN first))", "--tags", "pos", "--list", str(tmp_path / "list"))
    assert done.returncode == 0, done.stderr
    assert lines_of(trees / "train.words") == ["first", "b", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{BANK}\n( (S (NP (NN x))", "bank.mrg:9: "),
        (f"{BANK}(S (NN x)))", "bank.mrg:8: "),
        (f"{BANK}(S (NN ".encode() + b"\xff))", "bank.mrg:8: "),
        (f"{BANK}( (S (NP (-NONE- *)) ))", "bank.mrg: tree 4: a tree must have a word besides"),
        ("", "train: must have at least one tree, has none"),
    ],
)
def test_a_bad_tree_is_named_and_leaves_nothing_that_could_be_taken_for_whole(write, text, message):
    run, trees = write
    line = refusal(run(text, "--tags", "pos"))
    assert message in line and line.startswith("write_trees: ")
    assert not list(trees.iterdir())


def test_a_missing_file_and_a_cut_archive_are_named(write, tmp_path):
    run, _ = write
    whole = gzip.compress(BANK.encode() * 100)
    assert f"{tmp_path}/bank.gz:" in refusal(run(whole[:-20], "--tags", "pos", name="bank.gz"))
    done = script("write_trees.py", "--tags", "pos", "--output", tmp_path / "x", tmp_path / "no")
    assert f"No such file or directory: '{tmp_path}/no'" in refusal(done)
    assert not list(tmp_path.glob("x.*[!t]"))


# --- augment.py ---

FOUND = "(TOP (S (NP (NP (DT a) (NN dog)) (PP (IN of) (NP (NNP Bo)))) (VP (VP (VB go) (RB off)))))"
CAT = "(TOP (FRAG (NP (DT a) (NN cat))) (. .))"


def augmented(tmp_path: Path, *trees: str) -> list[str]:
    """Return the lines that augment.py makes of these trees."""
    (tmp_path / "trees").write_text("".join(f"{tree}\n" for tree in trees))
    made = tmp_path / "made"
    done = script("augment.py", "--output", made, tmp_path / "trees")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return lines_of(made)


def test_phrases_have_two_words_or_more_and_come_once_for_the_same_words(tmp_path):
    made = augmented(tmp_path, FOUND, CAT, FOUND)
    assert sorted(made[:5]) == [
        "(TOP (FRAG (NP (DT a) (NN cat))))",  # not also the NP that has the same words
        "(TOP (NP (DT a) (NN dog)))",
        "(TOP (NP (NP (DT a) (NN dog)) (PP (IN of) (NP (NNP Bo)))))",
        "(TOP (PP (IN of) (NP (NNP Bo))))",
        "(TOP (VP (VP (VB go) (RB off))))",
    ]
    assert len(made) == 5 + 9  # and three pairs for each of the three trees


def test_pairs_are_two_sentences_one_after_the_other(tmp_path):
    sentences = [f"(TOP (S (NN {name}) (. .)))" for name in "abcdefghij"]
    inside = [tree.removeprefix("(TOP ").removesuffix(")") for tree in sentences]
    made = augmented(tmp_path, *sentences)
    assert len(made) == 30 and len(set(made)) > 15
    assert set(made) <= {f"(TOP {first} {second})" for first in inside for second in inside}
    assert augmented(tmp_path, *sentences) == made


def test_pairs_are_of_80_words_at_most(tmp_path):
    short, long = (f"(TOP (X{' (NN x)' * words}))" for words in (39, 41))
    made = augmented(tmp_path, *[short, long] * 20)
    words = Counter(line.count("(NN") for line in made)
    assert set(words) == {78, 80} and 80 < words.total() < 120


def test_trees_made_of_trees_are_trained_on_like_others(tmp_path):
    output = tmp_path / "trees"
    augmented(tmp_path, CAT)
    script("write_trees.py", "--tags", "pos", "--output", output, tmp_path / "made")
    assert lines_of(tmp_path / "trees.tree") == [
        "(FRAG (NP DT NN )NP )FRAG",
        *["(FRAG (NP DT NN )NP )FRAG . (FRAG (NP DT NN )NP )FRAG ."] * 3,
    ]
    assert lines_of(tmp_path / "trees.text") == ["a cat", *["a cat . a cat ."] * 3]


# --- vocabularies.py ---

SYMBOLS_SEEN = ("(S", ")S", "(NP", ")NP", "NN", "-LRB-", ".", "''", "PRP$")


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory) -> Path:
    """A directory with trees and, in pieces, the vocabularies made of them."""
    directory = tmp_path_factory.mktemp("vocabularies")
    rng = random.Random(7)
    (directory / "trees").mkdir()
    for name, count in (("train", 300), ("silver", 100)):
        words = [[treebanks.word(rng) for _ in range(6)] for _ in range(count)]
        text = "".join(source_text([*line, "é_ж", "12.5"]) + "\n" for line in words)
        (directory / "trees" / f"{name}.text").write_text(text)
        (directory / "trees" / f"{name}.words").write_text(text)
        symbols = [rng.choices(SYMBOLS_SEEN, k=9) for _ in range(count)]
        tree = "".join(" ".join(line) + "\n" for line in symbols)
        (directory / "trees" / f"{name}.tree").write_text(tree)
    done = script("vocabularies.py", *vocabulary_options(directory, directory / "pieces"))
    assert done.returncode == 0, done.stderr
    sizes = r"(\d+) word pieces, (\d+) symbols of trees\n"
    assert re.fullmatch(sizes, done.stdout)[2] == str(len(SYMBOLS_SEEN))
    assert done.stderr.splitlines()[0] == "learning from 400 of 400 sentences"
    return directory


def vocabulary_options(directory: Path, output: Path, sample: int = 1000) -> list[object]:
    gold, silver = directory / "trees" / "train", directory / "trees" / "silver"
    options = ("--vocabulary", 120, "--sample", sample, "--output", output)
    return ["--gold", gold, "--silver", silver, *options]


def known(directory: Path, side: str) -> list[str]:
    """Return the symbols of one of fairseq's dictionaries."""
    lines = lines_of(directory / "pieces" / f"dict.{side}.txt")
    return [line.rsplit(" ", 1)[0] for line in lines]


def cut(directory: Path, line: str) -> list[str]:
    """Return the pieces of a line, split as fairseq does."""
    return subwords.sentence_pieces(directory / "pieces" / "pieces.model")(line).split()


def test_every_piece_of_the_model_is_in_fairseqs_dictionary(vocabularies):
    model = sentencepiece.SentencePieceProcessor(str(vocabularies / "pieces" / "pieces.model"))
    learned = [model.id_to_piece(index) for index in range(len(model))]
    control = {"<unk>", "<s>", "</s>"}
    assert control < set(learned) and len(learned) == 120
    found = known(vocabularies, "words")
    assert found == [piece for piece in learned if piece not in control]
    for line in lines_of(vocabularies / "trees" / "train.text")[:50]:
        assert set(cut(vocabularies, line)) <= set(found)


def test_symbols_of_trees_are_whole_and_the_most_frequent_come_first(vocabularies):
    lines = [line.rsplit(" ", 1) for line in lines_of(vocabularies / "pieces" / "dict.tree.txt")]
    assert {symbol for symbol, _ in lines} == set(SYMBOLS_SEEN)
    counts = [int(count) for _, count in lines]
    assert counts == sorted(counts, reverse=True) and sum(counts) == 400 * 9


@given(st.lists(forms | st.sampled_from(["the", "Bake", "ц中", "\u3000", "▁▁"]), min_size=1))
def test_as_many_pieces_begin_with_u2581_as_there_are_words(vocabularies, words):
    # fairseq splits at any white space and takes what is not in its dictionary for <unk>.
    found = set(known(vocabularies, "words"))
    beginning = [
        piece in found and piece[0] == BEGINS for piece in cut(vocabularies, source_text(words))
    ]
    assert beginning[0]
    assert sum(beginning) == len(words)


def test_the_same_text_gives_the_same_bytes(vocabularies, tmp_path):
    again = script("vocabularies.py", *vocabulary_options(vocabularies, tmp_path / "again"))
    assert again.returncode == 0
    names = sorted(path.name for path in (tmp_path / "again").iterdir())
    assert names == ["dict.tree.txt", "dict.words.txt", "pieces.model"]
    for name in names:
        whole = (vocabularies / "pieces" / name).read_bytes()
        assert (tmp_path / "again" / name).read_bytes() == whole


def test_a_sample_is_taken_evenly_and_a_wrong_number_refused(vocabularies, tmp_path):
    some = script("vocabularies.py", *vocabulary_options(vocabularies, tmp_path / "some", 150))
    assert some.stderr.splitlines()[0] == "learning from 134 of 400 sentences"
    tree = (tmp_path / "some" / "dict.tree.txt").read_bytes()
    assert tree == (vocabularies / "pieces" / "dict.tree.txt").read_bytes()  # of all of it
    none = script("vocabularies.py", *vocabulary_options(vocabularies, tmp_path / "none", 0))
    assert refusal(none) == "vocabularies: sample must be at least 1 sentence, got 0"
    options = vocabulary_options(vocabularies, tmp_path / "none")
    options[options.index("--vocabulary") + 1] = 5
    assert "vocabularies: sentencepiece: " in script("vocabularies.py", *options).stderr
    assert not (tmp_path / "none").exists()


# --- count_trees.py, search_seconds.py ---


def test_trees_that_are_trained_on_are_counted(tmp_path):
    (tmp_path / "train.tree").write_text("UH\nNN\n")
    options = ("--trees", tmp_path, "--tags", "XX")
    counts = {"gold": 2, "silver": 0, "augmented": 0, "tags": "XX"}
    assert json.loads(script("count_trees.py", *options).stdout) == counts
    (tmp_path / "silver.tree").write_text("UH\u2028\n" * 5)
    (tmp_path / "augmented.tree").write_text("UH UH\n" * 3)
    counts |= {"silver": 5, "augmented": 3}
    assert json.loads(script("count_trees.py", *options).stdout) == counts
    (tmp_path / "train.tree").unlink()
    message = f"count_trees: {tmp_path}/train.tree: must have a line, has none"
    assert refusal(script("count_trees.py", *options)) == message


def test_the_time_of_a_search_is_what_fairseqs_own_line_says_last():
    package = Path(importlib.util.find_spec("fairseq_cli").submodule_search_locations[0])
    source = ast.parse((package / "generate.py").read_text())
    texts = [node.value for node in ast.walk(source) if isinstance(node, ast.Constant)]
    (line,) = [text for text in texts if str(text).startswith("Translated ")]
    said = [line.format(*numbers) for numbers in ((5, 9, 1, 1, 1), (1416, 98_765, 1234.56, 1, 1))]
    log = "".join(f"INFO:fairseq_cli.generate:{text}\n" for text in said)
    done = script("search_seconds.py", text=f"killed here:\n{log}done\n")
    assert json.loads(done.stdout) == {"sentences": 1416, "seconds": 1234.6}
    message = "must be a log of fairseq-generate, has no line 'Translated …'"
    assert refusal(script("search_seconds.py", text="D-0")) == f"search_seconds: {message}"
