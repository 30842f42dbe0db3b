"""Random attacks on what reads a user's files: a command ends well or with one line, and executes,
loses and changes nothing. The suite tries a few; `make torture MINUTES=60 SEED=2` many more."""

import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from attempt import attempt
from damage import damaged, mutate, spoilt
from fairseq import checkpoint_utils
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from materials import KINDS, make_materials, sound_commands, with_cfg

import fairseq_aiayn.plugin  # noqa: F401  (guards fairseq's loading)
from fairseq_aiayn.cli.main import COMMANDS, build_parser, main
from fairseq_aiayn.corpus import cleaning, texts

pytestmark = pytest.mark.needs_repairs

Data = st.DataObject


def attack(test: Callable[..., None]) -> Callable[..., None]:
    """Let a test draw `data`; it is tried as often as the profile says, in the suite six times."""
    few = settings().max_examples // 25
    often = settings(max_examples=few, suppress_health_check=list(HealthCheck))
    return often(given(data=st.data())(test))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_materials(tmp_path_factory.mktemp("user"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("outputs"))
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat\n")))
        for words in sound_commands(root):  # here, so that forks have little left to import
            assert main([*map(str, words)]) == 0
    load_as_fairseq(root / "translation" / "checkpoint.pt", root / "translation" / "bin")
    return root


@attack
def test_trees(root: Path, data: Data) -> None:
    """Trees that are read come back from their sequences."""
    with attempt(root) as user:
        mrg, words, trees = (user.directory / name for name in ("wsj.mrg", "words", "trees"))
        mrg.write_bytes(data.draw(damaged((root / "wsj.mrg").read_bytes())))
        read = user.aiayn("linearize", mrg, "--words", words, "--trees", trees, "--skip")
        if read.returncode == 0 and read.stdout:
            back = user.aiayn("delinearize", "-", "--words", words, stdin=read.stdout)
            assert (back.returncode, back.stdout) == (0, trees.read_bytes())


@attack
def test_streams(root: Path, data: Data) -> None:
    gold = root / "gold.trees"
    with attempt(root) as user:
        stdin = data.draw(damaged((root / "sequences").read_bytes()))
        user.aiayn("delinearize", "-", "--words", root / "words", stdin=stdin)
        bad = data.draw(damaged(gold.read_bytes()))
        user.aiayn("evalb", gold, "-", "--json", stdin=bad)
        files = ("--hypothesis", "-", "--reference", gold)
        user.aiayn("bleu", *files, "--target-lang", "de", stdin=bad)


@pytest.mark.parametrize("kind", KINDS)
@attack
def test_checkpoints(root: Path, kind: str, data: Data) -> None:
    with attempt(root) as user:
        bad = shutil.copy(root / kind / "checkpoint.pt", user.directory / "bad.pt")
        damage_file(data, bad, user.mark)
        shutil.copytree(root / "save", save := user.directory / "save")
        shutil.copy(bad, save / "checkpoint_1_2.pt")
        model = ("--checkpoint", bad, "--data-bin", root / kind / "bin")
        uses = (
            ("average", "--last", 2, "--dir", save, "--output", "out.pt"),
            ("diagnose", bad),
            ("export", *model, "--output", "folder"),
            ("attention", *model, "--source", "the cat", "--target", "hat", "--output", "out.svg"),
        )
        if words := data.draw(st.sampled_from((*uses, None))):
            user.aiayn(*words)
        else:
            user.run(partial(load_as_fairseq, bad, root / kind / "bin"))


def damage_file(data: Data, path: Path, mark: Path) -> None:
    """Damage a file, or one of a folder: its bytes, or what is in a well-formed one."""
    if path.is_dir():
        path = data.draw(st.sampled_from(sorted(filter(Path.is_file, path.rglob("*")))))
    if path.suffix == ".pt" and data.draw(st.integers(0, 3)):
        state = torch.load(path, weights_only=False)
        state = with_cfg(state) if data.draw(st.booleans()) else state
        mutate(data, state, mark)
        torch.save(state, path, _use_new_zipfile_serialization=data.draw(st.booleans()))
    elif path.suffix == ".json" and data.draw(st.booleans()):
        mutate(data, content := json.loads(path.read_text()), mark)
        path.write_text(json.dumps(content, default=repr))
    else:
        path.write_bytes(data.draw(damaged(path.read_bytes())))


def load_as_fairseq(path: Path, data_bin: Path) -> None:
    """Do what fairseq's commands do with a checkpoint; their errors may have a traceback."""
    try:
        checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data_bin)})
    except Exception as error:
        raise SystemExit("fairseq: an error") from error


@pytest.mark.parametrize("kind", KINDS)
@attack
def test_model_folders(root: Path, kind: str, data: Data) -> None:
    with attempt(root) as user:
        folder = shutil.copytree(root / f"{kind}-folder", user.directory / "model")
        damage_file(data, folder, user.mark)
        user.aiayn("export", folder, "--to", "fairseq", "--output", user.directory / "out.pt")
        command = ("translate",) if kind == "translation" else ("parse", "--model")
        user.aiayn(*command, folder, "--beam", 4, stdin=b"the cat saw the hat\n\nMr. Smith\n")


@attack
def test_runs(root: Path, data: Data) -> None:
    with attempt(root) as user:
        run = shutil.copytree(root / "run", user.directory / "run")
        damage_file(data, run, user.mark)
        user.aiayn("diagnose", run)
        user.aiayn("compare", run, root / "run", "--output", user.directory)


@attack
def test_archives(root: Path, data: Data) -> None:
    with attempt(root) as user:
        corpus = shutil.copytree(root / "corpus", user.directory / "corpus")
        damage_file(data, corpus, user.mark)
        files = ("--manifest", corpus / "corpus.toml", "--directory", corpus)
        files += ("--source-lang", "en", "--target-lang", "de")
        user.script(texts, *files, "--output", user.directory / "data")
        how = ("--workers", 1, "--tokenizer", "moses", "--max-length", 250, "--max-ratio", 1.5)
        user.script(cleaning, *files, *how, "--output", user.directory / "data")
        assert {one.name for one in user.directory.iterdir()} <= {"corpus", "data"}


@attack
def test_options(root: Path, data: Data) -> None:
    commands = {name: [*map(str, words)] for name, *words in sound_commands(root)}
    assert commands.keys() == COMMANDS.keys()
    name = data.draw(st.sampled_from(sorted(commands)))
    (parsers,) = build_parser([name])._subparsers._group_actions
    options = re.findall(r"(?<![\w-])--[a-z-]+\b", parsers.choices[name].format_help())
    with attempt(root) as user:
        stdin = data.draw(st.just(b"the cat\n") | st.binary(max_size=50))
        user.aiayn(name, *data.draw(spoilt(commands[name], options)), stdin=stdin)
