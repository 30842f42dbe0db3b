"""diagnosis/: what happened in a training comes first, and nothing is claimed that no file says."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from run_directories import write_log
from trainings import parsed, stock_words

from fairseq_aiayn.diagnosis.aspects import Weight
from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, diagnose
from fairseq_aiayn.diagnosis.evidence import read_evidence

NAMESPACE = f"2021-01-01 | INFO | fairseq_cli.train | {parsed([*stock_words()])}"
INNER = "2021-01-01 | INFO | train_inner | epoch 001:  9 / 99 loss={:g}, ppl={:g}, wpb=24800, "
INNER += "gnorm=1, num_updates={}"
VALID = "| epoch 002 | valid on 'valid' subset | loss {} | ppl 99 | num_updates {} | best_loss 4"
LARGE = {Weight.LARGE, Weight.MEDIUM}


def curve(last: int = 100_000, **losses: float) -> list[str]:
    """The log of a training whose loss falls, or is `first` at the start and `end` later."""
    updates = range(last // 20, last + 1, last // 20)
    first, end = losses.get("first", 9.0), losses.get("end", 4.0)
    values = [end + (first - end) * 0.7**index for index in range(len(updates))]
    return [
        INNER.format(loss, 2**loss, update) for update, loss in zip(updates, values, strict=True)
    ]


HEALTHY = [NAMESPACE, *curve()]


@pytest.fixture
def diagnosed(tmp_path):
    """Return a function that diagnoses a log of these lines."""
    return lambda *lines: diagnose(read_evidence(write_log(tmp_path, *lines)))


def heavy(found: Diagnosis) -> set[str]:
    """What is said of weight, of what happened and of what was set."""
    happened = {event.text for event in found.events if event.weight in LARGE}
    return happened | {name for name, each in found.findings.items() if each.weight in LARGE}


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        (curve(first=float("nan"), end=float("nan")), "the loss is not a number from update 5,000"),
        ([*curve(), VALID.format(4.46, 60_000), VALID.format(8.3, 100_000)], "diverged: .* 8.3 at"),
        ([*curve(), *curve(first=4, end=9)[-1:]], "diverged"),
        (
            [*curve()[:4], VALID.format(4.0, 20_000), *curve()[4:], VALID.format(4.3, 100_000)],
            "overfitted: .* 4.3 at 100,000",
        ),
        (curve(first=9.6, end=9.5), "flat: perplexity 7"),
        (["2,042,318 samples have invalid sizes and will be skipped", *curve()], "2,042,318"),
        ([*["| WARNING: attempting to recover from OOM in forward/backward pass"] * 9_000, *curve()]
         , "9,000 batches"),
        (["NOTE: gradient overflow detected, ignoring"] * 5_000 + curve(), "5,000 updates"),
        ([*curve(50_000), "FloatingPointError: Minimum loss scale reached"], ".*minimum|ended"),
        ([*curve(50_000), "torch.cuda.OutOfMemoryError: CUDA"], "ended with torch.cuda"),
    ],
)  # fmt: skip
def test_what_happened_comes_first(diagnosed, lines, first):
    found = diagnosed(NAMESPACE, *lines)
    assert found.events[0].weight in LARGE
    assert re.match(first, found.events[0].text)
    assert not heavy(diagnosed(*HEALTHY))


@pytest.mark.parametrize("version", ["tqdm", "0.8", "json", "gz", "wrapped", "generated"])
def test_logs_of_all_forms_say_the_same(diagnosed, tmp_path, version):
    lines = HEALTHY
    if version == "tqdm":
        bars = (
            line.replace("9 / 99 ", "0%| | 9/99 [00:01<3:22, 1.2s/it, ") for line in HEALTHY[1:]
        )
        lines = [NAMESPACE, "\r".join(f"{bar}]" for bar in bars)]
    elif version == "0.8":
        lines = [line.split(" | ")[-1] for line in HEALTHY]
    elif version == "json":
        pairs = (line.split("99 ")[1].split(", ") for line in HEALTHY[1:])
        objects = (dict(pair.split("=") for pair in each) for each in pairs)
        lines = [NAMESPACE, *(f"x | {json.dumps({'epoch': 1} | each)}" for each in objects)]
    elif version == "wrapped":
        lines = [line[at : at + 90] for line in HEALTHY for at in range(0, len(line), 90)]
    elif version == "generated":
        groups = {"_name": None, "common_eval": {"path": "a"}, "model": {"_name": "wav2vec2"}}
        lines = [*HEALTHY, "| done training in 9.0 seconds", repr(groups), "H-0\t-1\tb"]
    expected = diagnosed(*HEALTHY)
    path = write_log(tmp_path, *lines)
    if version == "gz":
        path.write_bytes(gzip.compress(path.read_bytes()))
    found = diagnose(read_evidence(path))
    assert found.events == expected.events
    assert found.arch == "transformer_wmt_en_de"
    trained = {name: each for name, each in found.findings.items() if name in expected.findings}
    assert trained == expected.findings


def test_only_the_last_training_counts_with_its_restarts(diagnosed):
    first, again = (
        curve(first=20, end=15),
        "| loaded checkpoint c/last.pt (epoch 3 @ 50000 updates)",
    )
    found = diagnosed(NAMESPACE, *first, NAMESPACE, *curve(50_000), NAMESPACE, again, *curve()[10:])
    assert not heavy(found)
    assert any("started 2 times" in event.text for event in found.events)


@pytest.mark.parametrize(
    "arch", ["lightconv_wmt_en_de_big", "nonautoregressive_transformer", "mbart_large", "lstm"]
)
def test_another_architecture_is_named_and_not_judged_further(diagnosed, arch):
    found = diagnosed(NAMESPACE.replace("'transformer_wmt_en_de'", repr(arch)), *curve())
    assert found.findings["architecture"].differs and arch in found.findings["architecture"].here
    assert not {"batch", "sizes", "initial values"} & {*found.findings, *found.not_known}


def test_initial_values_are_those_of_a_known_version_and_of_no_other_model(diagnosed):
    assert "initial values" in diagnosed(*HEALTHY).findings, "has batch_size, as since 2020"
    old = NAMESPACE.replace("batch_size=", "max_sentences=")
    assert "initial values" in diagnosed(old, *curve()).not_known
    restored = NAMESPACE.replace("'checkpoint_last.pt'", "'/models/other/model.pt'")
    found = diagnosed(restored, *curve())
    assert "/models/other/model.pt" in found.findings["beginning"].here
    assert "initial values" in found.not_known


def test_a_training_that_still_runs_is_judged_by_what_was_asked(diagnosed):
    running = diagnosed(NAMESPACE, *curve(30_000))
    assert not running.findings["updates"].differs
    assert (
        diagnosed(NAMESPACE, *curve(30_000), "| done training in 9 s").findings["updates"].differs
    )


def test_a_large_batch_with_its_rate_and_updates_is_a_known_recipe(diagnosed):
    rate = 0.0014
    other = NAMESPACE.replace("lr=[0.000698771243]", f"lr=[{rate}]").replace("=100000", "=12500")
    assert "0.0014" in other and "=12500" in other
    lines = [line.replace("24800", "198400") for line in curve(12_500)]
    assert not heavy(diagnosed(other, *lines))
    assert heavy(diagnosed(other, *curve(12_500)))


def test_a_translation_without_configuration_says_what_it_can(tmp_path):
    out = tmp_path / "out"
    out.write_text("H-0\t-1\ta@@ b\nH-2\t-1\tc\nGenerate test with beam=5: BLEU4 = 1\n")
    run = read_evidence(write_log(tmp_path, *HEALTHY), out)
    found = diagnose(run)
    assert (run.translated, run.missing) == (2, 1)
    assert found.findings["beam"].here == "5" and found.findings["text that is scored"].differs
    assert {"α", "length penalty", "longest output"} <= set(found.not_known)
