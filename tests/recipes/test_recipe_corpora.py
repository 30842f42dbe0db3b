"""What the demo takes from the help or from a user's text, drops and holds out; further trees."""

import gzip
from pathlib import Path

import augment
import prepare
import pytest
from faults import fault_of

from fairseq_aiayn.treebank.trees import parse_trees, words_of, write_tree

LANGUAGES = ("en", "de")


def page(*blocks: str) -> bytes:
    return f"<html><body>{''.join(blocks)}</body></html>".encode()


def write_pages(root: Path, name: str, english: bytes, german: bytes) -> None:
    for directory, content in (("en-US", english), ("de", german)):
        path = root / directory / "text" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write(directory: Path, name: str, lines: list[str]) -> None:
    (directory / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


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


def test_held_out_documents_and_sentences_never_stay_in_training():
    lines = [
        (f"sentence {d} {k}" if k else "the same sentence", f"Satz {d} {k}", f"page{d}.html")
        for d in range(500)
        for k in range(1 + d % 7)
    ]
    pairs, documents = [line[:2] for line in lines], [line[2] for line in lines]
    splits = prepare.hold_out(pairs, documents, 90)
    page_of = {target: document for _, target, document in lines}
    pages_of = {name: {page_of[target] for _, target in splits[name]} for name in splits}
    assert min(map(len, splits.values())) >= 60
    assert not pages_of["train"] & pages_of["test"] and not pages_of["train"] & pages_of["valid"]
    assert not pages_of["valid"] & pages_of["test"]
    held_out = {source for name in ("valid", "test") for source, _ in splits[name]}
    assert not held_out & {source for source, _ in splits["train"]}
    assert splits == prepare.hold_out(pairs, documents, 90)


def test_text_without_documents_is_held_out_in_blocks(tmp_path):
    for language in LANGUAGES:
        lines = [*(f"grüner {language} {k} words" for k in range(200)), "", "x " * 10_000]
        (tmp_path / f"news.{language}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    splits = prepare.read_files(tmp_path, LANGUAGES, 40, 1000)
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [180, 10, 10]
    assert splits["valid"][0] == ("grüner en 180 words", "grüner de 180 words")
    assert splits["test"][-1][0] == "grüner en 199 words"


def test_given_splits_stay_and_only_training_text_is_shortened(tmp_path, capsys):
    for language in LANGUAGES:
        for name in ("train", "valid", "test", "other"):
            write(tmp_path, f"{name}.{language}", ["a short line", "w " * 50, "w " * 10_000, " "])
    splits = prepare.read_files(tmp_path, LANGUAGES, 40, 1000)
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [1, 2, 2]
    assert "train: 1 pairs have a sentence of valid" in capsys.readouterr().err


def test_a_corpus_of_which_nothing_is_left_is_refused(tmp_path):
    for lines, message in (
        (["w " * 50] * 30, "text: must have pairs of 1 to 40 words, got none"),
        (["w"] * 20, "not repeat its sentences"),
    ):
        for language in LANGUAGES:
            write(tmp_path, f"text.{language}", lines)
        with pytest.raises(ValueError, match=message):
            prepare.read_files(tmp_path, LANGUAGES, 40, 1000)


def test_files_without_their_other_side_are_refused(tmp_path):
    own = tmp_path, LANGUAGES, 9, 9
    (tmp_path / "a.en").write_text("one\ntwo\n")
    missing = "must be a directory with NAME.en and NAME.de (or with .gz), of one NAME or "
    assert fault_of(prepare.read_files, *own).startswith(f"{tmp_path}: {missing}")
    (tmp_path / "a.de").write_text("eins\n")
    lines = f"{tmp_path}/a.de: expected as many lines as in {tmp_path}/a.en, got 1"
    assert fault_of(prepare.read_files, *own) == lines


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
