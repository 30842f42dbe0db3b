"""The recipes as they stand: dry runs, and the small scripts around training."""

import io
import re
from pathlib import Path

import pytest
from dry_runs import dry_run, stages, value
from recipe_runs import RECIPES, call, failure, in_front, refusal, with_fork_server, write_tool

from fairseq_aiayn.runs import hypotheses, progress

RUNS = sorted(RECIPES.rglob("run.sh"))
DEMO = RECIPES / "demo" / "run.sh"


def shown(script: Path, directory: Path, *options: str) -> dict[str, list[str]]:
    """Return the commands of every stage, from a directory without any data."""
    text = dry_run([script, "--exp", directory / "exp", *options], directory)
    assert not (directory / "exp").exists()
    return stages(text)


@pytest.mark.parametrize("script", RUNS, ids=lambda script: script.parent.name)
def test_every_recipe_has_help_and_a_dry_run(script, tmp_path):
    assert "--dry_run" in call([script, "--help"]).stdout
    # The WSJ is bought; one of Table 3's rows is like the other.
    options = {"wsj_parsing": ("--corpus", "gum"), "table3": ("--rows", "base")}
    assert all(shown(script, tmp_path, *options.get(script.parent.name, ())).values())
    unknown = refusal(call([script, "--epochs", "3"]))
    assert unknown == "run.sh: unknown option --epochs; --help lists the options"


def test_the_demo_runs_these_stages(tmp_path):
    """Two of its own, which make its text; what is in the others, whole runs of recipes show."""
    found = shown(DEMO, tmp_path, "--corpus", "absent", "--device", "cpu")
    text = ["0-set_up", "1-corpus", "2-split", "2-clean", "3-pieces", "3-apply", "4-binarize"]
    of_a_run = ("5-train", "6-average", "7-translate", "8-score")
    runs = [f"{name}-{system}-tiny-1" for system in ("aiayn", "stock") for name in of_a_run]
    assert list(found) == [*text, *runs, "9-table"]
    assert [len(found[name]) for name in ("1-corpus", "2-split")] == [3, 2]


@pytest.mark.parametrize(
    ("source", "commands"),
    [
        ("libreoffice", ["apt-get", "dpkg-deb", "help_corpus.py"]),
        ("homeassistant", ["pip download", "sha256sum --check", "interface_corpus.py"]),
    ],
)
def test_the_demo_gets_either_corpus(tmp_path, source, commands):
    for name in ("apt-get", "apt-cache", "dpkg-deb"):
        write_tool(tmp_path / name, "exit 1")
    words = [DEMO, "--exp", tmp_path / "exp", "--source", source]
    text = dry_run(words, **in_front(tmp_path, with_fork_server()))
    corpus = text.partition("# stage 2")[0]
    assert [command for command in commands if command not in corpus] == []


def test_each_language_has_a_directory_of_its_own():
    """Breaks if the text of a trained model is replaced by that of another language."""
    for language, directory in (("de", "demo"), ("fr", "demo_fr")):
        text = dry_run([DEMO, "--device", "cpu", "--target_lang", language])
        assert set(re.findall(r"/exp/(\w+)/bin ", text)) == {directory}


def test_the_systems_differ_only_where_they_should(tmp_path):
    found = shown(DEMO, tmp_path, "--device", "cpu", "--max_update", "7", "--seeds", "3")
    systems = ("aiayn", "stock")
    ours, stock = (found[f"5-train-{system}-tiny-3"][-1].split() for system in systems)
    # Of either, with other values
    own = {"--task", "--arch", "--criterion", "--lr-scheduler", "--optimizer"}
    assert {word for word in ours if word not in stock} == {
        "aiayn_translation", "aiayn_tiny", "aiayn_label_smoothed_cross_entropy",
        "aiayn_inverse_sqrt", "aiayn_adam", *(word for word in ours if "/aiayn-tiny-3/" in word),
    }  # fmt: skip
    shape = ("layers", "embed-dim", "ffn-embed-dim", "attention-heads")
    assert {word for word in stock if word not in ours and word.startswith("--")} == {
        "--share-all-embeddings", "--lr", "--warmup-init-lr", "--weight-decay",
        *(f"--{side}-{name}" for side in ("encoder", "decoder") for name in shape),
    }  # fmt: skip
    assert own <= set(stock)
    for system in systems:  # or fairseq leaves sentences out
        validate, _, generate, _ = found[f"7-translate-{system}-tiny-3"]
        for command in (found[f"5-train-{system}-tiny-3"][-1], validate, generate):
            assert "--required-batch-size-multiple 1" in command
    for words in (ours, stock):
        assert (value(words, "--max-update"), value(words, "--seed")) == ("7", "3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "both,stock"], "--system must be one of aiayn stock both, got 'both,stock'"),
        (["--device", "tpu"], "--device must be one of auto cpu cuda, got 'tpu'"),
        (["--max_words", "0x10"], "--max_words must be a whole number, got '0x10'"),
    ],
)
def test_wrong_values_of_the_demo(tmp_path, arguments, message):
    line = refusal(call([DEMO, "--dry_run", "--exp", tmp_path, *arguments]))
    assert line == f"run.sh: {message}"


def test_a_broken_corpus_ends_the_demo_with_file_and_line(tmp_path):
    for command in ("fairseq-train", "subword-nmt"):
        tools = write_tool(tmp_path / "bin" / command, "")
    (tmp_path / "a.en").write_bytes(b"one\ntwo\n")
    (tmp_path / "a.de").write_bytes(b"eins\nzw\xe4i\n")
    words = [DEMO, "--exp", tmp_path / "exp", "--corpus", tmp_path]
    words += ["--device", "cpu", "--needs_mb", "1"]
    result = call(words, **in_front(tools, with_fork_server()))
    message = f"plain_corpus: {tmp_path}/a.de:2: byte 3 (0xe4) is not UTF-8"
    assert failure(result, "data.sh", "1-corpus") == message
    assert not (tmp_path / "exp" / "corpus").exists()


# --- the scripts around training ---


def test_hypotheses_come_in_the_order_of_the_test_set():
    lines = ["S-1\tx", "D-1\t-0.5\tzwei", "D-1\t-0.9\tnot best", "D-0\t-0.1\teins", "D-2\t-1\t"]
    assert hypotheses.hypotheses(lines) == ["eins", "zwei", ""]
    with pytest.raises(ValueError, match="sentence 1 has none"):
        hypotheses.hypotheses(["D-0\t0\ta", "D-2\t0\tb"])


def test_progress_shows_statistics_and_the_log_keeps_the_text(tmp_path, capsys):
    inner = '{"epoch": 1, "loss": "9.1", "ppl": "77.5", "wps": "2450", "num_updates": "400"}'
    lines = [
        "2026-01-31 12:00:00 | INFO | fairseq_cli.train | {'max_update': 1450, 'lr': 1}\n",
        f"2026-01-31 12:00:01 | INFO | train_inner | {inner}\n",
        '2026-01-31 12:00:02 | INFO | valid | {"valid_ppl": "8.5", "valid_num_updates": "400"}\n',
        "10%|#   |\r",
        "2026-01-31 12:00:03 | WARNING | fairseq_aiayn.nn.cpu_kernels | slow\n",
        "2026-01-31 12:00:03 | WARNING | fairseq.tasks | not ours\n",
    ]
    progress.show(progress.copy_to_log(io.StringIO("".join(lines), newline=""), tmp_path / "log"))
    terminal = capsys.readouterr().err
    assert "400/1450" in terminal
    assert "perplexity 77.5, 2450 tokens/s" in terminal
    assert "update    400: development perplexity 8.5" in terminal
    assert "10%|#   |\r" in terminal
    assert "  warning: slow\n" in terminal and "not ours" not in terminal
    assert (tmp_path / "log").read_text() == "".join(lines[:3] + lines[4:])
