"""The commands that recipes run, as their dry runs print them."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from patience import PATIENCE
from recipe_runs import (
    RECIPES,
    call,
    environment,
    failure,
    finish,
    kill_session,
    refusal,
    start,
    wait_until,
    write_tool,
)

NAMES = ("demo", "multi30k", "wmt14_en_de", "wmt14_en_fr", "wsj_parsing", "table3", "own_text")
DEMO, MULTI30K, GERMAN, FRENCH, PARSING, TABLE3, OWN = (RECIPES / each / "run.sh" for each in NAMES)
OF_OWN = ("--source_lang", "de", "--target_lang", "en", "--corpus")
RECIPE = {DEMO: (), MULTI30K: (), GERMAN: (), FRENCH: ()}
RECIPE |= {PARSING: ("--corpus", "gum"), TABLE3: ("--rows", "base", "--")}
CPU, EIGHT = ("--device", "cpu"), ("--gpus", "8")
LEARN = f"python {RECIPES}/module.py fairseq_aiayn.corpus.subwords learn"


def dry_run(words: Sequence[object], directory: Path | None = None, /, **variables: str) -> str:
    recipe, *options = words
    result = call([recipe, "--dry_run", *options], directory, **variables)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def commands(text: str, *names: str) -> list[list[str]]:
    begins = tuple(f"{name} " for name in names)
    return [shlex.split(line) for line in text.splitlines() if line.startswith(begins)]


def value(words: Sequence[str], flag: str) -> str | None:
    """Return the last value of a flag: the one that counts."""
    return next((after for word, after in reversed([*pairwise(words)]) if word == flag), None)


def training(*words: object, **variables: str) -> list[str]:
    starts = "fairseq-train", "torchrun", "srun"
    (found,) = commands(dry_run(words, **variables), *starts)
    return found


@pytest.mark.parametrize("recipe", RECIPE)
def test_every_recipe_has_a_dry_run_that_makes_nothing(recipe, tmp_path):
    """A finished experiment is shown in the same way, and nothing comes from the environment."""
    words = [recipe, "--exp", tmp_path, *RECIPE[recipe], "--device", "cuda"]
    shown = dry_run(words, tmp_path)
    assert {"fairseq-preprocess", "fairseq-train", "fairseq-generate"} <= set(shown.split())
    subprocess.run(["bash", "-n"], input=shown, text=True, check=True)
    assert list(tmp_path.iterdir()) == []
    for name in (".done", "table"):
        (tmp_path / name).mkdir()
    (tmp_path / "table/report.html").touch()
    assert dry_run(words, tmp_path, **every_name_of_the_scripts()) == shown
    assert not (tmp_path / "mark").exists()


# What recipes, or the programs that they run, mean to read
READ = r"""PATH|PYTHONPATH|HOME|PWD|TERM|TMPDIR|LC_ALL|AIAYN_MIRROR|CUDA_VISIBLE_DEVICES|\w+_proxy
    |OMP_NUM_THREADS|GOMP_SPINCOUNT|SLURM_\w+|PYTHON\w+|(BASH|TORCH|TQDM)_\w+|BASHPID|EUID"""


def every_name_of_the_scripts() -> dict[str, str]:
    """Return an environment with every name that a recipe's script has but those of READ."""
    text = "\n".join(path.read_text() for path in RECIPES.rglob("*.sh"))
    names = {*re.findall(r"[A-Za-z_]\w*", text), "CDPATH", "GLOBIGNORE"}
    names = {name for name in names if not re.fullmatch(READ, name, re.VERBOSE)}
    own = subprocess.run(["bash", "-c", "compgen -bk"], capture_output=True, text=True, check=True)
    functions = {name for name in names if name.islower()} - {*own.stdout.split(), "dirname"}
    ends = {f"BASH_FUNC_{name}%%": "() { touch mark; exit 7; }" for name in functions}
    return dict.fromkeys(names, "x[$(touch mark)]") | ends


@pytest.mark.parametrize(
    ("recipe", "updates", "warmup", "interval"),
    [
        (DEMO, "6000", "1000", "500"),
        (MULTI30K, "4000", "2000", "200"),
        (PARSING, "12000", "4000", "600"),
    ],
)
def test_a_small_corpus_has_a_budget_shared_by_all_gpus(recipe, updates, warmup, interval):
    shown = dry_run([recipe, *RECIPE[recipe], *EIGHT, "--system=stock"])
    words, *_ = commands(shown, "torchrun")  # GUM tries several rates of dropout
    assert value(words, "--max-update") == updates
    assert value(words, "--warmup-updates") == warmup
    assert value(words, "--save-interval-updates") == interval
    assert 8 * int(value(words, "--max-tokens")) * int(value(words, "--update-freq")) == 4096


def test_options_change_the_rows_flags_and_train_options_come_last():
    """Nine checkpoints are just what there is to average."""
    options = {"max_update": "810", "warmup": "30", "interval": "90", "lr_factor": "0.5"}
    given = [word for name, text in options.items() for word in (f"--{name}", text)]
    last = ("--tensorboard", "--train_options", "--dropout 0.4\n--clip-norm 1")
    words = training(GERMAN, *CPU, *given, "--patience", "8", "--average", "9", *last)
    assert value(words, "--max-update") == "810" and value(words, "--warmup-updates") == "30"
    assert value(words, "--save-interval-updates") == "90" and value(words, "--patience") == "8"
    assert value(words, "--keep-interval-updates") == "9" and value(words, "--lr-factor") == "0.5"
    assert words[-4:] == ["--dropout", "0.4", "--clip-norm", "1"]
    assert value(words, "--tensorboard-logdir").endswith("/aiayn-base-1/tensorboard")
    assert value(training(GERMAN, *CPU), "--patience") is None


def test_section_63(tmp_path):
    shown = dry_run([PARSING, "--treebank", tmp_path, "--row", "parsing", *CPU, "--system", "both"])
    calls = commands(shown, "aiayn linearize")
    sections = [[Path(w).name for w in words if w.startswith(f"{tmp_path}/")] for words in calls]
    assert sections == [[f"{n:02d}" for n in range(2, 22)], ["22"], ["23"]]
    assert [value(words, "--longest") for words in calls] == ["512", None, None]
    (learned,) = commands(shown, LEARN)
    assert value(learned, "--vocabulary") == "16000"
    shown = dry_run([PARSING, "--treebank", tmp_path, *CPU, "--constrained", "--system", "both"])
    assert ["--constrained" in one for one in commands(shown, "fairseq-generate")] == [True, False]


def test_silver_trees_double_the_vocabulary_and_stand_beside_copies_of_the_gold(tmp_path):
    (tmp_path / "silver.gz").touch()
    words = [PARSING, "--treebank", tmp_path, *CPU, "--silver", tmp_path / "silver.gz"]
    shown = dry_run([*words, "--gold_copies", "10"])
    (learned,) = commands(shown, LEARN)
    assert value(learned, "--vocabulary") == "32000"
    (train,) = commands(shown, "fairseq-train")
    assert value(train, "--upsample-primary") == "10"
    assert "bin/train1.words-tree.tree.bin" in shown


def test_the_vocabulary_has_the_size_of_section_5_1():
    """Breaks if each string of characters that no piece has becomes a type of the vocabulary."""
    (german,) = commands(dry_run([GERMAN, *CPU]), "subword-nmt learn-bpe")
    assert value(german, "--symbols") == "37000" and "--total-symbols" in german
    learned, words = commands(dry_run([FRENCH, *CPU]), LEARN, "fairseq-preprocess")
    assert value(learned, "--vocabulary") == "32000"
    assert value(words, "--srcdict").endswith("/subwords/dict.txt")
    assert "--joined-dictionary" in words


def gpus(tmp_path: Path, count: int) -> dict[str, str]:
    """Return variables with which a machine seems to have so many GPUs, each cut by MIG."""
    lines = "".join(f"echo GPU {n}: H100\necho '  MIG 1g.10gb'\n" for n in range(count))
    path = write_tool(tmp_path / "nvidia" / "nvidia-smi", lines)
    return {"PATH": f"{path}:{environment()['PATH']}"}


def test_all_gpus_are_used_that_are_visible(tmp_path):
    tools = gpus(tmp_path, 4)
    words = training(GERMAN, **tools)
    assert value(words, "--nproc-per-node") == "4" == value(words, "--distributed-world-size")
    assert "--cpu" not in words and {"--fp16", "--eval-bleu"} <= set(words)
    for visible, count in (("0", "1"), ("2,3", "2"), ("1,-1,2", "1")):
        words = training(GERMAN, **tools, CUDA_VISIBLE_DEVICES=visible)
        assert value(words, "--distributed-world-size") == count


def test_without_a_gpu_the_cpu_trains(tmp_path):
    words = training(GERMAN, **gpus(tmp_path, 0))
    assert words[0] == "fairseq-train" and "--cpu" in words and "--eval-bleu" not in words
    assert "at most the 1 here" in refusal(call([GERMAN, *EIGHT], **gpus(tmp_path, 1)))
    assert training(GERMAN, *EIGHT, **gpus(tmp_path, 1)), "only shown"


def test_bf16_is_each_systems_own():
    shown = dry_run([GERMAN, "--precision", "bf16", "--system", "both", "--gpus", "1"])
    ours, stock = commands(shown, "fairseq-train")
    assert value(ours, "--autocast") == "bfloat16" and "--bf16" not in ours
    assert "--bf16" in stock and "--autocast" not in stock
    first, *checks = commands(shown, "aiayn check")
    assert checks == [["aiayn", "check", "--gpus", "1", "--precision", "bf16"]] * 2
    assert (value(first, "--gpus"), value(first, "--precision")) == ("1", "bf16")


def test_tf32_is_of_both_systems_and_of_gpus_alone():
    shown = dry_run([GERMAN, "--precision", "tf32", "--system", "both", "--gpus", "2"])
    trainings = [words for words in commands(shown, "env") if "fairseq-train" in words]
    assert len(trainings) == 2
    for words in trainings:
        assert words[:3] == ["env", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1", "torchrun"]
        assert not {"--fp16", "--bf16", "--autocast"} & {*words}
    refused = refusal(call([GERMAN, "--precision", "tf32", "--device", "cpu"]))
    assert refused.endswith("--precision tf32 needs a GPU (--gpus N): a CPU has fp32 and bf16")


def test_processes_start_by_torchrun_on_one_node_and_on_several():
    words = training(DEMO, *CPU, "--gpus", "2", "--system", "aiayn")
    assert words[:3] == ["torchrun", "--standalone", "--nproc-per-node"]
    assert value(words, "--distributed-backend") == "gloo"
    assert value(words, "--distributed-rank") == "-1"
    node = ("--nodes", "2", "--master", "n0:29500", *EIGHT)
    words = training(GERMAN, *node)
    assert value(words, "--rdzv-endpoint") == "n0:29500" and value(words, "--nnodes") == "2"
    assert value(words, "--distributed-world-size") == "16"
    tokens = 16 * int(value(words, "--max-tokens")) * int(value(words, "--update-freq"))
    assert 24_000 < tokens <= 25_100, "the batch is shared by all"
    shown = dry_run([GERMAN, *node, "--node_rank", "1"])
    assert re.findall("(?m)^# stage (.*)", shown) == ["5-train, node-1"]  # other nodes only train
    (other,) = commands(shown, "torchrun")
    hosts = (value(each, "--rdzv-conf").partition("is_host=")[2] for each in (words, other))
    assert [*hosts] == ["1", "0"] and len({*words} ^ {*other}) == 2


def test_within_slurm_srun_starts_torchrun_on_each_node(tmp_path):
    hosts = write_tool(tmp_path / "slurm" / "scontrol", 'echo "$3" | tr , "\\n"\n')
    job = {"SLURM_JOB_ID": "12345", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n7,n8"}
    path = {"PATH": f"{hosts}:{environment()['PATH']}"}
    words = training(GERMAN, *EIGHT, "--nodes", "2", **job, **path)
    assert words[0] == "srun" and value(words, "--rdzv-endpoint") == "n7:22345"
    wrong = call([GERMAN, *EIGHT], **job, **path)
    assert "--nodes must be the job's 2, got '1'" in refusal(wrong)


@pytest.mark.parametrize(("number", "again"), [(signal.SIGTERM, False), (signal.SIGUSR1, True)])
def test_a_job_ends_its_recipe_and_is_queued_again_if_its_time_is_up(tmp_path, number, again):
    scontrol = write_tool(tmp_path / "slurm" / "scontrol", f'echo "$*" >{tmp_path}/queued\n')
    recipe = f"trap 'touch {tmp_path}/ended; exit' TERM\ntouch \"$1\"\nsleep 600 & wait\n"
    write_tool(tmp_path / "job" / "run.sh", recipe)
    begun, errors = tmp_path / "has begun", tmp_path / "errors"
    words = [RECIPES / "slurm.sbatch", tmp_path / "job" / "run.sh", begun]
    path = f"{scontrol}:{os.environ['PATH']}"
    process = start(["bash", *words], errors, PATH=path, SLURM_JOB_ID="7")
    wait_until(begun.exists, process, errors)
    process.send_signal(number)
    process.wait(PATIENCE)
    kill_session(process)
    assert (tmp_path / "ended").exists()
    assert (tmp_path / "queued").exists() == again


WRONG = {
    DEMO: [
        (["--bpe_codes", "0"], "--bpe_codes must be a whole number from 1 to 999999999, got '0'"),
        (["--max_words", "0"], "--max_words must be auto or a whole number from 1 to 1000"),
    ],
    OWN: [
        (["--source_lang", "de-DE"], "--source_lang must be a code such as de or pt_BR"),
        ([*OF_OWN, "none"], "--corpus must be a directory with your text, got 'none'"),
        ([*OF_OWN, "."], "expected train.de and train.en, or train.tsv, plain or .gz, got none"),
        ([*OF_OWN, ".", "--from", "x", "--system", "both"], "--from takes no --system, --row or"),
    ],
    GERMAN: [
        (["--row", "bsae"], "this training is not possible"),
        (["--system", "stok"], "--system must be one of aiayn stock both, got 'stok'"),
        (["--seeds", "1 1"], "--seeds must be different whole numbers up to 999999999, got '1 1'"),
        (["--seeds", " "], "--seeds must be different whole numbers"),
        (["--patience", "9" * 20], "--patience must be never or a whole number"),
        (["--seeds", "4294967296"], "--seeds must be different whole numbers"),
        (["--batch_tokens", "1"], "--batch_tokens must be auto or a whole number from 64"),
        (["--patience", "3"], "--average 5 needs more"),
        (["--train_options", "--max-update 3", "--interval", "1"], "make 3"),
        (["--precision", "fp16"], "--precision fp16 needs a GPU"),
        (["--nodes", "2"], "needs --master HOST:PORT"),
        (["--nodes", "2", "--master", "a:99999"], "must be the HOST:PORT of node 0"),
        (["--nodes", "2", "--master", ":29500"], "must be the HOST:PORT of node 0"),
        (["--master", "a:1"], "node 0 of several --nodes, got 'a:1'"),
        (["--nodes", "2", "--master", "a:1", "--seeds", "1 2"], "takes one system and one seed"),
        (["--node_rank", "1"], "--node_rank must be a whole number from 0 to 0"),
        (["--source_lang", "de"], "--source_lang and --target_lang must differ"),
        (["--manifest", "none.toml"], "none.toml: No such file or directory"),
    ],
    PARSING: [
        (["--treebank", "none"], "--corpus wsj needs --treebank DIR"),
        (["--corpus", "gum", "--lists", "."], "--corpus gum takes no --treebank or --lists"),
        (["--corpus", "gum", "--dropouts", "1.5"], "--dropouts must be 0 or decimals below 1"),
        (["--corpus", "gum", "--silver", "none"], "--silver must name files, there is no 'none'"),
        (["--treebank", ".", "--gold_copies", "2"], "there is nothing to mix with"),
        (["--corpus", "gum", "--constrained", "--system", "stock"], "stock fairseq has none"),
    ],
    TABLE3: [
        (["--rows", "tiny"], "--rows must be rows of Table 3, got 'tiny'"),
        (["--corpus", "../demo"], "--corpus must name a recipe"),
        (["--rows", "base", "--", "--patience", "3"], "--patience cannot stand after --"),
        (["--", "--stop-stage=4"], "--stop-stage cannot stand after --"),
        (["--", "--dry_run"], "--dry_run cannot stand after --"),
        (["--gpus", "8"], "it stands after --: recipes/table3/run.sh -- --gpus 8"),
        (["--corpus", "multi30k", "--bpe-codes=9"], "recipes/table3/run.sh -- --bpe-codes 9"),
    ],
}


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [(recipe, *wrong) for recipe, wrongs in WRONG.items() for wrong in wrongs],
)
def test_wrong_options_are_one_line_before_anything_is_made(tmp_path, recipe, options, message):
    start = [recipe, "--exp", tmp_path / "exp", *(() if recipe == TABLE3 else CPU)]
    result = call([*start, *options], tmp_path)
    assert result.returncode == 1 and message in result.stderr.splitlines()[-1], result.stderr
    assert result.stderr.count("\n") <= 2 and list(tmp_path.iterdir()) == []


def test_table_3_trains_every_row_and_seed_on_one_text():
    shown = dry_run([TABLE3, "--rows", "base big", "--seeds", "1 2", "--", *CPU])
    assert value(commands(shown, "aiayn check")[0], "--row") == "big"  # which needs the most
    trained = commands(shown, "fairseq-train")
    arches = [(value(words, "--arch"), value(words, "--seed")) for words in trained]
    rows = "aiayn_base", "aiayn_big"
    assert arches == [(row, seed) for row in rows for seed in ("1", "2")]
    assert len({words[1] for words in trained}) == 1 == len(commands(shown, "fairseq-preprocess"))
    task = dry_run([TABLE3, "--rows", "base a_h1", "--", *CPU], SLURM_ARRAY_TASK_ID="1")
    (words,) = commands(task, "fairseq-train")
    assert value(words, "--arch") == "aiayn_a_h1"


def test_each_job_of_an_array_has_one_seed_and_system():
    options = ("--system", "both", "--seeds", "3 5")
    trained = [
        commands(
            dry_run([MULTI30K, *CPU, *options], SLURM_ARRAY_TASK_ID=str(task)), "fairseq-train"
        )
        for task in range(4)
    ]
    tasks = [value(words, "--task") for (words,) in trained]
    assert tasks == ["aiayn_translation"] * 2 + ["translation"] * 2
    assert [value(words, "--seed") for (words,) in trained] == ["3", "5", "3", "5"]
    said = refusal(call([MULTI30K, *CPU, *options], SLURM_ARRAY_TASK_ID="4"))
    assert "there are 4 runs, numbers 0 to 3, got 4" in said


# --- stage 0: what a later stage would lack ends a recipe before it makes anything ---


MADE_AT_ONCE = {".done", ".lock", ".part", "options.txt", "recipe.log"}
ALONE = ((MULTI30K, *CPU), (TABLE3, "--corpus", "multi30k", "--rows", "base"))


def test_without_fairseq_nothing_is_downloaded(tmp_path):
    tools, exp = tmp_path / "tools", tmp_path / "exp"
    for name in ("aiayn", "python"):
        write_tool(tools / name, f'exec {shutil.which(name)} "$@"\n')
    result = call([MULTI30K, *CPU, "--exp", exp], PATH=f"{tools}:/usr/bin:/bin")
    line = failure(result, "0-check")
    assert "fairseq-preprocess is not on PATH" in line and "pip install" in line
    assert not (exp / "downloads").exists() and " stage 1-" not in result.stderr


@pytest.mark.parametrize("recipe", ALONE)
def test_stage_0_alone_makes_nothing_and_may_be_asked_for_at_any_time(tmp_path, recipe):
    exp = tmp_path / "exp"
    for _ in range(2):
        assert "GiB free" in finish([*recipe, "--exp", exp, "--stop_stage", "0"]).stderr
        assert {path.name for path in exp.iterdir()} <= MADE_AT_ONCE
        (exp / ".done").mkdir(exist_ok=True)
        (exp / ".done/4-binarize").touch()
