"""diagnosis/: what happened in a training comes first, and nothing is claimed that no file says."""

import gzip
import json
import re
import subprocess
from pathlib import Path

import pytest
from run_directories import write_log

from fairseq_aiayn.diagnosis.aspects import Weight
from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, diagnose
from fairseq_aiayn.diagnosis.evidence import read_evidence

HERE = Path(__file__).parent
HEALTHY = (HERE / "healthy.log").read_text(encoding="utf-8").splitlines()
NAMESPACE = HEALTHY[0]
INNER = "2021-01-01 | INFO | train_inner | epoch 001:  9 / 99 loss={:g}, ppl={:g}, wpb=24800, "
INNER += "gnorm=1, num_updates={}"
VALID = "| epoch 002 | valid on 'valid' subset | loss {} | ppl 99 | num_updates {} | best_loss 4"
DONE = "| done training in 9.0 seconds"
LARGE = {Weight.LARGE, Weight.MEDIUM}
GROUPS = {"_name": None, "common_eval": {"path": "a"}, "model": {"_name": "wav2vec2"}}
LOST = "| WARNING: ran out of memory with exception: CUDA out of memory;\n Skipping batch"
OLD = "left_pad_source='True', left_pad_target='False', max_sentences=0, upsample_primary=1, fp16"


def curve(last: int = 100_000, first: float = 9.0, end: float = 4.0) -> list[str]:
    """The log of a training whose loss falls from `first` to nearly `end`."""
    updates = range(last // 20, last + 1, last // 20)
    values = [end + (first - end) * 0.7**index for index in range(len(updates))]
    return [INNER.format(loss, 2**loss, update) for update, loss in zip(updates, values)]


@pytest.fixture
def diagnosed(tmp_path):
    """Return a function that diagnoses a log of these lines."""
    return lambda *lines: diagnose(read_evidence(write_log(tmp_path, *lines)))


def heavy(found: Diagnosis) -> set[str]:
    """What is said of weight, of what happened and of what was set."""
    happened = {event.text for event in found.events if event.weight in LARGE}
    return happened | {name for name, each in found.findings.items() if each.weight in LARGE}


OVERFITTED = [*curve()[:4], VALID.format(4.0, 20_000), *curve()[4:], VALID.format(4.3, 100_000)]


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        ([line.replace("4.1", "nan") for line in HEALTHY[1:]], "the loss is not a number from"),
        (
            [*HEALTHY[1:], VALID.format(4.46, 60_000), VALID.format(8.3, 100_000)],
            "diverged: .* 8.3",
        ),
        ([*curve(), *curve(first=4, end=9)[-1:]], "diverged"),
        (OVERFITTED, "overfitted: .* 4.3 at 100,000"),
        ([*curve(), VALID.format(7, 50_000), VALID.format(7, 99_000)], "the development loss was"),
        (curve(first=9.6, end=9.5), "flat: perplexity 7"),
        (["2,042,318 samples have invalid sizes and will be skipped", *HEALTHY[1:]], "2,042,318"),
        ([LOST] * 9_000 + curve(), "9,000 batches"),
        (["WARNING: attempting to recover from OOM in forward"] * 9_000 + curve(), "9,000 batches"),
        (["NOTE: gradient overflow detected, ignoring"] * 5_000 + curve(), "5,000 updates"),
        ([*curve(50_000), "FloatingPointError: Minimum loss scale reached"], "the loss scale"),
        ([*curve(50_000), "torch.cuda.OutOfMemoryError: CUDA"], "ended with torch.cuda"),
        ([*curve(50_000), "slurmstepd: error: *** JOB 7 CANCELLED AT 2021"], "ended with slurms"),
    ],
)
def test_what_happened_comes_first(diagnosed, lines, first):
    found = diagnosed(NAMESPACE, *lines)
    assert found.events[0].weight in LARGE
    assert re.match(first, found.events[0].text)


@pytest.mark.parametrize(
    "end", [[], [DONE], ["KeyboardInterrupt"], ["fairseq-train: error: interrupted"]]
)
def test_of_a_healthy_training_nothing_is_of_weight(diagnosed, end):
    assert not heavy(diagnosed(*HEALTHY, *end))
    assert not heavy(diagnosed(NAMESPACE, *curve(), *end))


OURS = "train: 789 of 900 pairs are left out by "
STOCKS = "x | bin train en-de 900 examples", "789 samples have invalid sizes and will be skipped, "


@pytest.mark.parametrize(
    ("lines", "limit", "change"),
    [
        ([f"{OURS}--max-tokens 32 (9, of up to 35 tokens)"], "--max-tokens 32", "--max-tokens 35"),
        (
            [STOCKS[0], f"{STOCKS[1]}max_positions=(32, 32), x"],
            "--max-tokens 32",
            "--max-tokens above 32",
        ),
        (
            [STOCKS[0], f"{STOCKS[1]}max_positions=(9, 32), x"],
            "--max-source-positions 9",
            "--max-source-positions above 9",
        ),
        (
            [f"{OURS}--required-batch-size-multiple 8 (789, of up to 9 tokens)"],
            "--required-batch-size-multiple 8",
            "--required-batch-size-multiple 1",
        ),
        ([f"{OURS}the model's 512 positions (789, of up to 900 tokens)"], "", "look at"),
        (STOCKS, "", "look at"),
    ],
)
def test_pairs_left_out_are_the_options_that_left_them_out(diagnosed, lines, limit, change):
    """Breaks if other options are to be changed, or one of those to a value that it has."""
    given = NAMESPACE.replace("max_tokens=3200", "max_tokens=32, max_source_positions=9")
    text, advice = next(
        (event.text, event.change)
        for event in diagnosed(given, *lines * 2, *curve()).events
        if "789 of 900 pairs" in event.text
    )
    assert re.findall(r"--\S+ \d+", text) == [limit] * bool(limit)
    assert re.match(rf"{change}\b", advice) and len(re.findall("--max", advice)) <= 1


@pytest.mark.parametrize(
    ("gpus", "longest", "batch"),
    [(1, 35, (3572, 7, 1)), (1, 6_000, (6250, 4, 1)), (64, 521, (532, 1, 47)), (1, None, None)],
)
def test_the_papers_batch_is_not_advised_with_the_max_tokens_that_left_pairs_out(
    diagnosed, gpus, longest, batch
):
    given = NAMESPACE.replace("max_tokens=3200", "max_tokens=24").replace("[4]", "[1]")
    skipped = f"{STOCKS[1]}max_positions=(24, 24)"
    line = f"{OURS}--max-tokens 24 (9, of up to {longest} tokens)" if longest else skipped
    few = [one.replace("24800", str(20 * gpus)) for one in curve()]
    given, few[:0] = given.replace("size=2", f"size={gpus}"), [f"training on {gpus} devices"]
    words = diagnosed(given, line, *few).findings["batch"].change.split(" ")
    tokens, every = int(words[1]), int(words[3].rstrip(","))
    used = int(words[5]) if "GPUs" in words else gpus
    assert tokens >= (longest or 25) and 0.9 < tokens * every * used / 25_000 < 1.1
    assert batch in (None, (tokens, every, used))


NORMAL = [NAMESPACE, *curve()]
WIDTH = NAMESPACE.index(")") + 1  # so that a bracket ends a line
BARS = [line.replace("9 / 99 ", "0%| | 9/99 [00:01<3:22, 1.2s/it, ") + "]" for line in NORMAL[1:]]
VALUES = [dict(pair.split("=") for pair in line.split("99 ")[1].split(", ")) for line in NORMAL[1:]]
FORMS = {
    "tqdm": [NAMESPACE, "\r".join(BARS)],
    "0.8": [line.split(" | ")[-1] for line in NORMAL],
    "json": [NAMESPACE, *(f"x | {json.dumps({'epoch': 1} | values)}" for values in VALUES)],
    "gz": NORMAL,
    "wrapped": [line[at : at + WIDTH] for line in NORMAL for at in range(0, len(line), WIDTH)],
    "colours": [f"0: \x1b[32m{line}\x1b[0m" for line in NORMAL],
    "generated": [*NORMAL, DONE, repr(GROUPS), "H-0\t-1\tb"],
    "quiet": [*NORMAL, DONE, repr(GROUPS), "| Translated 9 sentences (99 tokens) in 1.0s"],
    "validated": [*NORMAL, DONE, repr(GROUPS | {"generation": {"beam": 9}})],
    "bracket": [NAMESPACE.replace("Namespace(", "Namespace(save_dir='run(1', "), *NORMAL[1:]],
    "pipe": NORMAL,
}


@pytest.mark.parametrize("form", FORMS)
def test_logs_of_all_forms_say_the_same(diagnosed, tmp_path, form):
    expected, path = diagnosed(*NORMAL), write_log(tmp_path, *FORMS[form])
    if form == "gz":
        path.write_bytes(gzip.compress(path.read_bytes()))
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
        if form == "pipe":
            path = Path(f"/dev/fd/{cat.stdout.fileno()}")
        evidence = read_evidence(path)
    found = diagnose(evidence)
    assert (found.events, found.arch) == (expected.events, "transformer_wmt_en_de")
    assert {**found.findings, **expected.findings} == found.findings
    assert evidence.translated == {"generated": 1, "quiet": 9}.get(form)
    assert (evidence.search == {}) == (evidence.translated is None)


def test_only_the_last_training_counts_with_its_restarts(diagnosed):
    first, again = curve(first=20, end=15), "| loaded checkpoint c.pt (epoch 3 @ 50000 updates)"
    found = diagnosed(NAMESPACE, *first, NAMESPACE, *curve(50_000), NAMESPACE, again, *curve()[10:])
    assert not heavy(found)
    assert any("started 2 times" in event.text for event in found.events)


@pytest.mark.parametrize("arch", ["lightconv_wmt_en_de_big", "nonautoregressive_transformer"])
def test_another_architecture_is_named_and_not_judged_further(diagnosed, arch):
    found = diagnosed(NAMESPACE.replace("'transformer_wmt_en_de'", repr(arch)), *curve())
    assert found.findings["architecture"].here == arch
    assert not {"batch", "sizes", "initial values"} & {*found.findings, *found.not_known}


def test_initial_values_are_those_of_a_known_version_and_of_no_other_model(diagnosed):
    since_2020 = NAMESPACE.replace("fp16=", "batch_size=None, fp16=")
    assert diagnosed(since_2020).findings["initial values"].here == "fairseq"
    old = diagnosed(NAMESPACE.replace("fp16", OLD))
    assert "initial values" in old.not_known and not old.other_options
    restored = since_2020.replace("'checkpoint_last.pt'", "'/models/other/model.pt'")
    found = diagnosed(restored, *curve())
    assert "/models/other/model.pt" in found.findings["beginning"].here
    assert "initial values" in found.not_known


def test_what_no_file_says_is_not_known(diagnosed):
    """Breaks if an aspect is as in the paper by default."""
    bare = "Namespace(arch='transformer', task='translation')"
    assert set(diagnosed(bare).findings) == {"architecture", "task", "batches", "ε of LayerNorm"}


def test_a_training_that_still_runs_is_judged_by_what_was_asked(diagnosed):
    assert not diagnosed(NAMESPACE, *curve(30_000)).findings["updates"].differs
    assert diagnosed(NAMESPACE, *curve(30_000), DONE).findings["updates"].differs


def test_a_large_batch_with_its_rate_and_updates_is_a_known_recipe(diagnosed):
    other = NAMESPACE.replace("0.0007", "0.0014").replace("=100000", "=12500")
    assert not heavy(diagnosed(other, *(line.replace("24800", "198400") for line in curve(12_500))))
    assert heavy(diagnosed(other, *curve(12_500)))
    assert not heavy(diagnosed(other.replace("update_freq=[4]", "update_freq=[32]")))


def test_a_translation_without_configuration_says_what_it_can(tmp_path):
    run = read_evidence(HERE / "healthy.log", HERE / "generate.out")
    found = diagnose(run)
    assert (run.translated, run.missing, run.signature) == (1, 0, "BLEU4 = 100.00")
    assert not found.findings["beam"].differs and not found.findings["text that is scored"].differs
    assert {"α", "length penalty and end", "longest output", "test set"} <= set(found.not_known)
    lines = ("H-0\t-1\ta@@ b", "H-2\t-1\tc", "Generate test with beam=5: BLEU4 = 1")
    (tmp_path / "out").write_text("\n".join(lines))
    run = read_evidence(HERE / "healthy.log", tmp_path / "out")
    assert (run.translated, run.missing) == (2, 1)
    assert diagnose(run).findings["test set"].here == "2 of 3 sentences"
    assert diagnose(run).findings["text that is scored"].weight is Weight.LARGE
    (tmp_path / "quiet").write_text("| Translated 3003 sentences (87069 tokens) in 25.4s\n")
    assert read_evidence(HERE / "healthy.log", tmp_path / "quiet").translated == 3_003
