"""benchmarks/prepare.py: its synthetic corpus, what it measures and how it projects."""

import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from clean_corpus import read_pairs
from clean_pairs import REASONS, Settings, clean
from held_out import read_pair
from manifest import read_manifest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import learn_bpe
import prepare
import recipe_cost
from prepare_report import report, target_met
from projection import Measured, project, summarize
from recipe_cost import Sample, StepCost, costs, current_step, measure_recipe, session_memory
from synthetic_mirror import HELD_OUT, write_mirror
from synthetic_text import CHUNK_PAIRS, DROPPED_EVERY, sentence_pairs, spoil
from synthetic_words import BEND, ENGLISH, GERMAN, LAST_RANK, SHIFT, spell

MANIFEST = ROOT / "recipes" / "wmt14_en_de" / "corpus.toml"


# --- the text ---


@pytest.fixture(scope="module")
def pairs():
    return list(sentence_pairs(1, CHUNK_PAIRS + 1000))


def test_the_text_is_that_of_its_seed_and_fewer_pairs_are_the_start_of_more(pairs):
    assert len(pairs) == CHUNK_PAIRS + 1000
    assert list(sentence_pairs(1, 100)) == pairs[:100]
    assert pairs[CHUNK_PAIRS : CHUNK_PAIRS + 100] != pairs[:100]
    assert list(sentence_pairs(2, 100)) != pairs[:100]


def test_words_drawn_in_chunks_are_all_counted(monkeypatch):
    monkeypatch.setattr(learn_bpe, "CHUNK", 700)
    counts = learn_bpe.count_ranks(GERMAN, 2000, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    drawn = chain.from_iterable(GERMAN.draw(rng, size).tolist() for size in (700, 700, 600))
    assert counts == Counter(drawn)


def test_sentences_have_the_lengths_and_the_marks_of_real_ones(pairs):
    for side, marks in zip(zip(*pairs), (("“", "'s "), ("„", "“", "ü", "ß"))):
        lengths = [len(line.split()) for line in side]
        assert 21 < np.mean(lengths) < 25
        assert min(lengths) == 1 and max(lengths) > 80
        text = b"\n".join(side).decode()
        for mark in (*marks, "http://www.", "(", "-", ", ", "Dr.", "?\n", " 19"):
            assert mark in text, mark


def test_cleaning_drops_one_pair_of_a_hundred_for_each_of_its_reasons(pairs):
    settings = Settings(("en", "de"), "none", False, 250, 1.5)
    kept, counts = clean(pairs[:2000], settings)
    assert counts["kept"] > 1998
    spoilt = list(spoil(pairs[:2000]))
    assert sum(new != old for new, old in zip(spoilt, pairs)) == 2000 / DROPPED_EVERY
    again, counts = clean(spoilt, settings)
    assert counts["read"] - counts["kept"] == len(kept) - len(again) + 2000 - len(kept)
    assert 2000 - len(again) <= 2000 / DROPPED_EVERY + 2
    assert all(counts[reason] for reason in REASONS)


def expected_types(language, words: float) -> float:
    """How many ranks a text of so many words has, by the law that the docstring states."""
    rank = np.concatenate([np.arange(1, BEND + 1), np.geomspace(BEND + 1, LAST_RANK, 20_000)])
    width = np.concatenate([np.ones(BEND), np.diff(rank[BEND:], append=LAST_RANK)])
    edge = BEND + SHIFT
    frequency = (rank + SHIFT) ** -1.0
    frequency[BEND:] *= ((rank[BEND:] + SHIFT) / edge) ** (1 - language.tail)
    share = frequency / (frequency * width).sum()
    return float((width * -np.expm1(-words * share)).sum())


@pytest.mark.parametrize("language", [ENGLISH, GERMAN])
def test_types_grow_as_the_law_of_frequencies_has_it(language):
    ranks = language.draw(np.random.default_rng(0), 200_000)
    for words in (100_000, 200_000):
        types = len(np.unique(ranks[:words]))
        assert types == pytest.approx(expected_types(language, words), rel=0.03)
    written = {spell(language, rank) for rank in np.unique(ranks).tolist()}
    assert 0.9 * types < len(written) <= types  # few words have two ranks


def test_at_the_size_of_wmt14_there_are_as_many_types_as_stated():
    for language, words, types in ((ENGLISH, 23, 0.9e6), (GERMAN, 22, 2.1e6)):
        words *= 4.5e6
        assert expected_types(language, words) == pytest.approx(types, rel=0.05)
        growth = 2 ** (1 / language.tail)
        ratio = expected_types(language, 2 * words) / expected_types(language, words)
        assert ratio == pytest.approx(growth, rel=0.03)


def test_the_mirror_holds_what_its_manifest_says(tmp_path):
    manifest = read_manifest(write_mirror(MANIFEST, 1, 1000, tmp_path / "mirror"), "en", "de")
    read = [list(read_pairs(tmp_path / "mirror", text, ("en", "de"))) for text in manifest.train]
    assert [len(text) for text in read] == [430, 530, 40]
    assert list(chain(*read)) == list(spoil(sentence_pairs(1, 1000)))
    for text in (manifest.valid, manifest.test):
        source, target = read_pair(tmp_path / "mirror", text)
        assert len(source) == len(target) == HELD_OUT
    assert sorted(path.name for path in (tmp_path / "mirror").iterdir()) == sorted(
        ["corpus.toml", *(download.file for download in manifest.downloads)]
    )


# --- the measurement ---


def test_a_step_lasts_until_the_next_one_and_housekeeping_counts_with_the_first_program():
    seen = [
        *((0, "", "", 1), (1, "2-clean", "", 5), (2, "2-clean", "a.py", 9), (4, "2-clean", "b", 7)),
        *((5, "2-clean", "a.py", 8), (5.5, "3-pieces", "", 3), (6, "3-pieces", "", 0)),
    ]
    samples = [Sample(when, stage, step, mib * 2**20) for when, stage, step, mib in seen]
    assert costs(samples) == [
        StepCost("2-clean", "a.py", 3.5, 9),
        StepCost("2-clean", "b", 1, 7),
        StepCost("3-pieces", "", 0.5, 3),
    ]


def test_the_logs_say_which_step_runs(tmp_path):
    assert current_step(tmp_path) == ("", "")
    at = "2026-01-02 03:04:05 text.sh:12"
    log = tmp_path / "log" / "3-pieces.log"
    log.parent.mkdir()
    record = f"{at} run.sh writes\n{at} stage 2-clean\n{at} stage 2-clean done in 3 s\n"
    (tmp_path / "recipe.log").write_text(f"{record}{at} stage 3-pieces\n")
    assert current_step(tmp_path) == ("3-pieces", "")
    log.write_text(f"{at} mkdir -p x\n{at} python lib/count_words.py --x\nwords: 100%\n")
    assert current_step(tmp_path) == ("3-pieces", "count_words.py")
    with log.open("a") as stream:
        stream.write(f"{at} subword-nmt learn-bpe --input x\n{at} mv y z\n")
    assert current_step(tmp_path) == ("3-pieces", "subword-nmt learn-bpe")


def test_memory_is_that_of_all_processes_of_a_session():
    code = "import os, time; os.fork(); b = bytearray(30 << 20); print(flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        for _ in range(2):
            process.stdout.readline()
        memory = session_memory(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
    assert 60 < memory / 2**20 < 100
    assert session_memory(process.pid) == 0


@pytest.fixture
def recipe(tmp_path):
    """Return a function that writes a recipe of one stage and gives the command that runs it."""

    def write(body: str) -> list[str]:
        script = tmp_path / "run.sh"
        script.write_text(
            f"#!/bin/bash\n. {ROOT}/recipes/lib/recipe.sh\n# Options\n# End of options\n"
            f'recipe_options "$@"\nrecipe_begin\nwork() {{ {body}; }}\nstage 1 work work\n'
        )
        script.chmod(0o755)
        return [str(script), "--exp", str(tmp_path / "exp"), "--needs_mb", "1"]

    return write


def test_a_recipe_is_measured_step_by_step(recipe, tmp_path):
    code = "b = bytearray(50 << 20); import time; time.sleep(0.8)"
    steps = measure_recipe(recipe(f"run sleep 0.8; run python -c '{code}'"), tmp_path / "exp")
    assert [step.stage for step in steps] == ["1-work", "1-work"]
    assert [step.step for step in steps] == ["sleep", "python"]
    assert all(step.seconds > 0 for step in steps)
    assert steps[0].peak_mib < 40
    assert 50 < steps[1].peak_mib < 90


def test_a_recipe_that_fails_is_an_error(recipe, tmp_path):
    with pytest.raises(OSError, match=r"run\.sh ended with status 3"):
        measure_recipe(recipe("run sleep 0.3; run bash -c 'exit 3'"), tmp_path / "exp")


def test_an_interrupted_measurement_ends_the_recipe_and_all_its_programs(
    recipe, tmp_path, monkeypatch
):
    def interrupt(session: int) -> int:
        if current_step(tmp_path / "exp")[1] != "sleep":
            return 0
        sessions.append(session)
        raise KeyboardInterrupt

    sessions: list[int] = []
    monkeypatch.setattr(recipe_cost, "session_memory", interrupt)
    with pytest.raises(KeyboardInterrupt):
        measure_recipe(recipe("run sleep 60"), tmp_path / "exp")
    assert session_memory(sessions[0]) == 0


# --- the projection ---

SMALL = Measured(
    pairs=100,
    types=10,
    steps=(
        StepCost("0-set_up", "python", 5, 100),
        StepCost("2-clean", "clean_corpus.py", 10, 50),
        StepCost("3-pieces", "count_words.py", 1, 30),
        StepCost("3-pieces", "subword-nmt learn-bpe", 10, 120),
        StepCost("4-binarize", "fairseq-preprocess", 8, 300),
    ),
)
LARGE = Measured(
    pairs=400,
    types=20,
    steps=(
        StepCost("0-set_up", "python", 6, 100),
        StepCost("1-download", "", 0.5, 2),
        StepCost("2-clean", "clean_corpus.py", 40, 50),
        StepCost("3-pieces", "count_words.py", 4, 40),
        StepCost("3-pieces", "subword-nmt learn-bpe", 20, 240),
        StepCost("4-binarize", "fairseq-preprocess", 14, 290),
    ),
)


def test_steps_are_projected_by_what_they_go_with():
    projection = project(SMALL, LARGE, 1600)
    assert projection.types == 40  # twice as many for four times the pairs, again
    assert [(step.seconds, step.peak_mib) for step in projection.linear] == [
        (6, 100),  # sees no training text
        (2, 8),  # too short to be seen in the smaller corpus
        (160, 50),
        (16, 60),  # 10 MiB for 10 types more
        (40, 480),  # 20 types more than LARGE
        (38, 290),  # 6 s and 0.02 s a pair; memory did not grow
    ]
    assert [(step.seconds, step.peak_mib) for step in projection.power] == [
        (6, 100),
        (2, 8),
        (160, 50),
        (16, 53.3),
        (40, 480),
        (24.5, 290),
    ]


def test_a_projection_needs_a_larger_corpus():
    with pytest.raises(ValueError, match="must be larger, has 100 pairs and 10 types after 400"):
        project(LARGE, SMALL, 1600)


def test_the_summary_adds_times_and_takes_the_highest_memory_by_stage():
    found = summarize(LARGE.steps)
    assert found.hours == pytest.approx(84.5 / 3600)
    assert found.gib == pytest.approx(290 / 1024)
    assert (found.slowest_stage, found.largest_stage) == ("2-clean", "4-binarize")
    assert found.slowest_share == pytest.approx(40 / 84.5)


def test_the_report_says_what_dominates_and_whether_the_target_is_met():
    at_size = project(SMALL, LARGE, 4_500_000)
    printed = report(SMALL, LARGE, [at_size])
    rows = {line.split("  ")[0]: line.split() for line in printed.split("\n\n")[1].split("\n")}
    assert rows["2-clean"] == ["2-clean", "40.0", "10", "20", "50", "47.3%"]
    assert rows["3-pieces"] == ["3-pieces", "24.0", "17", "33", "240", "28.4%"]
    assert rows["all"] == ["all", "84.5", "5", "9", "290", "100.0%"]
    assert "linear: 164.66 hours, 76% of them in 2-clean; 24.86 GiB, in 3-pieces" in printed
    assert (
        "projected to 4,500,000 pairs, 11,250 times as many as measured, and 2,121 types" in printed
    )
    assert printed.endswith("target for 4,500,000 pairs: 2 hours missed, 2 GiB missed")
    assert target_met(project(SMALL, LARGE, 1600)) == {"hours": True, "gib": True}


# --- the command ---


def test_it_leaves_nothing_behind_but_what_is_to_be_kept(tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt), prepare.working_directory(tmp_path, False) as made:
        (made / "file").touch()
        raise KeyboardInterrupt
    assert not any(tmp_path.iterdir())
    with prepare.working_directory(tmp_path, True) as made:
        pass
    assert list(tmp_path.iterdir()) == [made]
    assert f"everything is in {made}" in capsys.readouterr().err


def test_it_asks_for_disk_before_it_starts(tmp_path):
    with pytest.raises(OSError, match=r"must have [\d,]+ MiB free for 10,[\d,]+ pairs, has [\d,]+"):
        prepare.require_disk(tmp_path, 10**16, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pairs", "10"], "--pairs must be at least 4,000, got 10"),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
        (["--directory", "/no/such"], "--directory must be a directory that exists, got /no/such"),
        (["--json", "/no/such/file"], "--json must be in a directory that exists, got /no/such/"),
    ],
)
def test_wrong_options_are_refused(options, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["prepare.py", *options])
    with pytest.raises(SystemExit):
        prepare.main()
    assert message in capsys.readouterr().err
