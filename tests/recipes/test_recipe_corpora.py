"""What the recipes take from a corpus, drop and hold out."""

import gzip
import json
import zipfile
from collections import Counter
from pathlib import Path

import extract
import pytest
import split
from recipe_runs import lines_of, refusal, script

LANGUAGES = ("en", "de")


def page(*blocks: str) -> bytes:
    return f"<html><body>{''.join(blocks)}</body></html>".encode()


def pages(root: Path, name: str, english: bytes, german: bytes) -> None:
    for directory, content in (("en-US", english), ("de", german)):
        path = root / directory / "text" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write(directory: Path, name: str, lines: list[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


# --- the help pages ---


def test_help_text_is_what_a_reader_sees():
    content = page(
        '<h1 id="hd_id1">A <b>bold</b><br>title</h1>',
        '<p id="par_id2">Press <span id="switch"><span hidden="true" id="MAC1">Command</span>'
        '<span hidden="true" id="default1">Ctrl</span></span>+N.<!-- not this --></p>',
        '<p id="par_id3" hidden="true">never</p>',
        *(f'<p id="par_{c}" class="{c}">x</p>' for c in ("code", "example", "imageintable")),
        '<p id="par_id4" class="youtube_consent">x</p>',
        '<p id="bm_id5">no paragraph</p><p>no id</p>',
        '<p id="par_id6">wide\n   space</p>',
    )
    assert extract.blocks(content) == {
        "hd_id1": "A bold title",
        "par_id2": "Press Ctrl+N.",
        "par_id3": "",
        "par_id6": "wide space",
    }
    assert extract.blocks(b"") == {}


def test_help_is_aligned_by_file_and_id(tmp_path):
    pages(
        tmp_path,
        "a/one.html",
        page('<p id="par_1">Open the first file.</p>', '<p id="par_2">Only in English here.</p>'),
        page('<p id="par_9">Nur auf Deutsch hier.</p>', '<p id="par_1">Die erste Datei.</p>'),
    )
    pages(
        tmp_path,
        "two.html",
        page('<p id="par_1">Close the file now. Save it first.</p>'),
        page('<p id="par_1">Datei jetzt schließen. Vorher bitte speichern.</p>'),
    )
    pages(tmp_path, "again.html", page('<p id="par_7">Save it first.</p>'), page())
    (tmp_path / "de" / "text" / "german.html").write_bytes(page('<p id="par_1">Nur hier.</p>'))
    counts: Counter[str] = Counter()
    assert [*extract.kept_lines(extract.help_pages(tmp_path, LANGUAGES), counts)] == [
        ("Open the first file.", "Die erste Datei.", "a/one.html"),
        ("Close the file now.", "Datei jetzt schließen.", "two.html"),
        ("Save it first.", "Vorher bitte speichern.", "two.html"),
    ]


def test_help_without_pages_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must have \*.html files in common"):
        next(extract.help_pages(tmp_path, LANGUAGES))


# --- the interface texts ---


def test_interface_text_is_aligned_by_key(tmp_path):
    wheel = tmp_path / "x.whl"
    english = {"title": "Turn the light on", "a": {"b": "Is {name} away?", "c": "Not in German"}}
    german = {"a": {"b": "Ist {name} fort?"}, "title": "Das Licht einschalten"}
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x/translations/en.json", json.dumps(english))
        archive.writestr("x/translations/de.json", json.dumps(german))
        archive.writestr("y/translations/en.json", json.dumps(english))
    options = ("--wheel", wheel, "--source-lang", "en", "--target-lang", "de")
    done = script(extract.__file__, *options, "--output", tmp_path / "out")
    assert done.returncode == 0 and "1 pairs kept; dropped: markup 1" in done.stderr
    assert lines_of(tmp_path / "out" / "text.en") == ["Turn the light on"]
    assert lines_of(tmp_path / "out" / "text.de") == ["Das Licht einschalten"]


# --- the rules ---


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("Open the file.", "Öffnen Sie die Datei.", None),
        ("", "Öffnen Sie die Datei.", "empty"),
        ("Standard Bar here", "Standard Bar here", "identical"),
        ("Use a_b and so on", "Nutze es und so weiter", "markup"),
        ("See the page now", "Siehe http://seite hier", "markup"),
        ("1 + 2 = 3", "Eins plus zwei ist drei", "mostly no letters"),
        ("Open it", "Öffnen Sie es", "not 3 to 40 words"),
        (" ".join(["word"] * 41), " ".join(["Wort"] * 40), "not 3 to 40 words"),
        (" ".join(["word"] * 40), " ".join(["Wort"] * 40), None),
        ("one two three", "eins zwei drei vier fünf sechs", None),
        ("one two three", "eins zwei drei vier fünf sechs sieben", "length ratio"),
    ],
)
def test_reasons_to_drop_a_pair(source, target, reason):
    assert extract.reason_to_drop(source, target) == reason


def test_sentences_are_split_where_they_end_and_only_where_the_counts_agree():
    sentences = extract.sentences
    assert sentences("Save it.  Close it! Done? Yes") == ["Save it.", "Close it!", "Done?", "Yes"]
    assert sentences("Use e.g. Writer. See No. 3 or z. B. Calc.") == [
        "Use e.g. Writer.",
        "See No. 3 or z. B. Calc.",
    ]
    assert sentences("Version 7.4 opens .odt files.") == ["Version 7.4 opens .odt files."]
    pairs = extract.sentence_pairs
    assert pairs("One. Two.", "Eins. Zwei.") == [("One.", "Eins."), ("Two.", "Zwei.")]
    assert pairs("One. Two.", "Eins, zwei.") == [("One. Two.", "Eins, zwei.")]


# --- splitting ---


def test_held_out_documents_and_sentences_never_stay_in_training(tmp_path):
    lines = [
        (f"sentence {d} {k}" if k else "the same sentence", f"Satz {d} {k}", f"page{d}.html")
        for d in range(500)
        for k in range(1 + d % 7)
    ]
    for suffix, column in zip((*LANGUAGES, "documents"), zip(*lines)):
        write(tmp_path, f"text.{suffix}", list(column))
    splits = split.make_splits(tmp_path, LANGUAGES, 40, 90)
    page_of = {target: document for _, target, document in lines}
    pages_of = {name: {page_of[target] for _, target in splits[name]} for name in splits}
    assert min(map(len, splits.values())) >= 60
    assert not pages_of["train"] & pages_of["test"] and not pages_of["train"] & pages_of["valid"]
    assert not pages_of["valid"] & pages_of["test"]
    held_out = {source for name in ("valid", "test") for source, _ in splits[name]}
    assert not held_out & {source for source, _ in splits["train"]}
    assert splits == split.make_splits(tmp_path, LANGUAGES, 40, 90)


def test_text_without_documents_is_held_out_in_blocks(tmp_path, capsys):
    for language in LANGUAGES:
        lines = [f"{language} {k} words" for k in range(200)]
        write(tmp_path, f"text.{language}", [*lines, "", "x " * 10_000])
    splits = split.make_splits(tmp_path, LANGUAGES, 40, 1000)
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [180, 10, 10]
    assert splits["valid"][0][0] == "en 180 words" and splits["test"][-1][0] == "en 199 words"
    assert "dropped 1 with an empty side, 1 of more than 40 words" in capsys.readouterr().err


def test_given_splits_stay_and_only_training_text_is_shortened(tmp_path, capsys):
    for language in LANGUAGES:
        for name in ("train", "valid", "test"):
            write(tmp_path, f"{name}.{language}", ["a short line", "w " * 50, "w " * 10_000, " "])
    splits = split.make_splits(tmp_path, LANGUAGES, 40, 1000)
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [1, 2, 2]
    said = capsys.readouterr().err
    assert "train: 1 pairs (100.0%) have a sentence of valid, in either language" in said


def test_a_corpus_of_which_nothing_is_left_is_refused(tmp_path):
    for language in LANGUAGES:
        write(tmp_path, f"text.{language}", ["w " * 50] * 30)
    with pytest.raises(ValueError, match="text: must have pairs of 1 to 40 words, all 30 drop"):
        split.make_splits(tmp_path, LANGUAGES, 40, 1000)
    for language in LANGUAGES:
        write(tmp_path, f"text.{language}", ["w"] * 19)
    with pytest.raises(ValueError, match="must have at least 20 pairs, got 19"):
        split.make_splits(tmp_path, LANGUAGES, 40, 1000)
    for language in LANGUAGES:
        write(tmp_path, f"text.{language}", ["w"] * 20)
    with pytest.raises(ValueError, match="the corpus repeats its sentences"):
        split.make_splits(tmp_path, LANGUAGES, 40, 1000)


# --- plain files ---


def found(corpus: Path) -> dict[str, str]:
    return {name: source.name for name, (source, _) in split.find_files(corpus, LANGUAGES).items()}


def test_plain_files_are_found_by_their_names(tmp_path):
    one, splits = tmp_path / "one", tmp_path / "splits"
    for language in (*LANGUAGES, "fr"):
        write(one, f"news.{language}", ["a"])
        for name in ("train", "val", "test_2016_flickr"):
            write(splits, f"{name}.{language}.gz", ["a"])
    write(one, "readme.en", ["no pair"])
    assert found(one) == {"text": "news.en"}
    assert found(splits) == {
        "train": "train.en.gz",
        "valid": "val.en.gz",
        "test": "test_2016_flickr.en.gz",
    }
    for language in LANGUAGES:
        write(splits, f"test_2017.{language}", ["a"])
    with pytest.raises(ValueError, match="called test .*, found test_2016_flickr, test_2017"):
        found(splits)
    with pytest.raises(ValueError, match=r"NAME.en and NAME.de .*: found none"):
        found(tmp_path)
    with pytest.raises(ValueError, match="must be a directory with"):
        found(tmp_path / "absent")


def test_compressed_files_are_read(tmp_path):
    for language in LANGUAGES:
        lines = "".join(f"grüner {language} {k}\n" for k in range(40))
        (tmp_path / f"text.{language}.gz").write_bytes(gzip.compress(lines.encode()))
    splits = split.make_splits(tmp_path, LANGUAGES, 40, 1000)
    assert splits["test"] == [(f"grüner en {k}", f"grüner de {k}") for k in (38, 39)]


@pytest.mark.parametrize(
    ("german", "message"),
    [
        (b"eins\n", "{0}/a.de: expected as many lines as in {0}/a.en, got 1"),
        (b"", "{0}/a.de: expected as many lines as in {0}/a.en, got 0"),
        (b"eins\nzw\xe4i\n", "{0}/a.de:2: byte 3 (0xe4) is not UTF-8"),
        (None, "{0}: must be a directory with NAME.en and NAME.de (or with .gz): found none"),
    ],
)
def test_bad_plain_files_end_with_one_line(tmp_path, german, message):
    (tmp_path / "a.en").write_bytes(b"one\ntwo\n")
    if german is not None:
        (tmp_path / "a.de").write_bytes(german)
    options = ("--corpus", tmp_path, "--source-lang", "en", "--target-lang", "de")
    limits = ("--max-words", 9, "--held-out", 9)
    done = script(split.__file__, *options, *limits, "--output", tmp_path / "out")
    assert refusal(done) == f"split: {message.format(tmp_path)}"


def test_the_demo_corpus_counts_what_it_drops(tmp_path):
    paragraphs = [("Open the file.", "Öffnen Sie sie."), ("Same", "Same")] * 2
    source, target = ({str(k): pair[side] for k, pair in enumerate(paragraphs)} for side in (0, 1))
    counts: Counter[str] = Counter()
    assert len([*extract.kept_lines([("page", source, target)], counts)]) == 1
    assert counts == Counter(kept=1, repeated=1, identical=2)
