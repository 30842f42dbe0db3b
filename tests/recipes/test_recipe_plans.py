"""What each command of an experiment must have, written once for all recipes, in dry runs."""

import os
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from recipe_runs import RECIPES
from test_recipe_commands import dry_run, value

from fairseq_aiayn import paper
from fairseq_aiayn.cli.main import main

SYSTEMS, SEEDS = ("aiayn", "stock"), ("3", "7")
MOSES = ("--tokenizer", "moses")
NORMALIZED = (*MOSES, "--normalize")


class Command(NamedTuple):
    words: list[str]
    reads: str | None
    writes: str | None


class Experiment(NamedTuple):
    recipe: str
    options: tuple[str, ...]
    row: paper.Row
    languages: tuple[str, str]
    cleaning: tuple[str, ...] = ()
    search: tuple[tuple[str, ...], ...] = ()  # of our system and of stock's, if not the row's

    @property
    def parses(self) -> bool:
        return self.languages[1] == "tree"


LENGTH, LENGTHS = ("--max-length", "250"), ("--max-length", "250", "--max-ratio", "1.5")
PUBLISHED = ("--beam", "5", "--lenpen", "1.4"), ("--beam", "5")
EXPERIMENTS = [
    Experiment("wmt14_en_de", (), paper.BASE, ("en", "de"), (*NORMALIZED, *LENGTHS)),
    Experiment("wmt14_en_de", ("--source_lang", "de", "--target_lang", "en", "--row", "big"),
               paper.ROWS["big"], ("de", "en"), (*NORMALIZED, *LENGTHS)),
    Experiment("wmt14_en_fr", (), paper.ROWS["big_en_fr"], ("en", "fr"),
               ("--tokenizer", "none", *LENGTHS)),
    Experiment("multi30k", ("--target_lang", "fr"), paper.ROWS["tiny"], ("en", "fr"),
               (*NORMALIZED, *LENGTHS)),
    Experiment("multi30k", ("--row", "multi30k_tiny"), paper.ROWS["multi30k_tiny"], ("en", "de"),
               (*NORMALIZED, "--lowercase", *LENGTH), PUBLISHED),
    Experiment("own_text", ("--corpus", "own", "--source_lang", "de", "--target_lang", "en"),
               paper.ROWS["multi30k_tiny"], ("de", "en"), (*NORMALIZED, *LENGTHS)),
    Experiment("own_text", ("--corpus", "own", "--source_lang", "en", "--target_lang", "zh"),
               paper.ROWS["multi30k_tiny"], ("en", "zh"),
               ("--tokenizer", "none", "--max-length", "1000", "--max-ratio", "2")),
    Experiment("demo", (), paper.ROWS["demo"], ("en", "de"), (*MOSES, "--max-length", "1000")),
    Experiment("wsj_parsing", ("--corpus", "gum"), paper.ROWS["parsing_tiny"], ("words", "tree")),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def own_text(tmp_path_factory):
    """Work beside a small text in three languages."""
    before, directory = os.getcwd(), tmp_path_factory.mktemp("beside")
    (directory / "own").mkdir()
    for language, line in {"de": "ein Satz", "en": "a sentence", "zh": "一句话"}.items():
        (directory / f"own/train.{language}").write_text(f"{line}\n" * 99, encoding="utf-8")
    os.chdir(directory)
    yield
    os.chdir(before)


@cache
def plan(recipe: str, *options: str) -> list[Command]:
    """Return the commands that a dry run of both systems shows."""
    words = [RECIPES / recipe / "run.sh", "--exp", "/E", "--device", "cpu"]
    words += ["--system", "both", "--seeds", " ".join(SEEDS), *options]
    found = []
    for line in dry_run(words).replace("\\\n", " ").splitlines():
        if line.startswith(("fairseq-", "aiayn ", "python ", "subword-nmt ", "sh ", "cat ")):
            words = shlex.split(line)
            files = {name: words.index(name) for name in ("<", ">", "2>") if name in words}
            reads, writes = (words[files[name] + 1] if name in files else None for name in "<>")
            found.append(Command(words[: min(files.values(), default=None)], reads, writes))
    return found


def of(commands: list[Command], *begins: str) -> list[Command]:
    """Return the commands that have these words at their beginning, or of a module of ours."""
    modules = ["python", f"{RECIPES}/module.py"]
    starts = [[*begins], [*modules, *begins]]
    return [one for one in commands if any(one.words[: len(s)] == s for s in starts)]


def flags(capsys: pytest.CaptureFixture, *words: str) -> list[str]:
    assert main(["flags", *words]) == 0
    return capsys.readouterr().out.split()


def require(words: list[str], expected: dict[str, str | None]) -> None:
    assert {flag: value(words, flag) for flag in expected} == expected, words


def has(words: Sequence[str], part: Sequence[str]) -> bool:
    return f" {shlex.join(part)} " in f" {shlex.join(words)} "


def name_of(one: object) -> str:
    return "".join((one.recipe, *one.options)) if isinstance(one, Experiment) else str(one)


@pytest.mark.parametrize(
    ("one", "average"),
    [*((one, None) for one in EXPERIMENTS), (EXPERIMENTS[0], "1"), (EXPERIMENTS[-1], "9")],
    ids=name_of,
)
def test_every_run_is_trained_averaged_searched_and_scored_as_its_own(one, average, capsys):
    shown = plan(one.recipe, *one.options, *(("--average", average) if average else ()))
    last = average or str(one.row.averaged)
    for system, seed in ((system, seed) for system in SYSTEMS for seed in SEEDS):
        run = f"/E/{system}-{one.row.name}-{seed}"
        mine = [each for each in shown if f"{run}/" in f"{each} "]
        trained = flags(capsys, one.row.name, "--system", system, "--gpus", "1")
        checkpoint = trained_and_averaged(one, mine, run, trained, last)
        search = flags(capsys, one.row.name, "--search")
        if one.search:
            search = [*one.search[SYSTEMS.index(system)]]
        translations = searched(one, mine, system, checkpoint, search)
        scored(one, mine, f"{run}/test" if one.parses else run, translations)
    (table,) = of(shown, "aiayn", "compare")[-1:]
    assert len(table.words) == 2 + len(SYSTEMS) * len(SEEDS) + 2


def data_of(one: Experiment, system: str) -> dict[str, str | None]:
    task = f"aiayn_{'parsing' if one.parses else 'translation'}"
    pair = dict(zip(("--source-lang", "--target-lang"), one.languages))
    task = task if system == "aiayn" else "translation"
    return pair | {"--task": task, "--required-batch-size-multiple": "1"}


def trained_and_averaged(
    one: Experiment, mine: list[Command], run: str, trained: list[str], last: str
) -> str:
    """Check the training and the average of a run; return the checkpoint that they end in."""
    system, _, seed = Path(run).name.split("-")
    (train,) = of(mine, "fairseq-train", "/E/bin")
    assert has(train.words, trained)
    require(train.words, data_of(one, system) | {"--seed": seed, "--max-tokens-valid": "4096"})
    require(train.words, {"--keep-interval-updates": str(max(int(last), one.row.averaged))})
    require(train.words, {"--save-dir": f"{run}/checkpoints", "--log-format": "json"})
    require(train.words, {"--log-file": f"{run}/train.log"})
    checkpoint = f"{run}/{'checkpoints/checkpoint_last' if last == '1' else 'average'}.pt"
    averaged = ["aiayn", "average", "--last", last, "--dir", f"{run}/checkpoints"]
    averages = [[*averaged, "--output", checkpoint]] if last != "1" else []
    assert [each.words for each in of(mine, "aiayn", "average")] == averages
    return checkpoint


def searched(
    one: Experiment, mine: list[Command], system: str, checkpoint: str, search: list[str]
) -> str | None:
    """Check the validation and the search of a run; return the file of its outputs, in order."""
    (validate,) = of(mine, "fairseq-validate", "/E/bin")
    (generate,) = of(mine, "fairseq-generate", "/E/bin")
    for each in (validate, generate):
        require(each.words, data_of(one, system) | {"--path": checkpoint})
    is_default = system == "aiayn" and not one.search  # of our tasks
    assert is_default or has(generate.words, search)
    assert not is_default or not {"--beam", "--lenpen", "--max-len-b"} & {*generate.words}
    pieces = "sentencepiece" if "none" in one.cleaning else "subword_nmt"
    require(generate.words, {"--post-process": None if one.parses else pieces})
    require(generate.words, {"--tokenizer": "moses" if "moses" in one.cleaning else None})
    require(generate.words, {"--gen-subset": "test"})
    in_order = {each.words[2][9:10]: each for each in of(mine, "sh", "-c")}
    assert [*in_order] == ["D", *["H"] * ("--lowercase" in one.cleaning)]
    for kind, each in in_order.items():
        assert each.reads == generate.writes
        assert each.words[2] == f"grep -a ^{kind}- | sort -V | cut -f 3-"
    return in_order["D"].writes


def scored(one: Experiment, mine: list[Command], part: str, outputs: str | None) -> None:
    copies = {each.writes: each.words[1:] for each in of(mine, "cat")}
    if one.parses:
        assert copies[f"{part}/words.txt"] == ["/E/trees/test.words"]
        assert copies[f"{part}/gold.trees"] == ["/E/trees/test.trees"]
        (trees,) = of(mine, "aiayn", "delinearize", str(outputs))
        require(trees.words, {"--words": f"{part}/words.txt"})
        score = ["aiayn", "evalb", f"{part}/gold.trees", str(trees.writes)]
        assert [each.words[:4] for each in of(mine, "aiayn", "evalb")] == [score, score]
        return
    source, target = one.languages
    assert copies[f"{part}/source.txt"] == [f"/E/text/test.{source}"]
    assert copies[f"{part}/reference.txt"] == [f"/E/text/test.{target}"]
    (score,) = (each.words for each in of(mine, "aiayn", "bleu"))
    require(score, {"--hypothesis": outputs, "--target-lang": target})
    tokens = f"{part}/hypothesis.tokens" if "--lowercase" in one.cleaning else None
    require(score, {"--reference": f"{part}/reference.txt", "--tokens": tokens})


@pytest.mark.parametrize("one", EXPERIMENTS, ids=name_of)
def test_what_later_stages_need_is_looked_for(one):
    (check,) = of(plan(one.recipe, *one.options), "aiayn", "check")
    runs = str(len(SYSTEMS) * len(SEEDS))
    require(check.words, {"--row": one.row.name, "--runs": runs, "--gpus": "0"})
    require(check.words, {"--target-lang": None if one.parses else one.languages[1]})


@pytest.mark.parametrize("one", EXPERIMENTS[:-1], ids=name_of)
def test_every_set_and_side_goes_through_the_same_steps(one):
    shown = plan(one.recipe, *one.options)
    (cleaning,) = of(shown, "fairseq_aiayn.corpus.cleaning")
    assert has(cleaning.words, one.cleaning)
    require(cleaning.words, dict(zip(("--source-lang", "--target-lang"), one.languages)))
    require(cleaning.words, {"--max-ratio": value(one.cleaning, "--max-ratio")})
    steps = [word for word in one.cleaning if word in ("--normalize", "--lowercase")]
    sets = [f"{name}.{language}" for name in ("valid", "test") for language in one.languages]
    moses = of(shown, "fairseq_aiayn.corpus.moses")
    assert [(each.reads, each.writes) for each in moses] == [
        (f"/E/text/{name}", f"/E/tokens/{name}") for name in sets if "moses" in one.cleaning
    ]
    for each in moses:
        assert each.words[3:] == [*steps, "--language", str(each.writes).rpartition(".")[2]]
    (texts,) = of(shown, "fairseq_aiayn.corpus.texts")
    assert ("--lowercase" in texts.words) == ("--lowercase" in steps)
    both = [f"/E/tokens/train.{language}" for language in one.languages]
    assert any(has(each.words, both) for each in shown)  # subwords are learned from both sides
    applied = of(shown, "fairseq_aiayn.corpus.subwords", "apply")
    sets = [f"train.{language}" for language in one.languages] + sets
    places = [(f"/E/tokens/{name}", f"/E/subwords/{name}") for name in sets]
    assert [(each.reads, each.writes) for each in applied] == places
    assert len({tuple(each.words) for each in applied}) == 1
    (binarize,) = of(shown, "fairseq-preprocess")
    assert "--joined-dictionary" in binarize.words
    for name in ("train", "valid", "test"):
        require(binarize.words, {f"--{name}pref": f"/E/subwords/{name}"})
