"""Shards that are whole or made again."""

import json
import os
from pathlib import Path

import pytest
from faults import fault_of

from fairseq_aiayn.corpus import shards

MADE = {"tokenizer": "none", "max_ratio": None, "languages": ["en", "de"]}
COUNTS = {"read": 3, "kept": 2}
TEXTS = {"en": ["one", "two words"], "de": ["eins", "zwei Wörter"]}
NAME = shards.shard_name(1, "news", 0)


def write(directory: Path, name: str = NAME) -> None:
    shards.write_shard(directory, name, TEXTS, MADE, COUNTS)


# --- files ---


def test_sorting_shards_by_name_gives_the_order_of_the_corpus(tmp_path):
    names = [
        shards.shard_name(place, text, number)
        for place, text in ((1, "news-v9"), (2, "a"), (10, "b.c"))
        for number in (0, 1, 9, 10, 12345)
    ]
    for name in reversed(names):
        write(tmp_path, name)
    assert shards.list_shards(tmp_path) == names


def test_only_shards_with_a_marker_count(tmp_path):
    write(tmp_path)
    other = shards.shard_name(1, "news", 1)
    write(tmp_path, other)
    (tmp_path / f"{other}.done").unlink()
    assert shards.list_shards(tmp_path) == [NAME]
    assert shards.read_counts(tmp_path, NAME) == COUNTS
    (tmp_path / f"{NAME}.done").unlink()
    message = f"{tmp_path}: must hold shards (NAME.done), has none"
    assert fault_of(shards.list_shards, tmp_path) == message


def test_a_shard_gives_back_its_lines_whatever_else_may_end_a_line(tmp_path):
    lines = ["a\u2028b", "", "c\x85d", "e\x1cf\x0b", "ü"]
    shards.write_shard(tmp_path, NAME, {"en": lines, "de": []}, MADE, COUNTS)
    assert shards.read_shard(tmp_path, NAME, "en") == lines
    assert shards.read_shard(tmp_path, NAME, "de") == []


def test_a_finished_shard_is_known_by_what_it_was_made_from(tmp_path):
    assert shards.finished_counts(tmp_path, NAME, MADE) is None
    write(tmp_path)
    assert shards.finished_counts(tmp_path, NAME, MADE) == COUNTS
    assert shards.finished_counts(tmp_path, NAME, {**MADE, "max_ratio": 1.5}) is None


@pytest.mark.parametrize("suffix", ["en", "de", "done"])
def test_a_shard_with_a_missing_or_short_file_is_made_again(tmp_path, suffix):
    write(tmp_path)
    path = tmp_path / f"{NAME}.{suffix}"
    path.write_bytes(path.read_bytes()[:-3])
    assert shards.finished_counts(tmp_path, NAME, MADE) is None
    path.unlink()
    assert shards.finished_counts(tmp_path, NAME, MADE) is None


def test_a_marker_never_stands_beside_text_of_another_making(tmp_path, monkeypatch):
    write(tmp_path)
    replace, renamed = os.replace, []

    def killed_after_the_first_text(source, target):
        if renamed:
            raise KeyboardInterrupt
        renamed.append(replace(source, target))

    monkeypatch.setattr(os, "replace", killed_after_the_first_text)
    with pytest.raises(KeyboardInterrupt):
        other = {language: [line.upper() for line in lines] for language, lines in TEXTS.items()}
        shards.write_shard(tmp_path, NAME, other, {"another": "making"}, COUNTS)
    assert shards.read_shard(tmp_path, NAME, "en") == ["ONE", "TWO WORDS"]
    assert shards.finished_counts(tmp_path, NAME, MADE) is None


def test_only_files_of_other_shards_are_removed(tmp_path):
    stale = shards.shard_name(2, "web", 7)
    write(tmp_path)
    write(tmp_path, stale)
    foreign = ["train.en", "codes", "model.vocab", "01-news.en", "notes.00000", "train.en.part"]
    for name in (*foreign, f"{NAME}.en.part", f"{stale}.done.part"):
        (tmp_path / name).write_text("x")
    shards.remove_shards(tmp_path, keep={NAME})
    kept = [f"{NAME}.{suffix}" for suffix in ("en", "de", "done")]
    assert {path.name for path in tmp_path.iterdir()} == {*foreign, *kept}


def test_markers_are_json_of_counts_and_sizes(tmp_path):
    write(tmp_path)
    record = json.loads((tmp_path / f"{NAME}.done").read_text(encoding="utf-8"))
    assert record == {"made": MADE, "counts": COUNTS, "bytes": {"en": 14, "de": 18}}
