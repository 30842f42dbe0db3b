"""Trainings and searches on a GPU, or the simulated one: there, no operation mixes devices or
types, no result is in float64, and kernels and waits are at most those of gpu_counts.json."""

import json
import re
from pathlib import Path

import pytest
import torch
from counts import COUNTS, ITS_SIZES, PLUGIN, PRECISIONS, corpus, counts_of
from mirrors import make_corpus
from on_gpu import IS_REAL, python, run_on_gpu
from recipe_runs import RECIPES, SHORT, finish, in_front, mirrored, with_fork_server
from sides import Side
from small_models import SENTENCES, small_model

from fairseq_aiayn.checkpoints import read_checkpoint

pytestmark = pytest.mark.needs_repairs
TASK = [*PLUGIN, "--num-workers", "0", "--task", "aiayn_translation"]
TRAIN = [*TASK, "--arch", "aiayn_tiny", *ITS_SIZES["ours"], "--encoder-layers", "1", "--dropout"]
TRAIN += ["0", "--lr-scheduler", "aiayn_inverse_sqrt", "--warmup-updates", "9", "--max-update", "3"]
TRAIN += ["--optimizer", "aiayn_adam", "--criterion", "aiayn_label_smoothed_cross_entropy"]
TRAIN += ["--max-tokens", "256", "--log-format", "json", "--log-interval", "1"]
TRAININGS = ("", "--amp", "--bf16", "--autocast bfloat16")
TRAININGS += ("--memory-efficient-fp16 --optimizer adam", "--fp16 --report-accuracy")
TRAININGS += ("--fp16 --eval-bleu --eval-bleu-detok space",)
REFUSED = {
    "here + there": "same device",
    "torch.cat([here, there])": "same device",
    "there[rows]": "same device",
    "here @ here.half().T": "same dtype",
    "here.numpy()": "numpy",
}
COUNTED = {  # kernels, waits, copies to the GPU, results in float64
    "here.T[1:].reshape(-1).detach()": [1, 0, 0, 0],
    "here + torch.tensor(1.0)": [1, 0, 0, 0],
    "here[rows]": [1, 0, 0, 0],
    "here[here > 3]": [2, 1, 0, 0],
    "float(here.sum())": [1, 1, 0, 0],
    "here.tolist()": [0, 1, 0, 0],
    "there.copy_(here)": [0, 1, 0, 0],
    "here.copy_(there.to('cuda'))": [1, 0, 1, 0],
    "here.double()": [1, 0, 0, 1],
    "torch._foreach_mul([here[0]] * 111, 2.0)": [2, 0, 0, 0],
    "torch.nn.functional.scaled_dot_product_attention(*[here[None, None]] * 3)": [1, 0, 0, 0],
}


@pytest.fixture(scope="module", autouse=True)
def _gpu():
    try:
        python()
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture
def _simulated():
    if IS_REAL:
        pytest.skip("is of the simulated GPU")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def of_cpu(data, tmp_path_factory):
    """A folder with a model that the CPU has trained in float32, and what this printed; breaks if
    it takes the GPU, as fairseq's norm of the gradient does."""
    folder = tmp_path_factory.mktemp("cpu")
    words = ["fairseq-train", data, *TRAIN, "--cpu", "--save-dir", folder]
    found = run_on_gpu(folder, *words)
    assert not found["all"]["kernels"]
    return folder, found["printed"]


def on_gpu(folder: Path, *words: str | Path, stdin: str = "") -> str:
    """Return what a command prints that must compute something on the GPU, nothing in float64."""
    found = run_on_gpu(folder, *words, stdin=stdin)
    assert found["all"]["kernels"] and not found["all"]["float64"]
    return found["printed"]


def losses(printed: str) -> list[float]:
    return [float(loss) for loss in re.findall(r'"(?:valid_)?loss": "([\d.]+)"', printed)]


@pytest.mark.usefixtures("_simulated")
def test_gpu_refuses_and_counts(tmp_path):
    found = run_on_gpu(tmp_path, "lines", *REFUSED, *COUNTED)["lines"]
    assert {line: found[line] for line in COUNTED} == COUNTED
    assert not [line for line, part in REFUSED.items() if part not in found[line]]


@pytest.mark.parametrize("options", TRAININGS)
def test_gpu_trains_as_the_cpu_does(options, of_cpu, data, tmp_path):
    """But for rounding. Breaks if something is left on the other device."""
    words = ["fairseq-train", data, *TRAIN, *options.split(), "--save-dir", tmp_path]
    found, expected = losses(on_gpu(tmp_path, *words)), losses(of_cpu[1])
    assert len(found) >= 4 and found == pytest.approx(expected, rel=2e-2 if options else 1e-3)


def test_gpu_training_goes_on_to_the_bit(data, tmp_path):
    words = ["fairseq-train", data, *TRAIN, "--fp16", "--dropout", "0.1", "--save-dir"]
    for folder, updates in (("whole", "4"), ("resumed", "2"), ("resumed", "4")):
        on_gpu(tmp_path, *words, tmp_path / folder, "--max-update", updates)
    files = (tmp_path / name / "checkpoint_last.pt" for name in ("whole", "resumed"))
    torch.testing.assert_close(*(read_checkpoint(one)["model"] for one in files), rtol=0, atol=0)


@pytest.mark.parametrize("options", ["", "--fp16", "--search-precision bfloat16"])
def test_gpu_generates_as_the_cpu_does(options, of_cpu, data, tmp_path):
    words = ["fairseq-generate", data, *TASK, "--path", of_cpu[0] / "checkpoint_last.pt"]
    printed = [on_gpu(tmp_path, *words, *options.split())]
    printed += [run_on_gpu(tmp_path, *words, "--cpu")["printed"]]
    found, expected = (re.findall(r"^D-(\d+)\t\S+\t(.*)", each, re.MULTILINE) for each in printed)
    assert len(found) == 6 and (options or sorted(found) == sorted(expected))


def test_gpu_writes_trees(tmp_path):
    small = small_model(tmp_path / "exp", "parser")
    file = small.data / "dict.words.txt"
    file.write_text("".join(f"▁{line}\n" for line in file.read_text().splitlines()))
    words = ["fairseq-interactive", small.data, *PLUGIN, "--task", "aiayn_parsing", "-s", "words"]
    words += ["-t", "tree", "--path", small.checkpoint, "--buffer-size", "2", "--max-len-b", "30"]
    tokens = [line.split()[0] for line in file.read_text().splitlines()]
    text = "".join(" ".join(tokens[:n]) + "\n" for n in (1, 3))  # which end one after the other
    assert on_gpu(tmp_path, *words, "--constrained", "--fp16", stdin=text).count("\nH-") == 2


@pytest.mark.parametrize("command", ["translate", "translate --precision bfloat16", "parse"])
def test_gpu_takes_a_folder(command, folder, parser_folder, tmp_path):
    words, text = ["aiayn", *command.split(), folder], "\n".join(SENTENCES[3:]) + "\n"
    if command == "parse":
        words, text = ["aiayn", command, "--constrained", "--model", parser_folder], "the cat\n"
    printed = on_gpu(tmp_path, *words, "--device", "cuda", stdin=text)
    expected = run_on_gpu(tmp_path, *words, "--cpu", stdin=text)["printed"]
    assert printed == expected or "bfloat16" in command


def test_gpu_is_left_alone_by_an_export_and_by_attention(of_cpu, data, tmp_path):
    """Breaks if one of them takes the GPU for a part of what it does."""
    model = ["--checkpoint", of_cpu[0] / "checkpoint_last.pt", "--data-bin", data]
    (line,) = (data.parent / "test.en").read_text().splitlines()[:1]
    export = ["export", *model, "--output", tmp_path / "folder"]
    shown = ["attention", *model, "--source", line, "--kind", "cross", "--output"]
    for words in (export, [*shown, tmp_path / "picture.svg"]):
        assert not run_on_gpu(tmp_path, "aiayn", *words)["all"]["kernels"]


def test_gpu_takes_a_recipe_from_text_to_bleu(tmp_path):
    manifest = make_corpus(RECIPES / "multi30k", tmp_path / "mirror", "de", 60)
    words = mirrored("multi30k", manifest, *SHORT, "--bpe_codes", "100")
    words[words.index("--train_options") + 1] += " --max-target-positions 40"
    words += ["--exp", tmp_path / "exp", "--target_lang", "de", "--device", "cuda"]
    words += ["--max_update", "2", "--average", "1"]
    done = finish(words, **in_front(python().parent, with_fork_server()))
    run = tmp_path / "exp" / "aiayn-tiny-1"
    settings = json.loads((run / "settings.json").read_text())
    assert (settings["device"], settings["gpus"]) == ("cuda", 1), done.stderr
    assert "--fp16" in settings["commands"]["train"]
    assert "training on 1 devices" in (run / "train.log").read_text()
    assert json.loads((run / "score.json").read_text())["sentences"] == 12


@pytest.mark.usefixtures("_simulated")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_gpu_counts_only_fall(precision, data, tmp_path):
    """python tests/gpu/counts.py writes those that fell."""
    side = Side("ours", precision, "cuda")
    expected = json.loads(COUNTS.read_text())["counts"][side.name]
    for of, found in counts_of(side, data, tmp_path).items():
        assert all(found[kind] <= most for kind, most in expected[of].items()), (of, found)
