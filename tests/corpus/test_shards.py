"""Shards that are whole or made again, and the processes that make them."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

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
    with pytest.raises(ValueError) as error:
        shards.list_shards(tmp_path)
    assert str(error.value) == f"{tmp_path}: must hold shards (NAME.done), has none"


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


# --- processes ---


def square(number: int) -> int:
    if number == 13:
        raise ValueError("13 is not allowed")
    return number * number


def killed(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("workers", [1, 3])
def test_every_task_is_done_once(workers):
    results = shards.run_tasks(square, range(-40, -1), workers)
    assert sorted(results) == sorted(number * number for number in range(-40, -1))
    assert list(shards.run_tasks(square, [], workers)) == []


def test_few_tasks_are_drawn_ahead_of_the_results():
    drawn = []
    tasks = (drawn.append(number) or number for number in range(-30, -1))
    for done, _ in enumerate(shards.run_tasks(square, tasks, 2)):
        assert len(drawn) - done <= 4


def test_the_first_error_ends_all_tasks():
    endless = itertools.count()
    with pytest.raises(ValueError, match="^13 is not allowed$"):
        list(shards.run_tasks(square, endless, 1))
    assert next(endless) <= 13 + 2  # of 0, 1, ..., 13 and those that were waiting


def test_an_error_in_drawing_tasks_is_raised():
    def tasks():
        yield 1
        raise ValueError("news: is cut short")

    with pytest.raises(ValueError, match="^news: is cut short$"):
        list(shards.run_tasks(square, tasks(), 2))


def test_a_killed_worker_is_an_error():
    with pytest.raises(OSError, match="^a worker process was killed; is there too little memory?"):
        list(shards.run_tasks(killed, range(9), 2))


def test_there_must_be_a_worker():
    with pytest.raises(ValueError, match="^workers must be at least 1, got 0$"):
        list(shards.run_tasks(square, [1], 0))


def test_workers_end_when_their_parent_is_killed():
    code = """
import os, sys, time, shards
def work(number):
    os.write(1, b"%d\\n" % os.getpid())  # in one piece, whatever the other one writes
    time.sleep(600)
list(shards.run_tasks(work, range(2), 2))
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(shards.__file__).parent)}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    try:
        parent.communicate(timeout=PATIENCE)  # until the last that could write has ended
    except subprocess.TimeoutExpired:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        pytest.fail("the workers live on")
