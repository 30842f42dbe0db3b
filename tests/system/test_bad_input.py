"""A mistake on a fairseq command line ends with one line that says what is wrong and where."""

import re

import pytest
from fairseq_commands import PLUGIN, SMALL, TRANSLATE

pytestmark = pytest.mark.needs_repairs

# fairseq-train whose first batch asks for more memory than there is
WITHOUT_MEMORY = """
import torch
from fairseq.tasks import FairseqTask
from fairseq_cli.train import cli_main

FairseqTask.train_step = lambda *arguments, **options: torch.empty(10**15)
cli_main()
"""


@pytest.fixture(scope="module")
def checkpoint(data_bin, run, tmp_path_factory):
    """A model after one update."""
    folder = tmp_path_factory.mktemp("one")
    run("fairseq-train", data_bin, *PLUGIN, *SMALL, "--max-update", "1", "--save-dir", folder)
    return folder / "checkpoint_last.pt"


def test_a_training_without_memory_says_last_what_to_lower(run, data_bin, tmp_path):
    """Breaks if only a traceback says it, or if the file that is kept says nothing."""
    program, log = tmp_path / "fairseq-train.py", tmp_path / "log"
    program.write_text(WITHOUT_MEMORY)
    words = [data_bin, *PLUGIN, *SMALL, "--save-dir", tmp_path, "--log-file", log]
    done = run("python", program, *words, fails=True)
    assert "Traceback" in done.stderr
    for text in (done.stderr, log.read_text()):
        (said,) = re.findall(r"^fairseq-.*", text, re.MULTILINE)
        line = "fairseq-train: error: out of memory: try --max-tokens 128 --update-freq 2 instead"
        assert said.startswith(line)


@pytest.mark.parametrize("name", ["generate", "interactive", "validate"])
def test_a_model_of_the_other_direction_is_refused(name, run, data_bin, checkpoint):
    """Unless that is overridden. Breaks if all that says so is a BLEU of 0."""
    words = [f"fairseq-{name}", data_bin, *TRANSLATE, "--path", checkpoint]
    reverse = [*words, "-s", "de", "-t", "en"]
    done = run(*reverse, fails=True)
    line = f"fairseq-{name}: error: {checkpoint}: expected -s en -t de, got -s de -t en"
    assert done.stderr.splitlines()[-1] == line
    if name == "generate":
        run(*reverse, "--model-overrides", "{'source_lang': 'de', 'target_lang': 'en'}")
    if name == "validate":
        run(*words, "-s", "en", "-t", "de")
