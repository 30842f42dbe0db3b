"""Preprocess, train, average, generate, score and export, with the commands that a user types."""

import math
import re
import shutil
from pathlib import Path

import pytest
from fairseq_commands import PLUGIN, SMALL, TRANSLATE, Run, losses

pytestmark = pytest.mark.needs_repairs

UPDATES = 400


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, run: Run, data_bin: Path) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    done = run(
        *("fairseq-train", data_bin, *PLUGIN, *SMALL, "--save-dir", folder / "checkpoints"),
        *("--max-update", str(UPDATES), "--save-interval-updates", "40"),
        *("--keep-interval-updates", "5", "--validate-interval", "1000"),
        *("--no-epoch-checkpoints", "--tensorboard-logdir", folder / "tensorboard"),
        *("--eval-bleu", "--eval-bleu-args", '{"beam": 2}', "--eval-tokenized-bleu"),
        *("--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"),
    )
    (folder / "train.log").write_text(done.stdout + done.stderr)
    average = folder / "average.pt"
    run("aiayn", "average", "--last", "5", "--dir", folder / "checkpoints", "--output", average)
    model = ("--checkpoint", average, "--data-bin", data_bin)
    run("aiayn", "export", *model, "--output", folder / "model")
    return folder


def generate(run: Run, data_bin: Path, path: str | Path, *options: str) -> dict[str, list[str]]:
    """What fairseq-generate prints after S, T, H, D and P, in the order of the corpus."""
    done = run("fairseq-generate", data_bin, *TRANSLATE, "--path", path, *options)
    found = re.findall(r"(?m)^([STHDP])-(\d+)\t(.*)$", done.stdout)
    found.sort(key=lambda line: int(line[1]))
    return {kind: [text for one, _, text in found if one == kind] for kind in "STHDP"}


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
    # Equation 3; fairseq logs the rate of the next update
    rates = dict(re.findall(r'"num_updates": "(\d+)", "lr": "([^"]+)"', log))
    assert float(rates["1"]) == pytest.approx(32**-0.5 * 2 * 200**-1.5, rel=1e-4)


def test_the_averaged_model_translates_the_test_set(run, data_bin, trained, tmp_path):
    lines = generate(run, data_bin, trained / "average.pt")
    assert {kind: len(found) for kind, found in lines.items()} == dict.fromkeys("STHDP", 20)
    translations = [line.split("\t")[-1] for line in lines["D"]]
    for name, texts in (("hypothesis", translations), ("reference", lines["T"])):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    files = ("--hypothesis", tmp_path / "hypothesis", "--reference", tmp_path / "reference")
    done = run("aiayn", "bleu", "--tokenized", "--target-lang", "de", *files, "--json")
    assert '"signature"' in done.stdout
    agree = sum(map(str.__eq__, translations, lines["T"]))
    assert agree >= 12, "a model that has learned the language translates most sentences exactly"


def test_a_model_folder_translates_alike_and_becomes_the_same_checkpoint(run, data_bin, trained):
    before = generate(run, data_bin, trained / "average.pt")["H"]
    again = trained / "again.pt"
    run("aiayn", "export", trained / "model", "--to", "fairseq", "--output", again)
    assert generate(run, data_bin, again)["H"] == before
    text = (data_bin.parent / "test.en").read_text()
    out = run("aiayn", "translate", trained / "model", "--scores", stdin=text).stdout
    lines = [line.split("\t") for line in out.splitlines()]
    assert [line[2] for line in lines] == [line.split("\t")[1] for line in before]
    scores = [float(line.split("\t")[0]) * math.log(2) for line in before]  # fairseq: in bits
    assert [float(line[0]) for line in lines] == pytest.approx(scores, abs=1e-4)
    tuned = run(
        *("fairseq-train", data_bin, *PLUGIN, *SMALL, "--no-save", "--disable-validation"),
        *("--finetune-from-model", again, "--max-update", "1", "--save-dir", trained / "tuned"),
    )
    trained_losses = losses((trained / "train.log").read_text())
    first = float(losses(tuned.stdout + tuned.stderr)[1])
    begin, end = (float(trained_losses[update]) for update in (1, UPDATES))
    assert abs(first - end) < abs(first - begin), "it starts from the weights"


def test_an_ensemble_a_prefix_and_text_without_a_target(run, data_bin, trained, tmp_path):
    """Breaks if monolingual text must not be called "train", as fairseq-preprocess calls it."""
    checkpoints = sorted((trained / "checkpoints").glob("checkpoint_*_*.pt"))[:2]
    lines = generate(run, data_bin, ":".join(map(str, checkpoints)), "--prefix-size", "1")
    for d, t in zip(lines["D"], lines["T"], strict=True):
        assert d.split("\t")[-1].split()[0] == t.split()[0]
    data = shutil.copytree(data_bin, tmp_path / "bin")
    for ending in ("idx", "bin"):
        (data / f"train.en-de.de.{ending}").unlink()
    train = ("--gen-subset", "train", "--beam", "1")
    assert len(generate(run, data, trained / "average.pt", *train)["H"]) == 600


def test_stock_search_and_fairseq_interactive_run_on_the_same_checkpoint(run, data_bin, trained):
    model = trained / "average.pt"
    stock = ("--task", "translation", "--beam", "2", "--required-batch-size-multiple", "1")
    assert len(generate(run, data_bin, model, *stock)["H"]) == 20
    interactive = ("fairseq-interactive", data_bin, *TRANSLATE[:-2], "--path", model)
    assert run(*interactive, stdin="w1 w2 w3\nw4 w5\n").stdout.count("\nH-") == 2


def test_from_pretrained_translates(data_bin, trained):
    from fairseq_aiayn.plugin.model import AiaynModel

    for name in ("dict.en.txt", "dict.de.txt"):
        shutil.copy(data_bin / name, trained)
    hub = AiaynModel.from_pretrained(str(trained), "average.pt", str(data_bin))
    assert hub.cfg.generation.lenpen == 0.6, "the paper's search travels with the checkpoint"
    translations = hub.translate(["w1 w2 w3", "w4"], beam=4)
    assert len(translations) == 2 and translations[0].split()[0] == "v1"
