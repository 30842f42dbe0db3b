"""Recipes from their archives and trees to their scores, in miniature: whole, killed in every
stage, and pasted from a dry run. The text goes through the same steps in every split."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import treebanks
from fairseq_stand_in import with_stand_ins
from mirrors import invented_pairs, make_corpus
from recipe_runs import (
    RECIPES,
    SHORT,
    call,
    environment,
    files_of,
    finish,
    kill_session,
    lines_of,
    mirrored,
    stages_run,
    start,
    wait_until,
    with_holds,
)
from test_recipe_commands import value

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.corpus.subwords import byte_pairs, sentence_pieces
from fairseq_aiayn.inference.export import folder_or_run, text_of_data
from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.treebank.evalb import score_files, summarize

pytestmark = pytest.mark.needs_repairs

RUN = "aiayn-tiny-1"
TEXT = ["1-download", "2-clean", "3-subwords", "4-binarize"]
MODEL = ["5-train", "6-average", "7-translate", "8-score"]
# Where a run is killed: when this file is there, while the stage cannot end
KILLS = {
    "1-download": "downloads/training-parallel-europarl-v7.tgz",
    "2-clean": "tokens",
    "3-subwords": "subwords/codes",
    "4-binarize": "bin/dict.en.txt",
    "5-train": f"{RUN}/checkpoints/checkpoint_1_2.pt",
    "6-average": f"{RUN}/average.pt",
    "7-translate": f"{RUN}/.part/generate-test.txt",
    "8-score": f"{RUN}/hypothesis.txt",
}
# Here the recipe alone is killed, which leaves behind the command that it runs.
ALONE = {
    "4-binarize": "fairseq-preprocess",
    "5-train": "fairseq-train",
    "7-translate": "fairseq-generate",
}


def results(exp: Path, run: str = RUN) -> dict[str, bytes]:
    """Return the content of what is cut, binarized, translated and scored, by file."""
    paths = [path for name in ("subwords", "bin") for path in (exp / name).iterdir()]
    paths += [exp / run / name for name in ("hypothesis.txt", "score.json", "source.txt")]
    return {
        str(path.relative_to(exp)): path.read_bytes()
        for path in paths
        if path.is_file() and path.name not in ("preprocess.log", "sha256")
    }


@pytest.fixture(scope="module")
def german(tmp_path_factory):
    """EXP of a whole run, and the command."""
    directory = tmp_path_factory.mktemp("german")
    manifest = make_corpus(RECIPES / "wmt14_en_de", directory / "mirror", "de", 300)
    words = mirrored("wmt14_en_de", manifest, "--vocabulary", "200", *SHORT)
    words += ["--exp", str(directory / "exp")]
    assert stages_run(finish(words).stderr) == TEXT + MODEL
    yield directory / "exp", words
    shutil.rmtree(directory)


def test_a_score_comes_with_how_it_was_made(german):
    exp, _ = german
    settings = json.loads((exp / RUN / "settings.json").read_text())
    assert set(settings["commands"]) == {"train", "average", "validate", "generate", "score"}
    made = {"name": RUN, "system": "aiayn", "row": "tiny", "seed": 1, "subset": "test"}
    assert settings.items() >= (made | {"corpus": "wmt14_en_de", "averaged": 2}).items()
    assert settings["text_sha256"] == (exp / "bin/sha256").read_text().split()[0]
    assert settings["commands"]["train"].startswith("fairseq-train ")
    assert settings["commands"]["average"].startswith("aiayn average --last 2 ")
    score = json.loads((exp / RUN / "score.json").read_text())
    assert score["sentences"] == 12 == len(lines_of(exp / RUN / "hypothesis.txt"))
    assert (exp / RUN / "report.html").exists()
    assert folder_or_run(exp / RUN).path == exp / RUN / "average.pt"


def test_stock_fairseq_and_another_seed_stand_beside_it_on_the_same_text(german):
    exp, words = german
    done = finish([*words, "--system", "both"])
    assert stages_run(done.stderr)[-5:] == [*MODEL, "9-table"]
    assert not {*TEXT} & {*stages_run(done.stderr)}
    for option in ("--warmup", "--vocabulary"):
        assert "--force replaces it" in call([*words, option, "150"]).stderr
    ours, stock = json.loads((exp / "table" / "table.json").read_text())["runs"]
    assert (stock["settings"]["system"], stock["settings"]["name"]) == ("stock", "stock-tiny-1")
    assert ours["test_set"] == stock["test_set"]
    assert ours["training"]["updates"] == stock["training"]["updates"] == 6


def test_a_run_killed_in_every_stage_ends_as_if_it_had_not_been(german, tmp_path):
    whole, words = german
    exp, errors = tmp_path / "exp", tmp_path / "errors"
    words = [*words, "--exp", str(exp)]
    holds = with_holds(tmp_path / "holds")
    said = ""
    for stage, sign in KILLS.items():
        process = start(words, errors, **holds, HELD=stage, HELD_COMMAND=ALONE.get(stage, ""))
        wait_until((exp / sign).exists, process, errors)
        if stage in ALONE:
            process.kill()
            process.wait()
        else:
            kill_session(process)
        assert not [*exp.glob(f"**/.done/{stage}")]
        said += errors.read_text()
    said += finish(words).stderr
    assert said.count("it is stopped (group") == len(ALONE)
    log = (exp / RUN / "recipe.log").read_text()
    assert "checkpoint_last.pt (epoch 1 @ " in log
    assert results(exp) == results(whole)
    paths = [one / RUN / "average.pt" for one in (exp, whole)]
    ours, theirs = (torch.load(path, weights_only=False)["model"] for path in paths)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert not list(exp.rglob(".part/*"))
    shutil.rmtree(exp)


def test_another_set_and_another_number_of_checkpoints_need_no_training(german, tmp_path):
    exp, words = german
    trained, tools = files_of(exp / RUN / "checkpoints"), with_stand_ins(tmp_path / "tools")
    valid = finish([*words, "--subset", "valid"], **tools)
    assert stages_run(valid.stderr) == ["7-translate", "8-score"]
    assert len(lines_of(exp / RUN / "hypothesis.txt")) == 20
    last = finish([*words, "--subset", "valid", "--average", "1"], **tools)
    assert stages_run(last.stderr) == ["7-translate", "8-score"]
    settings = json.loads((exp / RUN / "settings.json").read_text())
    assert "average" not in settings["commands"] and settings["averaged"] == 1
    assert folder_or_run(exp / RUN).path == exp / RUN / "checkpoints/checkpoint_last.pt"
    again = finish([*words, "--stage", "5", "--stop_stage", "5"])
    assert stages_run(again.stderr) == ["5-train"]
    assert files_of(exp / RUN / "checkpoints") == trained


def own_text(directory: Path, *options: object) -> list[object]:
    """Return the command of a recipe for a text of one's own, which is invented."""
    (directory / "own").mkdir(exist_ok=True)
    for language, lines in zip(("en", "de"), invented_pairs(400, 3), strict=True):
        (directory / f"own/train.{language}").write_text("".join(f"{line}\n" for line in lines))
    words = [RECIPES / "own_text/run.sh", "--corpus", directory / "own", "--source_lang", "en"]
    words += ["--target_lang", "de", "--device", "cpu", "--workers", "1"]
    return [*words, "--exp", directory / "exp", *options]


def test_both_systems_side_by_side_end_as_the_printed_script(tmp_path):
    tools = with_stand_ins(tmp_path / "tools")
    words = own_text(tmp_path, *SHORT, "--average", "1", "--system", "both", "--vocabulary", "60")
    failed = call([*words, "--side_by_side"], **tools, STAND_IN_FAILS="transformer")
    assert failed.returncode == 1 and (tmp_path / "exp" / RUN / "score.json").exists()
    assert re.search("(?m)^stock: .* stage 5-train failed .* takes transformer;", failed.stderr)
    assert all(said in failed.stderr for said in ("; without --row, multi30k_tiny, ", " output: "))
    ended = finish([*words, "--side_by_side"], **tools).stderr
    assert "stage 9-table" in ended and ended.count("  aiayn translate ") == 1
    assert stages_run(finish([*words, "--side_by_side"], **tools).stderr) == []
    for option in ("--vocabulary", "--held_out"):
        other = call([*words, option, "70", "--stop_stage", "4"], **tools)
        assert "--force replaces it" in other.stderr
    (tmp_path / "own/dev.tsv").touch()  # SHA-256 of nothing begins with e3b0c442
    assert ", dev.tsv e3b0c442'" in call([*words, "--stop_stage", "4"], **tools).stderr
    (tmp_path / "own/dev.tsv").unlink()
    runs = (RUN, "stock-tiny-1")
    beside = [results(tmp_path / "exp", run) for run in runs]
    for run in runs:  # translations are the references
        reference = (tmp_path / "exp" / run / "reference.txt").read_text()
        assert "  " not in reference and " \n" not in reference
        score = json.loads((tmp_path / "exp" / run / "score.json").read_text())
        assert score["paper"]["score"] == score["sacrebleu"]["score"] == pytest.approx(100)
    finish([*words, "--held_out", "5", "--force", "--stop_stage", "4"], **tools)
    other = call([*words, "--held_out", "5"], **tools)  # the training was on other text
    assert other.returncode == 1 and "was made with text_sha256=" in other.stderr
    shutil.rmtree(tmp_path / "exp")
    (tmp_path / "exp").mkdir()
    script = finish([*words, "--dry_run"], **tools).stdout
    subprocess.run(["bash", "-e"], check=True, input=script, text=True, env=environment(**tools))
    assert [results(tmp_path / "exp", run) for run in runs] == beside
    assert (tmp_path / "exp" / RUN / "settings.json").exists()


def test_a_run_and_an_exported_model_go_on_alike_on_another_text(german, tmp_path):
    """Breaks if another vocabulary, other sizes or other weights are taken than the model's."""
    exp, _ = german
    assert main(["export", str(exp / RUN), "--output", str(tmp_path / "folder")]) == 0
    words = own_text(tmp_path, *SHORT[2:-2], "--max_update", "2", "--average", "1")
    for model in (exp / RUN, tmp_path / "folder"):
        finish([*words, "--from", model, "--exp", tmp_path / f"from-{model.name}"])
    ours, theirs = tmp_path / f"from-{RUN}", tmp_path / "from-folder"
    assert results(ours) == results(theirs)
    for name in ("codes", "dict.en.txt", "text.json"):
        assert (ours / "bin" / name).read_bytes() == (exp / "bin" / name).read_bytes()
    assert "loading pretrained model from" in (ours / RUN / "recipe.log").read_text()
    made = json.loads((ours / RUN / "settings.json").read_text())["commands"]["train"].split()
    factor, warmup = (float(value(made, flag)) for flag in ("--lr-factor", "--warmup-updates"))
    highest = ROWS["tiny"].lr_factor * ROWS["tiny"].warmup ** -0.5
    assert factor * warmup**-0.5 == pytest.approx(highest / 10, rel=0.01), "a tenth of the row's"
    assert main(["export", str(theirs / RUN), "--output", str(tmp_path / "again")]) == 0
    card = (tmp_path / "again/README.md").read_text()
    assert "- from: another model, whose licence holds, too" in card
    assert str(tmp_path) not in (tmp_path / "again/config.json").read_text()
    other = call([*words, "--from", model, "--target_lang", "en", "--source_lang", "de"])
    assert other.returncode == 1 and "translates en to de, the text is de to en" in other.stderr


SAME = "Il a dit\u00a0: « Straße-NAME\u2019s » & «\u00adoui\u00ad» … 12.5"


@pytest.mark.parametrize(
    ("recipe", "language", "options"),
    [
        ("wmt14_en_fr", "fr", ("--vocabulary", "200")),
        ("multi30k", "de", ("--text", "lc.norm.tok", "--bpe_codes", "50")),
    ],
)
def test_all_splits_go_through_the_same_steps_which_export_reads(
    tmp_path, recipe, language, options
):
    """Breaks if a step is left out for one split, or the note beside the binaries says another."""
    manifest = make_corpus(RECIPES / recipe, tmp_path / "mirror", language, 40, SAME)
    tools = with_stand_ins(tmp_path / "tools")
    exp = tmp_path / "R&D"
    words = mirrored(recipe, manifest, "--exp", exp, "--stop_stage", "4", *options)
    finish(words, **tools)
    for side in ("en", language):
        steps = set()
        for split in ("train", "valid", "test"):
            tokens = lines_of(exp / "tokens" / f"{split}.{side}")[0]
            steps.add((tokens, lines_of(exp / "subwords" / f"{split}.{side}")[0]))
        if recipe == "wmt14_en_fr":  # words without a letter are taken out by the model itself
            steps = {subwords for _, subwords in steps}
        assert len(steps) == 1, steps
    processing, model = text_of_data(exp / "bin")
    assert processing.lowercase == ("lc.norm.tok" in options)
    assert processing.normalize == (recipe != "wmt14_en_fr")
    cut = (sentence_pieces if recipe == "wmt14_en_fr" else byte_pairs)(model)
    if recipe == "wmt14_en_fr":  # its types, also those of no text, and four special symbols
        assert (len(lines_of(exp / "subwords/dict.txt")) + 4) % 8 == 0
    for split in ("train", "test"):
        tokens = lines_of(exp / "tokens" / f"{split}.en")
        assert lines_of(exp / "subwords" / f"{split}.en") == [*map(cut, tokens)]


PARSER = "aiayn-parsing_tiny-1"
PARSING = (
    *("--row", "parsing_tiny", "--vocabulary", "70", "--max_update", "6", "--interval", "2"),
    *("--average", "2", "--batch_tokens", "256", "--workers", "1", "--device", "cpu"),
    # A parser that has learned nothing writes trees as long as it may
    *("--train_options", "--encoder-layers 1 --decoder-layers 1 --max-target-positions 64"),
)


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    directory = tmp_path_factory.mktemp("trees")
    treebank = treebanks.write_treebank(directory / "wsj")
    return [RECIPES / "wsj_parsing/run.sh", "--treebank", treebank, *PARSING]


def test_trees_end_as_f1_and_their_text_can_be_made_again(trees, tmp_path):
    exp = tmp_path / "exp"
    words = [*trees, "--exp", exp]
    finish([*words, "--stop_stage", "4"])
    text = (exp / "bin/sha256").read_text()
    finish([*words, "--stage", "2"])
    assert (exp / "bin/sha256").read_text() == text
    assert stages_run(finish(words).stderr) == []
    part = exp / PARSER / "test"
    settings = json.loads((part / "settings.json").read_text())
    assert set(settings["commands"]) == {"train", "average", "validate", "generate", "score"}
    folder_or_run(exp.rename(tmp_path / "moved") / PARSER / "test").read()
    (tmp_path / "moved").rename(exp)
    assert json.loads((part / "seconds.json").read_text())["sentences"] == treebanks.TEST
    assert json.loads((exp / "bin/data.json").read_text())["gold"] == 80
    assert (exp / "table/report.html").exists()
    words += ["--constrained", "--stage", "10"]
    assert stages_run(finish(words).stderr) == ["10-parse", "11-score", "12-table"]
    constrained = json.loads((exp / PARSER / "test-constrained/repairs.json").read_text())
    counts = constrained["repairs"].items()
    assert not any(count for name, count in counts if name != "punctuation tags")
    assert len(json.loads((exp / "table/table.json").read_text())["runs"]) == 2


def test_the_sets_of_trees_and_no_symbol_of_them_is_unknown(trees, tmp_path):
    """Breaks if a set has another's sections, or a longer tree of the test set is left out."""
    tools = with_stand_ins(tmp_path / "tools")
    silver = tmp_path / "silver.ptb"
    silver.write_text(treebanks.invented_text(5, 99))
    words = [*trees, "--exp", tmp_path / "exp", "--stop_stage", "3", "--longest", "40"]
    finish([*words, "--silver", silver, "--augment", "true"], **tools)
    made, cut = tmp_path / "exp/trees", tmp_path / "exp/subwords"
    sizes = {name: len(lines_of(made / f"{name}.tree")) for name in ("train", "valid", "test")}
    assert sizes["valid"] == treebanks.PER_SECTION and sizes["test"] == treebanks.TEST
    assert max(len(line.split(" ")) for line in lines_of(made / "train.tree")) <= 40
    known = {line.split(" ")[0] for line in lines_of(cut / "dict.tree.txt")}
    pieces = {line.split(" ")[0] for line in lines_of(cut / "dict.words.txt")}
    for name in ("train", "silver", "augmented"):
        assert set((made / f"{name}.tree").read_text().split()) <= known
        for words_line, line in zip(
            lines_of(made / f"{name}.words"), lines_of(cut / f"{name}.words"), strict=True
        ):
            assert set(line.split(" ")) <= pieces
            assert line.count("\u2581") == len(words_line.split(" "))
        assert lines_of(made / f"{name}.tree") == lines_of(cut / f"{name}.tree")
    assert len({len(lines_of(made / f"silver.{kind}")) for kind in ("trees", "words", "text")}) == 1


def test_the_dropout_that_is_best_on_section_22_parses_section_23(trees, tmp_path):
    tools = with_stand_ins(tmp_path / "tools") | {"STAND_IN_SPOILS": "dropout0.1"}
    words = [*trees, "--average", "1", "--exp", tmp_path / "an exp", "--dropouts", "0.3 0.1"]
    finish(words, **tools)
    (run,) = (path for path in (tmp_path / "an exp").glob("aiayn-*") if (path / "test").exists())
    assert run.name == f"{PARSER}-dropout0.3"
    settings = json.loads((run / "test/settings.json").read_text())
    assert " --dropout 0.3 --attention-dropout 0.3 " in settings["commands"]["train"]
    assert json.loads((run / "test/score.json").read_text())["all"]["f1"] == pytest.approx(100)
    spoilt = run.with_name(f"{PARSER}-dropout0.1") / "valid"
    expected = summarize(score_files(spoilt / "gold.trees", spoilt / "predicted.trees")).all
    score = json.loads((spoilt / "score.json").read_text())["all"]
    assert (score["recall"], score["precision"]) == (expected.recall, expected.precision)
    assert score["recall"] < score["precision"] - 1


def test_lists_that_share_a_file_are_refused(trees, tmp_path):
    files = {"train": "02/wsj_0201.mrg.gz", "valid": "22/wsj_2201.mrg", "test": "22/wsj_2201.mrg"}
    (tmp_path / "lists").mkdir()
    for name, file in files.items():
        (tmp_path / "lists" / name).write_text(f" {file}\n")
    words = [*trees, "--lists", tmp_path / "lists", "--exp", tmp_path / "exp"]
    assert "a file must stand once in the lists of" in call(words).stderr
    (tmp_path / "lists/test").write_text("23/wsj_2301.mrg\n")
    finish([*words, "--stop_stage", "2"])
    assert len(lines_of(tmp_path / "exp/trees/train.tree")) == treebanks.PER_SECTION


def test_table_3_lists_a_run_that_fails_and_does_not_stop_for_it(tmp_path):
    manifest = make_corpus(RECIPES / "multi30k", tmp_path / "mirror", "de", 30)
    tools = with_stand_ins(tmp_path / "tools") | {"STAND_IN_FAILS": "aiayn_a_h1"}
    words = [RECIPES / "table3/run.sh", "--corpus", "multi30k", "--rows", "a_h1 base", "--exp"]
    words += [tmp_path / "exp", "--mirror", manifest.parent, "--max_update", "2", "--"]
    words += ["--manifest", manifest, "--bpe_codes", "100", "--device", "cpu"]
    result = call(words, **tools)
    assert result.returncode == 1 and "not finished: aiayn-a_h1-1" in result.stderr
    table = (tmp_path / "exp/table3.md").read_text()
    assert "aiayn-a_h1-1" in table and "| base" in table.replace("|  base", "| base")
    settings = json.loads((tmp_path / "exp/aiayn-base-1/settings.json").read_text())
    assert (settings["subset"], settings["averaged"]) == ("valid", 1)
    del tools["STAND_IN_FAILS"]
    assert "stage 5-train, aiayn-a_h1-1" in finish(words, **tools).stderr
    words[1:1] = ["--force", "--stop_stage", "2"]
    for task, texts in (("", 1), ("1", 0)):
        again = stages_run(finish(words, **tools, SLURM_ARRAY_TASK_ID=task).stderr)
        assert (again.count("2-clean"), again.count("5-train")) == (texts, 1 + texts)


def test_a_node_may_come_before_node_0(tmp_path):
    manifest = make_corpus(RECIPES / "multi30k", tmp_path / "mirror", "de", 30)
    words = mirrored("multi30k", manifest, "--nodes", "2", "--master", "a:1", "--row", "tiny")
    words += ["--exp", str(tmp_path / "exp")]
    errors = tmp_path / "errors"
    other = start([*words, "--node_rank", "1"], errors)
    try:
        wait_until(lambda: "waits for node 0" in errors.read_text(), other, errors)
        finish([*words, "--stop_stage", "1"])
    finally:
        kill_session(other)
