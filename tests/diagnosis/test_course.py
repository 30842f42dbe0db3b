"""diagnosis/: what happened in a training comes first, and nothing is claimed that no file says."""

import gzip
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from run_directories import write_log

from fairseq_aiayn.diagnosis.diagnosis import Diagnosis, diagnose
from fairseq_aiayn.diagnosis.evidence import read_evidence
from fairseq_aiayn.diagnosis.findings import Weight

HERE = Path(__file__).parent
HEALTHY = (HERE / "healthy.log").read_text(encoding="utf-8").splitlines()
NAMESPACE = HEALTHY[0]
REGIME = "batch, rate, updates"
INNER = "2021-01-01 | INFO | train_inner | epoch 001:  9 / 99 loss={:g}, ppl={:g}, wpb=24800, "
INNER += "gnorm=1, num_updates={}"
VALID = "| epoch 002 | valid on 'valid' subset | loss {} | ppl {} | num_updates {} | best_loss 4"
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
    return lambda *lines: diagnose(read_evidence(write_log(tmp_path, *lines)))


def heavy(found: Diagnosis) -> set[str]:
    happened = {event.text for event in found.events if event.weight in LARGE}
    return happened | {name for name, each in found.findings.items() if each.weight in LARGE}


ROSE = [VALID.format(4.4, 9, 60_000), VALID.format(8.3, 9, 100_000)]
BEST, WORSE = VALID.format(4.0, 16, 20_000), VALID.format(4.3, 18, 100_000)
POOR = [VALID.format(7, 128, updates) for updates in (50_000, 99_000)]
SKIPPED = "2,042,318 samples have invalid sizes and will be skipped"
OOM = "WARNING: attempting to recover from OOM in forward"
OVERFLOW = "NOTE: gradient overflow detected, ignoring"
HAPPENED = {  # by what is said first
    "the loss is not a number from": [line.replace("4.1", "nan") for line in HEALTHY[1:]],
    "diverged: .* 8.3": [*HEALTHY[1:], *ROSE],
    "diverged": [*curve(), *curve(first=4, end=9)[-1:]],
    "overfitted: .* 4.3 at 100,000": [*curve()[:4], BEST, *curve()[4:], WORSE],
    "the development perplexity was at best 128": [*curve(), *POOR],
    "flat: perplexity 7": curve(first=9.6, end=9.5),
    "2,042,318": [SKIPPED, *HEALTHY[1:]],
    "batches lost .*: 9,000": [LOST] * 9_000 + curve(),
    "batches lost .*: 8,000": [OOM] * 8_000 + curve(),
    "updates that over.*: 5,000": [OVERFLOW] * 5_000 + curve(),
    "4,000 updates end in the warm-up": [*curve(4_000), DONE],
    "the loss scale": [*curve(50_000), "FloatingPointError: Minimum loss scale reached"],
}


@pytest.mark.parametrize("first", HAPPENED)
def test_what_happened_comes_first(diagnosed, first):
    found = diagnosed(NAMESPACE, *HAPPENED[first])
    assert found.events[0].weight in LARGE
    assert re.match(first, found.events[0].text)


@pytest.mark.parametrize(
    "end", [[], [DONE], ["KeyboardInterrupt"], ["fairseq-train: error: interrupted"]]
)
def test_of_a_healthy_training_nothing_is_of_weight(diagnosed, end):
    assert not heavy(diagnosed(*HEALTHY, *end))
    assert not heavy(diagnosed(NAMESPACE, *curve(), *end))


FEW = "train: 9 of 9000 pairs are left out by --max-tokens 3200 (9, of up to 3,201 tokens)"


@pytest.mark.parametrize("line", [OVERFLOW, OOM, LOST, FEW])
def test_of_what_a_healthy_training_leaves_out_too_nothing_is_to_be_changed(diagnosed, line):
    said = [each for each in diagnosed(NAMESPACE, *curve(), *[line] * 9).events if each.weight]
    assert [(each.weight, each.change) for each in said] == [(Weight.SMALL, "")]


ENDS = {  # by what the last lines of a file are
    "telemetry": "| WARNING | urllib3 | broken by ProxyError('x', OSError('403'))': /api/",
    "sample": "Killed in the attack were two soldiers.",
    "logged": "--- Logging error ---\nTraceback (most recent call last):\nOSError: disk",
    "thread": "Exception in thread T-1:\nTraceback (most recent call last):\nOSError: disk",
}
TRACEBACK = "Traceback (most recent call last):\n  File 'train.py'\n"
CAUSED = {
    f"{TRACEBACK}torch.cuda.OutOfMemoryError: CUDA out": "torch.cuda.OutOfMemoryError: CUDA out",
    f"{TRACEBACK}KeyError: 1\nDuring handling of the above\n{TRACEBACK}A: b": "KeyError: 1",
    f"{TRACEBACK}ValueError: a\n{TRACEBACK}x.errors.ChildFailedError: \n": "ValueError: a",
    f"{TRACEBACK}torch.spawn.ProcessRaisedException: \n-- Process 1 \n{TRACEBACK}B: c": "B: c",
    f"[rank1]: {TRACEBACK}[rank1]: RuntimeError: NCCL Connection reset\n[rank2]: {TRACEBACK}"
    "[rank2]: ValueError: d\n  rank : 2 (local_rank: 2)": "ValueError: d, of rank 2",
    f"[rank1]: {TRACEBACK}[rank1]: A: b\n[rank2]: {TRACEBACK}[rank2]: C: d\n rank : 2 ": "C: d, of",
    "slurmstepd: error: *** JOB 7 CANCELLED AT 2021 DUE": "slurmstepd: error: *** JOB 7 CANC",
    "srun: error: n1: task 3: Exited with exit code 1\n" + f"{TRACEBACK}E: f": "E: f",
    "train.sh: line 24:  7211 Killed                  fairseq-train": "train.sh: line 24:  7211 K",
    "  traceback : Signal 9 (SIGKILL) received by PID 3\n": "Signal 9 (SIGKILL) received",
    "fairseq-train: error: unrecognized arguments: --x": "fairseq-train: error: unrec",
    "Segmentation fault (core dumped)": "Segmentation fault",
    "[1]+  Killed                  nohup fairseq-train": "[1]+  Killed",
    "[default0]: Killed": "[default0]: Killed",
    "[default3]:Fatal Python error: Aborted": "[default3]:Fatal Python error: Aborted",
    "2: terminate called after throwing an instance of 'c10::Error'": "2: terminate called after",
}


def texts(found: Diagnosis) -> str:
    return "\n".join(event.text for event in found.events)


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_no_process_is_no_end(diagnosed, end):
    found = texts(diagnosed(NAMESPACE, *curve(50_000), *ENDS[end].split("\n")))
    assert "ended with" not in found and "still running or broken off" in found


@pytest.mark.parametrize("end", CAUSED)
def test_the_first_cause_ended_a_training_unless_it_went_on(diagnosed, end):
    lines = [NAMESPACE, *curve(50_000), *end.rstrip("\n").split("\n")]
    found = diagnosed(*lines)
    assert found.events[0].text.startswith(f"ended with {CAUSED[end]}")
    line = lines[found.events[0].line - 1]
    assert CAUSED[end].split(",")[0] in line, "by the line that it names"
    assert "ended with" not in texts(diagnosed(*lines, *curve()[10:]))
    assert "ended with" not in texts(diagnosed(*lines, "2021 | INFO | fairseq.trainer | saved"))


def test_what_stopped_a_training_is_said(diagnosed):
    given = NAMESPACE.replace("max_update=100000", "max_update=900000, patience=5")
    found = texts(diagnosed(given, *curve(), "x | early stop since valid performance hasn't"))
    assert "of 900,000, epoch 1, ended by --patience 5" in found


OURS = "train: 789 of 900 pairs are left out by "
STOCKS = "x | bin train en-de 900 examples", "789 samples have invalid sizes and will be skipped, "


@pytest.mark.parametrize(
    "line",
    [f"{OURS}--max-tokens 32 (9, of up to 35 tokens)", f"{STOCKS[1]}max_positions=(9, 32), x=[1]"],
)
def test_pairs_left_out_are_said_as_the_log_says_them(diagnosed, line):
    found = diagnosed(NAMESPACE, STOCKS[0], line, line, *curve())
    (said,) = (event for event in found.events if event.text.startswith(line[:30]))
    assert said.weight is Weight.LARGE and said.text in line


@pytest.mark.parametrize("gpus", [1, 64])
def test_the_papers_batch_is_not_advised_with_the_max_tokens_that_left_pairs_out(diagnosed, gpus):
    given = NAMESPACE.replace("max_tokens=3200", "max_tokens=24").replace("[4]", "[1]")
    few = [one.replace("24800", str(20 * gpus)) for one in curve()]
    given, few[:0] = given.replace("size=2", f"size={gpus}"), [f"training on {gpus} devices"]
    words = diagnosed(given, f"{STOCKS[1]}max_positions=(24, 24)", *few).findings[REGIME].change
    options = dict(zip(words.split()[::2], map(float, words.split()[1::2])))
    tokens, used = options["--max-tokens"], options.get("--distributed-world-size", gpus)
    assert tokens > 1_000 and 0.9 < tokens * options["--update-freq"] * used / 25_000 < 1.1


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
    "first line longer": [
        NAMESPACE[: WIDTH + 5],
        *(NAMESPACE[at : at + WIDTH] for at in range(WIDTH + 5, len(NAMESPACE), WIDTH)),
        *NORMAL[1:],
    ],
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
    happened = [[replace(each, line=0) for each in one.events] for one in (found, expected)]
    assert (happened[0], found.arch) == (happened[1], "transformer_wmt_en_de")
    assert {**found.findings, **expected.findings} == found.findings
    assert evidence.translated == {"generated": 1, "quiet": 9}.get(form)
    assert (evidence.search == {}) == (evidence.translated is None)


LOADED = "| loaded checkpoint c.pt (epoch 3 @ {} updates)"


def test_a_file_of_several_trainings_says_so_and_judges_one(diagnosed, tmp_path):
    again = [NAMESPACE, LOADED.format(50_000), *curve()[10:]]
    failed = [re.sub("loss=[^,]*", "loss=nan", line) for line in curve()]
    lines = [NAMESPACE, *failed, NAMESPACE, *curve(50_000), *again]
    found = diagnosed(*lines)
    assert not heavy(found)
    assert "started 2 times" in texts(found) and "number 2" in texts(found)
    first = diagnose(read_evidence(write_log(tmp_path, *lines), training=1))
    assert heavy(first) and "number 1" in texts(first)
    other = NAMESPACE.replace("fp16=", "save_dir='other', fp16=")
    assert "has 2 trainings" in texts(diagnosed(NAMESPACE, *curve(), other, *again[1:]))
    assert "has 3 trainings" in texts(diagnosed(*curve(), *curve(), *curve())), "by the updates"
    redrawn = [line for line in curve() for _ in range(2)]  # as a bar is
    assert "trainings" not in texts(diagnosed(*redrawn))
    early = diagnosed(NAMESPACE, "OSError", NAMESPACE, *curve())
    assert "started 2 times" in texts(early), "of which the first had done nothing"
    twice = [line for line in (NAMESPACE, *curve()) for _ in range(2)]
    assert texts(diagnosed(*twice)) == texts(diagnosed(NAMESPACE, *curve()))
    with pytest.raises(ValueError, match="expected 1 to 2"):
        read_evidence(write_log(tmp_path, *lines), training=3)


def test_what_jumps_or_changes_at_a_restart_is_said(diagnosed):
    """Breaks if a checkpoint of another dictionary is taken for too high a rate."""
    other = NAMESPACE.replace("lr=[0.0007]", "lr=[0.0009]")
    before, after = [NAMESPACE, "[de] dictionary: 9 types", *curve(50_000)], LOADED.format(50_000)
    high = curve(first=12, end=11)[10:]
    found = diagnosed(*before, other, "[de] dictionary: 7 types", after, *high)
    jumped = "started again from update 50,000: the loss jumped from 4.* to 11"
    assert re.match(jumped, texts(found))
    assert "--lr 0.0007 is now 0.0009, types of de 9 is now 7" in found.events[0].text
    assert found.events[0].line == len(before) + 1 and "diverged" not in texts(found)
    assert "is now" in texts(diagnosed(*before, other, after, *curve()[10:]))


def test_a_text_that_is_small_for_the_model_comes_first_with_what_fits(diagnosed):
    fitting = {160_239: "--max-update 50000 --dropout 0.3", 29_000: ".*multi30k_tiny"}
    for pairs, fits in fitting.items():
        found = diagnosed(NAMESPACE, f"x | bin train de-en {pairs} examples", *curve()).events[0]
        assert f"{pairs:,} pairs of de-en" in found.text and re.match(fits, found.change)
        assert found.line == 2
    shards = [f"x | bin{k} train de-en 3000000 examples" for k in range(2)]
    found = diagnosed(NAMESPACE, *shards, *curve(), *shards)
    assert "6,000,000 pairs" in texts(found) and not heavy(found)


OTHER_TASK = NAMESPACE.replace("arch='transformer_wmt_en_de'", "arch='x'")
OTHER_TASK = OTHER_TASK.replace("task='translation'", "task='language_modeling'")


@pytest.mark.parametrize(
    ("limits", "change"),
    [
        ("max_tokens=None, batch_size=6", "--batch-size 3 --update-freq 8"),
        ("max_tokens=2000000, batch_size=None", "--max-tokens 1000000 --update-freq 8"),
        ("max_tokens=3072, tokens_per_sample=3072", ""),  # which are the least
        ("max_tokens=None", ""),  # nothing is known to halve
    ],
)
def test_too_little_memory_leaves_the_batch_of_a_model_that_is_not_judged(
    diagnosed, limits, change
):
    """Breaks if a language model is told the batch of the paper's translations."""
    given = OTHER_TASK.replace("max_tokens=3200", limits)
    assert diagnosed(given, *[OOM] * 9_000, *curve()).events[0].change == change
    killed = diagnosed(given, *f"{TRACEBACK}RuntimeError: CUDA out of memory".split("\n"))
    assert killed.events[0].change == change


def test_the_data_of_another_task_are_not_trained_on_as_pairs(diagnosed):
    ours, other = (diagnosed(line, *curve()).commands.values() for line in (NAMESPACE, OTHER_TASK))
    assert not any(" DATA " in command for command in ours)
    assert all(command.startswith("fairseq-train DATA ") for command in other)


def test_a_rate_of_another_optimizer_is_not_halved(diagnosed):
    """Its rate has another meaning than that of Adam, of which the paper's is known."""
    given = NAMESPACE.replace("optimizer='adam'", "optimizer='nag'").replace("0.0007", "0.5")
    flat = diagnosed(given, *curve(first=9.6, end=9.5)).events[0]
    assert flat.text.startswith("flat") and "--task translation $(aiayn flags" in flat.change


def test_losses_of_a_criterion_with_more_terms_are_not_compared(diagnosed):
    """Their perplexities are; and what a file does not show, from its first update on, is not."""
    inner = "x | train | epoch 1 | loss 2.96 | ppl 2.00 | wpb 24800 | num_updates {}"
    lines = [inner.format(55_000), VALID.format(5.15, 7.57, 55_000)]
    lines += [inner.format(60_000), VALID.format(5.15, 7.57, 60_000)]
    found = texts(diagnosed(NAMESPACE, LOADED.format(50_000), *lines))
    assert "development" not in found and "never" not in found


def test_a_rate_with_which_the_loss_failed_is_not_without_effect(diagnosed):
    given = NAMESPACE.replace("lr=[0.0007]", "lr=[0.0014]")
    large = [line.replace("24800", "364096") for line in curve()]
    assert not heavy(diagnosed(given, *large[:10]))
    failed = diagnosed(given, *large, *ROSE)
    assert failed.findings[REGIME].weight is Weight.LARGE
    assert failed.events[0].change == "--lr 0.000698771243", "the paper's"
    assert "recipe" not in failed.findings[REGIME].effect


OF_A_SMALL_TEXT = "x | bin train en-de 160239 examples"
WITHOUT_MEMORY = [*curve(50_000)[:5], *f"{TRACEBACK}torch.OutOfMemoryError: CUDA out".split("\n")]


@pytest.mark.parametrize(
    "lines",
    [
        [OF_A_SMALL_TEXT, *curve(20_000)],
        [OF_A_SMALL_TEXT, *(re.sub("loss=[^,]*", "loss=nan", line) for line in curve(20_000))],
        [line.replace("24800", "3600") for line in WITHOUT_MEMORY],
    ],
)
@pytest.mark.parametrize("rate", ["0.0005", "0.0007", "0.002"])
def test_no_two_changes_give_an_option_two_values(diagnosed, lines, rate):
    """Breaks if one piece of advice takes back what another says."""
    given = NAMESPACE.replace("0.0007", rate).replace("max_update=100000", "max_update=20000")
    found = diagnosed(given.replace("dropout=0.1", "dropout=0.2"), *lines)
    changes = [each.change for each in (*found.events, *found.findings.values())]
    pairs = {pair for change in changes for pair in re.findall(r"(--[\w-]+) ([\d.]+)", change)}
    pairs -= {("--gpus", "2")}
    assert len({name for name, _ in pairs}) == len(pairs), sorted(pairs)


def test_of_several_searches_the_last_counts_alone(tmp_path):
    search = "Namespace(beam={}, lenpen={}, path='a', gen_subset='test')\nH-0\t-1\ta\n"
    search += "| Generate test with beam={}: BLEU4 = {}, x\n"
    log = HERE / "healthy.log"
    (tmp_path / "out").write_text(search.format(5, 1, 5, 24.1) + search.format(4, 0.6, 4, 26.9))
    run = read_evidence(log, tmp_path / "out")
    assert (run.search["lenpen"], run.signature) == (0.6, "BLEU4 = 26.9")
    assert "2 searches" in texts(diagnose(run))
    results = "".join(f"H-0\t-1\ta\n| Generate test with beam={k}: BLEU4 = {k}\n" for k in (5, 4))
    (tmp_path / "out").write_text(results)
    run = read_evidence(log, tmp_path / "out")
    assert (run.search["beam"], run.signature, len(run.searches)) == (4, "BLEU4 = 4", 2)


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
    assert not diagnosed(NAMESPACE, *curve(30_000)).findings[REGIME].differs
    assert diagnosed(NAMESPACE, *curve(30_000), DONE).findings[REGIME].differs


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
