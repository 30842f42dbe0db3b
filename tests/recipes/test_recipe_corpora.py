"""What the demo takes from the help, what is made of a text of one's own; further trees."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import augment
import own_text
import prepare
import pytest
from recipe_runs import lines_of, script

from fairseq_aiayn.treebank.trees import parse_trees, words_of, write_tree

LANGUAGES = ("en", "de")


def page(*blocks: str) -> bytes:
    return f"<html><body>{''.join(blocks)}</body></html>".encode()


def write_pages(root: Path, name: str, english: bytes, german: bytes) -> None:
    for directory, content in (("en-US", english), ("de", german)):
        path = root / directory / "text" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_help_text_is_what_a_reader_sees():
    content = page(
        '<h1 id="hd_id1">A <b>bold</b><br>title</h1>',
        '<p id="par_id2">Press <span id="switch"><span hidden="true" id="MAC1">Command</span>'
        '<span hidden="true" id="default1">Ctrl</span></span>+N.<!-- not this --></p>',
        '<p id="par_id3" hidden="true">never</p>',
        *(f'<p id="par_{c}" class="{c}">x</p>' for c in ("code", "example", "imageintable")),
        '<p id="bm_id5">no paragraph</p><p>no id</p>',
        '<p id="par_id6">wide\n   space</p>',
    )
    assert prepare.blocks(content) == {
        "hd_id1": "A bold title",
        "par_id2": "Press Ctrl+N.",
        "par_id3": "",
        "par_id6": "wide space",
    }
    assert prepare.blocks(b"") == {}


def test_help_is_aligned_by_file_and_id(tmp_path):
    write_pages(
        tmp_path,
        "a/one.html",
        page('<p id="par_1">Open the first file.</p>', '<p id="par_2">Only in English here.</p>'),
        page('<p id="par_9">Nur auf Deutsch hier.</p>', '<p id="par_1">Die erste Datei.</p>'),
    )
    write_pages(
        tmp_path,
        "two.html",
        page('<p id="par_1">Close the file now. Save it first.</p>', '<p id="par_2">Same</p>'),
        page('<p id="par_1">Datei jetzt zu. Vorher bitte sichern.</p>', '<p id="par_2">Same</p>'),
    )
    again = (
        page('<p id="par_7">Save it first.</p>'),
        page('<p id="par_7">Vorher bitte sichern.</p>'),
    )
    write_pages(tmp_path, "z.html", *again)
    (tmp_path / "de" / "text" / "german.html").write_bytes(page('<p id="par_1">Nur hier.</p>'))
    assert [*prepare.clean_lines(prepare.help_blocks(tmp_path, LANGUAGES), 40)] == [
        (("Open the first file.", "Die erste Datei."), "a/one.html"),
        (("Close the file now.", "Datei jetzt zu."), "two.html"),
        (("Save it first.", "Vorher bitte sichern."), "two.html"),
    ]
    with pytest.raises(ValueError, match=r"must have \*.html files in common"):
        next(prepare.help_blocks(tmp_path / "absent", LANGUAGES))


@pytest.mark.parametrize(
    ("source", "target", "clean"),
    [
        ("Open the file.", "Öffnen Sie die Datei.", True),
        ("", "Öffnen Sie die Datei.", False),
        ("Standard Bar here", "Standard Bar here", False),
        ("Use a_b and so on", "Nutze es und so weiter", False),
        ("See the page now", "Siehe http://seite hier", False),
        ("1 + 2 = 3", "Eins plus zwei ist drei", False),
        ("Open it", "Öffnen Sie es", False),
        (" ".join(["word"] * 41), " ".join(["Wort"] * 40), False),
        (" ".join(["word"] * 40), " ".join(["Wort"] * 40), True),
        ("one two three", "eins zwei drei vier fünf sechs", True),
        ("one two three", "eins zwei drei vier fünf sechs sieben", False),
    ],
)
def test_pairs_that_are_kept(source, target, clean):
    assert prepare.is_clean(source, target, 40) == clean


def test_sentences_are_split_where_they_end_and_only_where_the_counts_agree():
    sentences = prepare.sentences
    assert sentences("Save it.  Close it! Done? Yes") == ["Save it.", "Close it!", "Done?", "Yes"]
    assert sentences("Use e.g. Writer. See No. 3 or z. B. Calc.") == [
        "Use e.g. Writer.",
        "See No. 3 or z. B. Calc.",
    ]
    pairs = prepare.sentence_pairs
    assert pairs("One. Two.", "Eins. Zwei.") == [("One.", "Eins."), ("Two.", "Zwei.")]
    assert pairs("One. Two.", "Eins, zwei.") == [("One. Two.", "Eins, zwei.")]


def write_text(directory: Path, files: dict[str, Sequence[str]]) -> None:
    """Write files of these lines, by their names."""
    for name, lines in files.items():
        text = "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")
        (directory / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)


def write_sets(directory: Path, held_out: int) -> CompletedProcess:
    """Run the script that writes the sets of a text to its directory out."""
    words = ("--corpus", directory, "--source-lang", "en", "--target-lang", "de")
    return script(own_text.__file__, *words, "--held-out", held_out, "--output", directory / "out")


def sets_of(directory: Path) -> dict[str, list[tuple[str, ...]]]:
    files = {
        name: [directory / f"out/{name}.{side}" for side in LANGUAGES] for name in own_text.SETS
    }
    return {name: [*zip(*map(lines_of, paths), strict=True)] for name, paths in files.items()}


def test_held_out_documents_and_sentences_never_stay_in_training(tmp_path):
    lines = [
        (f"sentence {d} {k}" if k else "the same sentence", f"Satz {d} {k}", f"page{d}.html")
        for d in range(500)
        for k in range(1 + d % 7)
    ]
    write_text(tmp_path, {"train.tsv": ["\t".join(line) for line in lines]})
    assert write_sets(tmp_path, 90).returncode == 0
    sets = sets_of(tmp_path)
    page_of = {target: document for _, target, document in lines}
    pages_of = {name: {page_of[target] for _, target in sets[name]} for name in sets}
    assert min(map(len, sets.values())) >= 60
    assert not pages_of["train"] & pages_of["test"] and not pages_of["train"] & pages_of["valid"]
    assert not pages_of["valid"] & pages_of["test"]
    held_out = {source for name in ("valid", "test") for source, _ in sets[name]}
    assert not held_out & {source for source, _ in sets["train"]}


def test_text_without_documents_is_held_out_in_blocks_of_lines(tmp_path):
    """Breaks if single lines are held out: their neighbours are alike."""
    lines = [f" grüner  Satz {k} " for k in range(1_000)]
    valid = {"dev.en": ["one"], "dev.de": ["eins"]}
    write_text(tmp_path, {"train.en.gz": lines, "train.de": lines, **valid})
    said = write_sets(tmp_path, 1_000).stderr
    sets = sets_of(tmp_path)
    assert sets["valid"] == [("one", "eins")] and [*map(len, sets.values())] == [50, 1, 950]
    numbers = sorted(int(source.split()[2]) for source, _ in sets["test"])
    assert sets["test"][0][0].startswith("grüner Satz ")
    assert all(numbers[k] % 10 == k % 10 for k in range(50)) and numbers != [*range(950, 1_000)]
    same = "of them with one text on both sides"  # as where a file stands for both by mistake
    assert f"test: 50 pairs, 50 {same}, held out of train" in said
    assert f"train: 950 pairs, 950 {same}\n" in said


def test_what_is_left_out_of_a_set_is_said(tmp_path):
    test = ["same\tgleich", "\tleer", f"{'w ' * 251}\tlang"]
    train = ["x\tgleich", "same\ty", f"{'w ' * 251}\tlang", "new\tneu"]
    write_text(tmp_path, {"test.tsv": test, "valid.tsv": ["a\tb"], "train.tsv": train})
    said = write_sets(tmp_path, 9).stderr
    assert "test: 1 pairs; left out: 1 with an empty side, 1 of more than 250 words\n" in said
    assert "train: 2 pairs; left out: 2 with a side of test or valid\n" in said
    assert sets_of(tmp_path)["train"] == [(("w " * 251).strip(), "lang"), ("new", "neu")]


def trees(text: str) -> list:
    return list(parse_trees([text], "test"))


def test_phrases_are_the_outermost_of_two_words_or_more():
    (tree,) = trees("(TOP (S (NP (NP (D a) (N b)) (PP (P c))) (VP (X (VP (V d) (N e))))))")
    made = {write_tree(phrase) for phrase in augment.phrases(tree)}
    assert made == {
        "(TOP (NP (NP (D a) (N b)) (PP (P c))))",
        "(TOP (NP (D a) (N b)))",
        "(TOP (VP (X (VP (V d) (N e)))))",
    }


def test_pairs_are_two_sentences_of_80_words_at_most_and_always_the_same():
    words = [
        " ".join(f"(N {letter}{k})" for k in range(size))
        for letter, size in zip("abc", (3, 41, 39))
    ]
    gold = trees(" ".join(f"(TOP (S {text}))" for text in words))
    pairs = list(augment.pairs(gold))
    assert [*map(write_tree, pairs)] == [*map(write_tree, augment.pairs(gold))]
    assert 0 < len(pairs) <= augment.PAIRS_PER_TREE * 3
    for pair in pairs:
        assert len(pair.children) == 2 and len(words_of(pair)) <= 80
        assert {child for child in pair.children} <= {tree.children[0] for tree in gold}


@pytest.mark.parametrize(
    ("message", "files"),
    [
        ("expected train.en and train.de, or train.tsv, plain or .gz, got none", {}),
        (
            "got train.en, train.en.gz, train.de",
            {"train.en.gz": "a", "train.en": "a", "train.de": "a"},
        ),
        ("train.de: expected as many lines as in", {"train.en": "ab", "train.de": "a"}),
        ("train.tsv:2: expected a source, a tab and a target", {"train.tsv": ["a\tb", "c"]}),
        ("train.tsv:1: byte 4 (0xff) is not UTF-8", {"train.tsv": ["a\tb\udcff"]}),
        ("expected sentences in both languages, got none", {"train.tsv": ["\t"]}),
        ("expected test and valid, too: train has too few", {"train.tsv": ["a\tb"] * 9}),
        ("expected test, too:", {"train.tsv": ["a\tb\tone"] * 99, "dev.tsv": ["a\tb"]}),
        ("valid: expected pairs, got none; left out: 10 with", {"train.tsv": ["a\tb"] * 200}),
        ("got valid.tsv, dev.tsv", {"train.tsv": ["a\tb"], "valid.tsv": "x", "dev.tsv": "x"}),
    ],
)
def test_files_that_are_no_text_end_with_one_line(tmp_path, message, files):
    write_text(tmp_path, files)
    done = write_sets(tmp_path, 9)
    assert done.returncode == 1 and message in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("pair", "pairs", "device", "fits"),
    [
        (("one two", "eins zwei"), 300, "cpu", "300 words 1.0 multi30k_tiny 8000 0.3 2000"),
        (("ab", "x"), 100_001, "cuda", "100001 words 1.0 base 50000 0.3 10000"),
        (("ab", "x"), 100_001, "cpu", "100001 words 1.0 multi30k_tiny 8000 0.3 10000"),
        (("book on it", "书"), 300, "cuda", "300 characters 0.12 multi30k_tiny 8000 0.3 2007"),
        (("หนังสือ", "a book"), 300, "cuda", "300 characters 0.71 multi30k_tiny 8000 0.3 2011"),
        (("책이 있다", "a book"), 300, "cuda", "300 words 1.0 multi30k_tiny 8000 0.3 2000"),
    ],
)
def test_what_fits_a_text_is_by_its_size_and_script(tmp_path, pair, pairs, device, fits):
    write_text(tmp_path, {"train.tsv": ["\t".join(pair)] * pairs})
    corpus = own_text.survey(tmp_path, LANGUAGES, 1000)
    words = (corpus.pairs, corpus.unit, corpus.expected, *own_text.choices(corpus, device == "cpu"))
    assert " ".join(map(str, words)).startswith(f"{fits} ")
