"""Preprocess, train, resume, average, generate and score, with the commands that a user types."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

import pytest
import torch
from fairseq_commands import PLUGIN, SMALL, Run, losses

UPDATES = 400


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, run: Run, data_bin: Path) -> Path:
    """A directory with the log of a model that has learned the language, and its checkpoints of
    every 20 updates."""
    folder = tmp_path_factory.mktemp("trained")
    done = run(
        *("fairseq-train", data_bin, *PLUGIN, *SMALL, "--save-dir", folder / "checkpoints"),
        *("--max-update", str(UPDATES), "--save-interval-updates", "20"),
        *("--keep-interval-updates", "5"),
        *("--no-epoch-checkpoints", "--tensorboard-logdir", folder / "tensorboard"),
        *("--eval-bleu", "--eval-bleu-args", '{"beam": 2}', "--eval-tokenized-bleu"),
        *("--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"),
    )
    (folder / "train.log").write_text(done.stdout + done.stderr)
    run(
        *("aiayn", "average", "--last", "5", "--dir", folder / "checkpoints"),
        *("--output", folder / "average.pt"),
    )
    return folder


def generate(run: Run, data_bin: Path, path: str | Path, *options: str) -> dict[str, list[str]]:
    """fairseq-generate's lines of each kind (S, T, H, D, P), in the order of the corpus."""
    done = run(
        *("fairseq-generate", data_bin, *PLUGIN, "--task", "aiayn_translation", "--cpu"),
        *("--path", path, "--max-tokens", "512", *options),
    )
    lines = [line for line in done.stdout.splitlines() if re.match(r"[STHDP]-\d+\t", line)]
    lines.sort(key=lambda line: int(re.match(r".-(\d+)", line)[1]))
    return {kind: [line for line in lines if line.startswith(kind)] for kind in "STHDP"}


def test_training_learns_logs_and_keeps_the_best(trained):
    log = (trained / "train.log").read_text()
    by_update = losses(log)
    assert sorted(by_update) == list(range(1, UPDATES + 1))
    assert float(by_update[UPDATES]) < float(by_update[1]) / 1.5
    assert '"valid_bleu"' in log and '"valid_ppl"' in log
    assert (trained / "checkpoints" / "checkpoint_best.pt").exists()
    assert list((trained / "tensorboard").rglob("events.*"))
    (peak,) = re.findall(r"peak memory: (\d+) MiB\n", log)
    assert 100 < int(peak) < 10_000, "torch alone takes more, the whole of this far less"


def test_learning_rate_is_equation_3_from_the_first_update(trained):
    log = (trained / "train.log").read_text()
    # fairseq logs the rate of the next update
    logged = {
        int(n): float(lr) for n, lr in re.findall(r'"num_updates": "(\d+)", "lr": "([^"]+)"', log)
    }
    for update in (1, 30, 199, 200, 350):
        step = update + 1
        expected = 32**-0.5 * min(step**-0.5, step * 200**-1.5)
        assert logged[update] == pytest.approx(expected, rel=1e-4)


def test_averaged_model_translates_the_test_set(run, data_bin, trained, tmp_path):
    lines = generate(run, data_bin, trained / "average.pt")
    assert {kind: len(found) for kind, found in lines.items()} == dict.fromkeys("STHDP", 20)
    for kind, name in (("D", "hypothesis"), ("T", "reference")):
        text = "".join(line.split("\t")[-1] + "\n" for line in lines[kind])
        (tmp_path / name).write_text(text)
    done = run(
        *("aiayn", "bleu", "--tokenized", "--target-lang", "de"),
        *("--hypothesis", tmp_path / "hypothesis", "--reference", tmp_path / "reference", "--json"),
    )
    assert '"signature"' in done.stdout
    agree = sum(
        d.split("\t")[-1] == t.split("\t")[-1] for d, t in zip(lines["D"], lines["T"], strict=True)
    )
    assert agree >= 12, "a model that has learned the language translates most sentences exactly"


def test_scores_are_penalised_log_probabilities_in_bits(run, data_bin, trained):
    lines = generate(
        run, data_bin, trained / "average.pt", "--beam", "3", "--lenpen", "0.9", "--nbest", "2"
    )
    assert len(lines["H"]) == 40
    for h, p in zip(lines["H"], lines["P"], strict=True):
        score, bits = float(h.split("\t")[1]), [float(x) for x in p.split("\t")[1].split()]
        assert score == pytest.approx(sum(bits) / ((5 + len(bits)) / 6) ** 0.9, abs=1e-3)


def test_an_ensemble_and_a_prefix(run, data_bin, trained):
    checkpoints = sorted((trained / "checkpoints").glob("checkpoint_*_*.pt"))[:2]
    lines = generate(run, data_bin, ":".join(map(str, checkpoints)), "--prefix-size", "1")
    for d, t in zip(lines["D"], lines["T"], strict=True):
        assert d.split("\t")[-1].split()[0] == t.split("\t")[-1].split()[0]


def test_stock_search_runs_on_the_same_checkpoint(run, data_bin, trained):
    stock = ("--task", "translation", "--beam", "2", "--required-batch-size-multiple", "1")
    lines = generate(run, data_bin, trained / "average.pt", *stock)
    assert len(lines["H"]) == 20


def test_interactive_translates_a_line_at_a_time(run, data_bin, trained):
    done = run(
        *("fairseq-interactive", data_bin, *PLUGIN, "--task", "aiayn_translation", "--cpu"),
        *("--path", trained / "average.pt"),
        stdin="w1 w2 w3\nw4 w5\n",
    )
    assert len(re.findall(r"^H-\d\t", done.stdout, re.MULTILINE)) == 2


def test_validate_reports_what_training_reported(run, data_bin, trained):
    done = run(
        *("fairseq-validate", data_bin, *PLUGIN, "--task", "aiayn_translation", "--cpu"),
        *("--max-tokens", "256"),
        *("--path", trained / "checkpoints" / "checkpoint_last.pt", "--log-format", "json"),
    )
    log = (trained / "train.log").read_text()
    logged = re.findall(r'"valid_nll_loss": "([^"]+)"', log)[-1]
    reported = re.findall(r'"valid_nll_loss": "?([\d.]+)', done.stdout + done.stderr)[-1]
    assert float(reported) == pytest.approx(float(logged), abs=2e-3)


def test_from_pretrained_translates(data_bin, trained):
    from fairseq_aiayn.plugin.model import AiaynModel

    for name in ("dict.en.txt", "dict.de.txt"):
        shutil.copy(data_bin / name, trained)
    hub = AiaynModel.from_pretrained(str(trained), "average.pt", str(data_bin))
    assert hub.cfg.generation.lenpen == 0.6, "the paper's search travels with the checkpoint"
    translations = hub.translate(["w1 w2 w3", "w4"], beam=4)
    assert len(translations) == 2 and translations[0].split()[0] == "v1"


def test_finetuning_starts_from_the_weights_but_from_update_1(run, data_bin, trained, tmp_path):
    done = run(
        *("fairseq-train", data_bin, *PLUGIN, *SMALL, "--save-dir", tmp_path / "tuned"),
        *("--max-update", "2"),
        *("--finetune-from-model", trained / "average.pt", "--update-freq", "2"),
    )
    first = float(losses(done.stdout + done.stderr)[1])
    before = losses((trained / "train.log").read_text())
    assert abs(first - float(before[UPDATES])) < abs(first - float(before[1]))


def test_the_average_is_the_mean_of_the_last_five(trained):
    parts = [
        torch.load(path)["model"] for path in (trained / "checkpoints").glob("checkpoint_*_*.pt")
    ]
    assert len(parts) == 5
    average = torch.load(trained / "average.pt")["model"]
    for name, value in average.items():
        mean = sum(part[name].double() for part in parts) / 5
        torch.testing.assert_close(value.double(), mean, atol=1e-6, rtol=1e-5)
    assert not any(math.isnan(value.sum()) for value in average.values())
