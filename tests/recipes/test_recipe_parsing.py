"""recipes/wsj_parsing: its options, its dry runs, and what bad trees end with."""

import gzip
import re
import subprocess
from pathlib import Path

import pytest
import treebanks
from dry_runs import commands, dry_run, stages, value
from recipe_runs import RECIPES, call, failure, lines_of, refusal, stages_run, without_torch

RECIPE = RECIPES / "wsj_parsing"
RUN = RECIPE / "run.sh"
GUM = RECIPE / "gum"


@pytest.fixture(scope="module")
def treebank(tmp_path_factory) -> Path:
    """Sections 02 to 24, with broken files where nothing should be read."""
    return treebanks.write_treebank(tmp_path_factory.mktemp("treebank") / "wsj")


# --- options ---


def recipe(*options: object, **environment: str) -> subprocess.CompletedProcess:
    return call([str(RUN), *map(str, options)], **environment)


def shown(*options: object) -> str:
    return dry_run([RUN, *options])


def test_help_lists_the_options():
    done = recipe("--help")
    assert done.returncode == 0
    for option in (
        *("--corpus wsj", '--treebank ""', '--lists ""', '--silver ""', "--tags pos"),
        *("--longest 512", "--vocabulary auto", "--sample 1000000", "--gold_copies 1"),
        *("--augment auto", "--dropouts auto", "--constrained false", "--subset test"),
        *("--row auto", "--exp auto", "--system aiayn"),
        *("--prepared", "--mirror", "--needs_mb auto"),
    ):
        assert re.search(rf"^  {re.escape(option)} ", done.stdout, re.MULTILINE), option
    assert "Table 4" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--corpus wsj needs --treebank DIR, parsed/mrg/wsj of LDC's Treebank-3; --corpus"),
        (["--treebank", "absent"], "--treebank must be a directory, got 'absent'"),
        (["--treebank", "{}", "--lists", "no"], "--lists must be a directory, got 'no'"),
        (["--corpus", "gum", "--treebank", "{}"], "--corpus gum takes no --treebank or --lists"),
        (["--corpus", "gum", "--lists", "{}"], "--corpus gum takes no --treebank or --lists"),
        (["--corpus", "ptb"], "--corpus must be one of wsj gum, got 'ptb'"),
        (["--corpus", "gum", "--tags", "NN"], "--tags must be one of pos XX, got 'NN'"),
        (["--corpus", "gum", "--augment", "2"], "--augment must be one of auto true false, got"),
        (["--corpus", "gum", "--longest", "all"], "--longest must be a whole number, got 'all'"),
        (["--corpus", "gum", "--dropouts", "1.0"], "--dropouts must be 0 or decimals below 1"),
        (["--corpus", "gum", "--dropouts", "0.1 high"], "--dropouts must be 0 or decimals below 1"),
        (["--corpus", "gum", "--dropouts", " "], "--dropouts must have at least one number"),
        (
            ["--corpus", "gum", "--constrained", "--system", "stock"],
            "--constrained is a search of aiayn_parsing, stock fairseq has none",
        ),
        (["--corpus", "gum", "--gold_copies", "0"], "--gold_copies must be at least 1, got '0'"),
        (
            ["--corpus", "gum", "--augment", "false", "--gold_copies", "2"],
            "--gold_copies 2 needs --silver or --augment true, or there is nothing to mix with",
        ),
        (["--corpus", "gum", "--workers", "0"], "--workers must be at least 1, got '0'"),
        (["--corpus", "gum", "--subset", "train"], "--subset must be one of test valid, got"),
        (
            ["--corpus", "gum", "--silver", "absent.gz"],
            "--silver must name files, there is no 'absent.gz'",
        ),
        (
            ["--corpus", "gum", "--gpus", "4", "--nodes", "2", "--master", "node0:29500"],
            "--nodes 2 takes one of --dropouts",
        ),
        (
            ["--corpus", "gum", "--prepared", "x", "--system", "both"],
            "--prepared takes one system, got both",
        ),
    ],
)
def test_wrong_options_are_one_line(tmp_path, options, message):
    line = refusal(recipe("--dry_run", *(option.format(tmp_path) for option in options)))
    assert line.startswith(f"run.sh: {message}")


def test_section_63_on_eight_gpus(treebank, tmp_path):
    text = shown("--exp", tmp_path / "exp", "--treebank", treebank, "--gpus", "8")
    exp = tmp_path / "exp"
    assert not exp.exists()
    (learn,) = commands(text, f"python {RECIPE}/vocabularies.py")
    assert (value(learn, "--vocabulary"), "--silver" in learn) == ("16000", False)
    trainings = commands(text, "torchrun")
    names = [f"aiayn-parsing-1-dropout{dropout}" for dropout in ("0.1", "0.2", "0.3")]
    for train, name in zip(trainings, names, strict=True):
        dropout = name[-3:]
        assert (value(train, "--dropout"), value(train, "--attention-dropout")) == (dropout,) * 2
        assert value(train, "--save-dir") == f"{exp}/{name}/checkpoints"
        assert (value(train, "--task"), value(train, "--arch")) == (
            "aiayn_parsing",
            "aiayn_parsing",
        )
        assert (value(train, "--warmup-updates"), value(train, "--max-update")) == (
            *("16000", "100000"),
        )
        assert value(train, "--distributed-world-size") == "8"
        assert 8 * int(value(train, "--max-tokens")) * int(value(train, "--update-freq")) == 25_000
    # Section 22 chooses, section 23 is parsed with the choice (here with the first).
    searches = commands(text, "fairseq-generate")
    assert [value(search, "--gen-subset") for search in searches] == ["valid"] * 3 + ["test"]
    assert [Path(value(search, "--path")).parent.name for search in searches] == [*names, names[0]]
    for search in searches:
        assert not {"--beam", "--lenpen", "--max-len-b", "--constrained"} & set(search)
    (choose,) = commands(text, f"python {RECIPE}/choose.py")
    assert choose[2:5] == [f"{exp}/{name}/valid" for name in names]
    assert list(stages(text))[-4:] == [
        "9-choose-aiayn-parsing-1",
        f"10-parse-{names[0]}-test",
        f"11-score-{names[0]}-test",
        "12-table",
    ]


def test_stock_fairseq_gets_the_papers_search_by_flags_and_only_ours_is_constrained(
    treebank, tmp_path
):
    options = ("--exp", tmp_path / "exp", "--treebank", treebank, "--device", "cpu")
    text = shown(*options, "--system", "both", "--constrained")
    ours, stock = commands(text, "fairseq-generate")
    assert (value(ours, "--task"), value(stock, "--task")) == ("aiayn_parsing", "translation")
    paper = {"--beam": "21", "--lenpen": "0.3", "--max-len-a": "1", "--max-len-b": "300"}
    assert {flag: value(stock, flag) for flag in paper} == paper
    assert "--constrained" in ours and not set(paper) & set(ours)
    assert "--constrained" not in stock
    trainings = commands(text, "fairseq-train")
    assert [value(train, "--dropout") for train in trainings] == ["0.1", "0.1"]
    assert [value(train, "--arch") for train in trainings] == ["aiayn_parsing_tiny", "transformer"]
    runs = [f"{tmp_path}/exp/{system}-parsing_tiny-1" for system in ("aiayn", "stock")]
    (table,) = commands(text, "aiayn compare")
    assert table[2:4] == [f"{runs[0]}/test-constrained", f"{runs[1]}/test"]


def test_each_system_chooses_its_own_dropout(treebank, tmp_path):
    options = ("--exp", tmp_path / "exp", "--treebank", treebank, "--device", "cpu")
    text = shown(*options, "--system", "both", "--dropouts", "0\n0.25")
    runs = [
        f"{system}-parsing_tiny-1-dropout{dropout}"
        for system in ("aiayn", "stock")
        for dropout in ("0", "0.25")
    ]
    trainings = commands(text, "fairseq-train")
    assert [Path(value(train, "--save-dir")).parent.name for train in trainings] == runs
    choices = commands(text, f"python {RECIPE}/choose.py")
    exp = tmp_path / "exp"
    assert [words[2:4] for words in choices] == [
        [f"{exp}/{run}/valid" for run in pair] for pair in (runs[:2], runs[2:])
    ]
    (table,) = commands(text, "aiayn compare")
    assert table[2:4] == [f"{exp}/{runs[0]}/test", f"{exp}/{runs[2]}/test"]


def test_silver_trees_double_the_vocabulary_and_stand_beside_copies_of_the_gold(treebank, tmp_path):
    silver = [tmp_path / name for name in ("a.gz", "b.gz")]
    for file in silver:
        file.touch()
    named = f"{silver[0]} {silver[1]}"
    options = ("--treebank", treebank, "--silver", named, "--gold_copies", "10", "--gpus", "8")
    text = shown("--exp", tmp_path / "exp", *options)
    trees = tmp_path / "exp" / "trees"
    (learn,) = commands(text, f"python {RECIPE}/vocabularies.py")
    assert (value(learn, "--vocabulary"), value(learn, "--silver")) == ("32000", f"{trees}/silver")
    written = commands(text, f"python {RECIPE}/write_trees.py")
    assert [value(words, "--output") for words in written] == [
        f"{trees}/{part}" for part in ("train", "valid", "test", "silver")
    ]
    assert written[-1][-2:] == [str(file) for file in silver]
    assert ["--longest" in words for words in written] == [True, False, False, True]
    for train in commands(text, "fairseq-train"):
        assert value(train, "--upsample-primary") == "10"


def test_gum_alone_is_augmented_and_others_if_they_are_told_so(treebank, tmp_path):
    silver = tmp_path / "a.gz"
    silver.touch()
    semi_supervised = ("--corpus", "gum", "--silver", silver)
    for options, sets in (
        (("--treebank", treebank), []),
        (("--corpus", "gum"), ["augmented"]),
        (("--corpus", "gum", "--augment", "false"), []),
        (semi_supervised, ["silver"]),
        ((*semi_supervised, "--augment", "true"), ["silver", "augmented"]),
    ):
        text = shown("--exp", tmp_path / "exp", "--device", "cpu", *options)
        written = commands(text, f"python {RECIPE}/write_trees.py")
        assert [Path(value(words, "--output")).name for words in written[3:]] == sets
        binaries = commands(text, "fairseq-preprocess")
        assert [Path(value(words, "--trainpref")).name for words in binaries[1:]] == sets
        moved = [words for words in commands(text, "mv") if words[2].endswith("tree.words.idx")]
        names = [f"train{place}.words-tree.words.idx" for place, _ in enumerate(sets, start=1)]
        assert [Path(words[2]).name for words in moved] == names
        (train,) = commands(text, "fairseq-train")
        assert ("--upsample-primary" in train) == bool(sets)
        (learn,) = commands(text, f"python {RECIPE}/vocabularies.py")
        assert not [word for word in learn if word.endswith("/augmented")]


def test_two_nodes_train_together_and_the_second_only_trains(treebank, tmp_path):
    options = ("--exp", tmp_path / "exp", "--treebank", treebank, "--gpus", "4", "--nodes", "2")
    options += ("--master", "node0:29500", "--dropouts", "0.2")
    first, second = (shown(*options, "--node_rank", str(rank)) for rank in range(2))
    for text in (first, second):
        (train,) = commands(text, "torchrun")
        assert value(train, "--nnodes") == "2"
        assert (value(train, "--distributed-world-size"), value(train, "--dropout")) == ("8", "0.2")
        assert value(train, "--save-dir") == f"{tmp_path}/exp/aiayn-parsing-1/checkpoints"
    assert list(stages(second)) == ["5-train-aiayn-parsing-1"]
    assert list(stages(first))[-1] == "12-table"


def test_prepared_text_is_trained_and_scored_with(treebank, tmp_path):
    made = tmp_path / "made"
    text = shown("--exp", tmp_path / "exp", "--prepared", made)
    assert [name.split("-")[0] for name in stages(text)][:2] == ["0", "5"]
    assert not commands(text, "fairseq-preprocess")
    for name in ("fairseq-train", "fairseq-generate"):
        assert all(words[1] == f"{made}/bin" for words in commands(text, name))
    assert f"cp {made}/bin/held_out/test.trees " in text
    (table,) = commands(text, "aiayn compare")
    assert table[-1] == f"{tmp_path}/exp/aiayn-parsing_tiny-1/table"  # others may work in EXP


def test_prepared_text_of_more_than_gold_trees_can_have_copies_of_them(tmp_path):
    options = ("--exp", tmp_path / "exp", "--prepared", tmp_path / "made", "--gold_copies", "3")
    line = refusal(recipe("--dry_run", *options))
    assert line.startswith("run.sh: --gold_copies 3 needs --silver or --augment true")
    (tmp_path / "made" / "bin").mkdir(parents=True)
    (tmp_path / "made" / "bin" / "train1.words-tree.words.idx").touch()
    (train,) = commands(shown(*options), "fairseq-train")
    assert value(train, "--upsample-primary") == "3"


@pytest.mark.parametrize(
    ("prepared", "corpus", "updates"),
    [
        ("gum", "wsj", "12000"),
        ("gum_semi_supervised", "wsj", "12000"),
        ("wsj_semi_supervised", "gum", "100000"),
        ("gum_lists", "gum", "100000"),  # somebody's own sets, in a directory of this name
    ],
)
def test_the_budget_is_that_of_the_prepared_text(tmp_path, prepared, corpus, updates):
    (file := tmp_path / "made" / "bin" / "corpus").parent.mkdir(parents=True)
    file.write_text(f"{prepared}\n")
    options = ("--exp", tmp_path / "exp", "--prepared", tmp_path / "made", "--corpus", corpus)
    (train,) = commands(shown(*options, "--gpus", "1", "--dropouts", "0.1"), "fairseq-train")
    assert value(train, "--max-update") == updates


def test_trees_by_lists_are_not_called_the_papers(treebank, tmp_path):
    for name, corpus in (("wsj/02/..", "wsj"), ("wsj/02/.", "02")):
        text = shown("--treebank", treebank.parent / name, "--lists", tmp_path)
        assert f"echo {corpus}_lists > " in text
        assert f"/exp/wsj_parsing/{corpus}_lists/bin" in text


def test_gum_on_a_gpu_has_a_budget_of_its_own(tmp_path):
    text = shown("--exp", tmp_path / "exp", "--corpus", "gum", "--gpus", "1")
    train, *_ = commands(text, "fairseq-train")
    flags = ("--max-update", "--warmup-updates", "--save-interval-updates", "--arch")
    assert [value(train, flag) for flag in flags] == ["12000", "4000", "600", "aiayn_parsing"]
    assert int(value(train, "--max-tokens")) * int(value(train, "--update-freq")) == 4096
    given = shown("--corpus", "gum", "--gpus", "1", "--max_update", "7", "--dropouts", "0.1")
    (train,) = commands(given, "fairseq-train")
    assert value(train, "--max-update") == "7"
    (lists,) = commands(text, f"python {RECIPE}/list_trees.py")
    assert value(lists, "--lists") == str(GUM)
    assert value(lists, "--treebank") == f"{tmp_path}/exp/downloads"
    checksum, file = lines_of(GUM / "sha256")[0].split("  ")
    assert f"echo '{checksum}  {tmp_path}/exp/downloads/{file}.part' | sha256sum --check" in text
    assert "# and so on for each of the 237 files in gum/sha256" in text


# --- downloads and bad trees ---


@pytest.fixture
def prepare(tmp_path):
    """Return a function that runs the recipe up to stage 2 and the command's other options."""
    tools = without_torch(tmp_path / "tools")
    own = ("--exp", tmp_path / "exp", "--needs_mb", "1", "--device", "cpu", "--stop_stage", "2")
    return lambda *options: recipe(*own, *options, **tools)


def test_gum_can_be_set_up_before_it_is_downloaded(tmp_path):
    own = ("--exp", tmp_path / "exp", "--device", "cpu", "--stop_stage", "0")
    result = recipe("--corpus", "gum", *own, **without_torch(tmp_path / "tools"))
    assert (result.returncode, stages_run(result.stderr)) == (0, ["0-set_up"]), result.stderr


def test_a_file_of_gum_that_is_not_the_published_one_is_refused(prepare, tmp_path):
    (mirror := tmp_path / "mirror").mkdir()
    checksum, file = lines_of(GUM / "sha256")[0].split("  ")
    (mirror / file).write_text("(ROOT (NN x))")
    result = prepare("--corpus", "gum", "--mirror", mirror)
    message = f"{mirror}/{file}: the sha256 checksum is not {checksum}; replace it"
    assert result.returncode == 1
    assert f"run.sh: stage 1-download: {message}; log: " in result.stderr.splitlines()[-1]
    assert not (tmp_path / "exp" / "downloads" / file).exists()
    assert not (tmp_path / "exp" / ".done" / "1-download").exists()


@pytest.mark.parametrize(
    ("file", "content", "place"),
    [
        ("07/wsj_0701.mrg", b"( (S (NN x)) )\n( (S (NN y) )", ":2: "),
        ("23/wsj_2301.mrg", b"( (S\n (NN \xff)) )\n", ":2: "),
    ],
)
def test_after_a_bad_file_is_repaired_the_same_command_goes_on(
    prepare, tmp_path, file, content, place
):
    wsj, exp = treebanks.write_treebank(tmp_path / "wsj"), tmp_path / "exp"
    whole = (wsj / file).read_bytes()
    (wsj / file).write_bytes(content)
    line = failure(prepare("--treebank", wsj), "data.sh", "2-trees")
    assert line.startswith(f"write_trees: {wsj}/{file}{place}")
    assert not (exp / ".done" / "2-trees").exists()
    done = {path.name for path in (exp / "trees").glob("*.tree")}
    assert done == (set() if file.startswith("07") else {"train.tree", "valid.tree"})

    (wsj / file).write_bytes(whole)
    again = prepare("--treebank", wsj)
    assert again.returncode == 0, again.stderr
    assert stages_run(again.stderr) == ["2-lists", "2-trees"]
    assert len(lines_of(exp / "trees" / "train.tree")) == 20 * treebanks.PER_SECTION
    assert not list((exp / "trees").glob("*.part"))
    assert "stage 2-trees is done, skipped" in prepare("--treebank", wsj).stderr


def test_a_changed_treebank_is_read_again(prepare, tmp_path):
    wsj = treebanks.write_treebank(tmp_path / "real")
    (link := tmp_path / "wsj").symlink_to(wsj)
    assert prepare("--treebank", link).returncode == 0
    (wsj / "23" / "wsj_2301.mrg").write_text("( (S (NN x)) )")
    again = prepare("--treebank", link)
    assert stages_run(again.stderr) == ["2-lists", "2-trees"]
    assert lines_of(tmp_path / "exp" / "trees" / "test.trees") == ["(TOP (S (NN x)))"]


def test_an_empty_treebank_and_a_list_without_its_file_are_one_line(prepare, tmp_path):
    (empty := tmp_path / "empty").mkdir()
    line = failure(prepare("--treebank", empty), "data.sh", "2-lists")
    assert line == f"list_trees: {empty}: must have files 02/*.mrg, has none"
    assert not (tmp_path / "exp" / ".done" / "2-lists").exists()
    for name in ("train", "valid", "test"):
        (empty / name).write_text(f"{name}.ptb\n")
    line = failure(prepare("--treebank", empty, "--lists", empty), "data.sh", "2-lists")
    assert line.endswith(f"No such file or directory: '{empty}/train.ptb'")


def test_a_bad_silver_file_is_named(prepare, tmp_path):
    wsj, silver = treebanks.write_treebank(tmp_path / "wsj"), tmp_path / "silver.gz"
    silver.write_bytes(gzip.compress(treebanks.invented_text(50, 1).encode())[:-30])
    line = failure(prepare("--treebank", wsj, "--silver", silver), "data.sh", "2-trees")
    assert line.startswith(f"write_trees: {silver}:")
    assert "silver.tree" not in {path.name for path in (tmp_path / "exp" / "trees").iterdir()}
