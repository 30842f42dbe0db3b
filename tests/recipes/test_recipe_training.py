"""How recipes start trainings on one GPU or many nodes, and go on after failures."""

import re
import signal
from pathlib import Path

import pytest
from dry_runs import commands, dry_run, value
from patience import PATIENCE
from recipe_runs import (
    RECIPES,
    call,
    in_front,
    refusal,
    start,
    wait_for,
    with_fork_server,
    write_tool,
)

from fairseq_aiayn.runs import record

WMT = RECIPES / "wmt14_en_de" / "run.sh"


def train_command(directory: Path, *options: str, **environment) -> list[str]:
    """Return the words of the fairseq-train command that a dry run shows."""
    text = dry_run([WMT, "--stage", "5", *options], directory, **environment)
    (words,) = commands(text, "fairseq-train", "torchrun", "srun")
    return words


def with_tool(path: Path, body: str) -> dict[str, str]:
    """Return variables with which a recipe finds a program of this name before all others."""
    return in_front(write_tool(path, body), with_fork_server())


def no_gpu(directory: Path) -> dict[str, str]:
    return with_tool(directory / "no_gpu" / "nvidia-smi", "exit 9")


def gpus(directory: Path, count: int, capability: str) -> dict[str, str]:
    """Return variables with which the driver knows so many GPUs."""
    body = f"""
case $* in
--list-gpus) for ((i = 0; i < {count}; i++)); do echo "GPU $i"; done ;;
*compute_cap*) for ((i = 0; i < {count}; i++)); do echo {capability}; done ;;
esac
"""
    return with_tool(directory / "gpus" / "nvidia-smi", body)


# --- where it runs ---


@pytest.mark.parametrize(
    ("count", "capability", "precision"),
    [(8, "9.0", "--fp16"), (2, "7.0", "--fp16"), (1, "6.1", None)],
)
def test_all_gpus_are_used_in_the_precision_they_are_fast_in(
    tmp_path, count, capability, precision
):
    words = train_command(tmp_path, **gpus(tmp_path, count, capability))
    assert value(words, "--distributed-world-size") == str(count)
    assert {"--fp16", "--bf16"} & set(words) == ({precision} if precision else set())
    batch = count * int(value(words, "--max-tokens")) * int(value(words, "--update-freq"))
    assert 25_000 <= batch < 25_100


@pytest.mark.parametrize(
    ("visible", "count"),
    [("2,5", 2), ("GPU-5f-a, GPU-7-b,GPU-9", 3), ("1,-1,2", 1), ("", 0), ("-1", 0), ("-1,0", 0)],
)
def test_only_visible_gpus_count(tmp_path, visible, count):
    """CUDA hides those from the first negative number on, and all if the list is empty."""
    words = train_command(tmp_path, **gpus(tmp_path, 8, "9.0"), CUDA_VISIBLE_DEVICES=visible)
    assert ("--cpu" in words) == (count == 0)
    assert count == 0 or value(words, "--distributed-world-size") == str(count)


def test_without_a_gpu_the_cpu_trains_and_asked_for_gpus_are_taken_on_trust(tmp_path):
    tools = no_gpu(tmp_path)
    words = train_command(tmp_path, **tools)
    assert "--cpu" in words and "--distributed-world-size" not in words
    assert not {"--fp16", "--bf16"} & set(words)
    words = train_command(tmp_path, "--gpus", "8", "--precision", "fp32", **tools)
    assert "--cpu" not in words and value(words, "--distributed-world-size") == "8"
    assert not {"--fp16", "--bf16"} & set(words)


@pytest.mark.parametrize(
    ("system", "device", "flags"),
    [
        ("aiayn", "cuda", {"--autocast"}),
        ("aiayn", "cpu", {"--autocast", "--cpu"}),
        ("stock", "cuda", {"--bf16"}),
        ("stock", "cpu", {"--cpu"}),
    ],
)
def test_bf16_is_each_systems_own(tmp_path, system, device, flags):
    """Breaks if checkpoints of ours keep 8 bits of a weight, or a CPU gets what ends in errors."""
    options = ("--precision", "bf16", "--device", device, "--gpus", "1", "--system", system)
    words = train_command(tmp_path, *options, **no_gpu(tmp_path))
    assert {"--autocast", "--bf16", "--fp16", "--cpu"} & set(words) == flags
    assert "--autocast" not in words or value(words, "--autocast") == "bfloat16"


def test_several_processes_of_a_node_start_by_torchrun(tmp_path):
    """Breaks if fairseq spawns them, which takes minutes an epoch with data loaders."""
    for options in (("--gpus", "2"), ("--device", "cpu", "--gpus", "2")):
        words = train_command(tmp_path, *options, **no_gpu(tmp_path))
        assert words[:2] == ["torchrun", "--standalone"]
        assert value(words, "--nproc-per-node") == value(words, "--distributed-world-size") == "2"
        batch = 2 * int(value(words, "--max-tokens")) * int(value(words, "--update-freq"))
        assert 25_000 <= batch < 25_100


def test_nodes_share_the_batch_through_torchrun(tmp_path):
    words = train_command(
        tmp_path,
        *("--gpus", "4", "--nodes", "2", "--node_rank", "1", "--master", "node0:29500"),
    )
    assert words[0] == "torchrun"
    assert words[words.index("--no-python") + 1] == "fairseq-train"
    assert [value(words, f"--{flag}") for flag in ("nnodes", "nproc-per-node")] == ["2", "4"]
    assert value(words, "--rdzv-endpoint") == "node0:29500"
    assert value(words, "--distributed-world-size") == "8"
    assert 8 * int(value(words, "--max-tokens")) * int(value(words, "--update-freq")) == 25_000


def test_within_slurm_srun_starts_torchrun_on_each_node(tmp_path):
    tools = with_tool(tmp_path / "slurm" / "scontrol", 'printf "%s\n" "$3"-1 "$3"-2')
    job = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "host"}
    words = train_command(tmp_path, "--gpus", "8", "--nodes", "2", **tools, **job)
    assert words[0] == "srun"
    assert (value(words, "--nodes"), value(words, "--ntasks-per-node")) == ("2", "1")
    assert words.index("torchrun") < words.index("--nnodes")
    assert value(words, "--rdzv-endpoint") == "host-1:20007"
    assert value(words, "--distributed-world-size") == "16"


def test_train_options_come_last_so_that_they_change_everything(tmp_path):
    further = ("--train_options", "--num-workers 9 --log-interval 7 --save-dir elsewhere")
    for options in ((), ("--dev_score", "true", "--best_by", "score")):
        words = train_command(tmp_path, *further, *options, "--device", "cpu")
        assert words[-6:] == further[1].split()


# Says that it has begun, and when it is told to end.
RECIPE = """
trap 'touch "$1/ended"; exit 143' TERM
touch "$1/begun"
for _ in {1..6000}; do sleep 0.1; done
"""


@pytest.mark.parametrize(
    ("told", "status", "queued"), [(signal.SIGUSR1, 0, "requeue 7\n"), (signal.SIGTERM, 143, "")]
)
def test_a_job_ends_its_recipe_and_is_queued_again_if_its_time_is_up(
    tmp_path, told, status, queued
):
    """Breaks if a cancelled job comes back, or training goes on when Slurm kills the job."""
    recipe = write_tool(tmp_path / "sample" / "run.sh", RECIPE) / "run.sh"
    asked, errors = tmp_path / "asked", tmp_path / "errors"
    asked.touch()
    tools = with_tool(tmp_path / "tools" / "scontrol", f'echo "$*" >{asked}\n')
    words = ["bash", RECIPES / "slurm.sbatch", recipe, tmp_path]
    job = start(words, errors, **tools, SLURM_JOB_ID="7")
    wait_for(tmp_path / "begun", job, errors)
    job.send_signal(told)
    assert job.wait(PATIENCE) == status, errors.read_text()
    assert (tmp_path / "ended").exists() and asked.read_text() == queued


def test_gpus_that_pytorch_does_not_see_are_one_line(monkeypatch):
    monkeypatch.setattr("sys.argv", ["record.py", "check", "--gpus", "99"])
    message = r"^record: expected 99 GPUs, torch \S+ sees \d$"
    with pytest.raises(SystemExit, match=message):
        record.main()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nodes", "2"], "--nodes 2 needs --master HOST:PORT, the address of node 0, or Slurm"),
        (["--gpus", "0", "--device", "cpu"], "--gpus must be at least 1, got '0'"),
        (["--node_rank", "1"], "--node_rank must be less than --nodes 1, got '1'"),
        (["--precision", "int8"], "--precision must be one of auto fp32 fp16 bf16, got 'int8'"),
        (
            ["--precision", "fp16", "--device", "cpu"],
            "--precision fp16 needs a GPU: a CPU has fp32 and bf16",
        ),
        (["--average", "0"], "--average must be at least 1, got '0'"),
        (["--gpus", "two"], "--gpus must be a whole number, got 'two'"),
        (["--subset", "train"], "--subset must be one of test valid, got 'train'"),
        (["--run", "a/b"], "--run must be a plain file name, got 'a/b'"),
        (["--system", "both", "--prepared", "x"], "--prepared takes one system, got both"),
        (["--workers", "0"], "--workers must be at least 1, got '0'"),
        (["--mirror", "absent"], "--mirror must be a directory, got"),
    ],
)
def test_wrong_options_are_one_line(tmp_path, options, message):
    line = refusal(call([WMT, "--dry_run", *options], tmp_path))
    assert line.startswith(f"run.sh: {message}")


def test_the_other_direction_has_a_directory_of_its_own(tmp_path):
    """Breaks if it replaces the text of the first, which takes half an hour to prepare."""
    reverse = ("--source_lang", "de", "--target_lang", "en", "--stop_stage", "2")
    for options, name in (((), "wmt14_en_de"), (reverse, "wmt14_de_en")):
        text = dry_run([WMT, *options], tmp_path)
        assert {name} == set(re.findall(r"/exp/(wmt14_\w+)", text))


def test_no_more_is_asked_for_than_there_is(tmp_path):
    def refused(*options, **environment):
        tools = gpus(tmp_path, 4, "9.0")
        return refusal(call([WMT, "--dry_run", *options], tmp_path, **tools, **environment))

    assert refused("--gpus", "8") == "run.sh: --gpus must be at most the 4 here, got '8'"
    job = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2"}
    assert refused("--gpus", "4", **job) == "run.sh: --nodes must be the job's 2, got '1'"


def test_an_unknown_row_and_one_that_stock_fairseq_cannot_build(tmp_path):
    result = call([WMT, "--dry_run", "--row", "huge"], tmp_path)
    assert result.returncode == 1
    assert "unknown row 'huge'" in result.stderr
    result = call([WMT, "--dry_run", "--row", "b_dk16", "--system", "stock"], tmp_path)
    assert result.returncode == 1
    assert "b_dk16" in result.stderr and "d_k" in result.stderr


# --- with which budget ---


def test_a_shorter_training_keeps_the_proportion_of_checkpoints(tmp_path):
    words = train_command(tmp_path, "--max_update", "20000")
    assert value(words, "--max-update") == "20000"
    assert value(words, "--save-interval-updates") == "300"  # 1,500 of 100,000
    assert value(words, "--keep-interval-updates") == "5"
    words = train_command(tmp_path, "--max_update", "30", "--average", "7", "--interval", "3")
    assert value(words, "--save-interval-updates") == "3"
    assert value(words, "--keep-interval-updates") == "7"
    # One more thing to evaluate later must not need another training.
    assert value(train_command(tmp_path, "--average", "1"), "--keep-interval-updates") == "5"
    assert value(train_command(tmp_path, "--max_update", "10"), "--save-interval-updates") == "1"


def test_checkpoints_to_average_are_counted_with_the_options_that_override_the_rows(tmp_path):
    def call_with(further: str):
        return call([WMT, "--dry_run", "--stage", "5", "--train_options", further], tmp_path)

    assert call_with("--max-update 200000 --save-interval-updates=40000").returncode == 0
    for further, message in (
        ("--save-interval-updates=40000", "one every 40000 (--interval) make 2"),
        ("--max-update 4000", "4000 updates with one every 1500 (--interval) make 2"),
        ("--max-update 0 --max-epoch 9", "--max-update must be a whole number from 1, got '0'"),
    ):
        result = call_with(further)
        assert result.returncode == 1 and result.stderr.endswith(f"{message}\n"), result.stderr


def test_a_batch_of_ones_own_is_shared_by_all_gpus(tmp_path):
    words = train_command(tmp_path, "--gpus", "2", "--batch_tokens", "4096")
    assert (value(words, "--max-tokens"), value(words, "--update-freq")) == ("2048", "1")


def test_stock_fairseq_reaches_equation_3s_peak_after_another_warm_up_too(tmp_path):
    def peak(*options):
        return float(value(train_command(tmp_path, "--system", "stock", *options), "--lr"))

    assert peak("--warmup", "1000") == pytest.approx(2 * peak("--warmup", "4000"), rel=1e-6)


def test_the_final_model_is_evaluated_where_none_are_averaged(tmp_path):
    alone = dry_run([WMT, "--average", "1", "--subset", "valid"], tmp_path)
    assert "# stage 6" not in alone and "aiayn average" not in alone
    (generate,) = commands(alone, "fairseq-generate")
    assert value(generate, "--path").endswith("/checkpoint_last.pt")
    assert value(generate, "--gen-subset") == "valid"
    assert "/data/valid.de" in alone
    averaged = dry_run([WMT, "--row", "big"], tmp_path)
    assert "aiayn average --last 20" in averaged
    (generate,) = commands(averaged, "fairseq-generate")
    assert value(generate, "--path").endswith("/average.pt")
