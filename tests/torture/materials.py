"""What random attacks damage: small models, their data, trees, a run and a corpus of a user."""

from collections.abc import Iterator
from pathlib import Path

import torch
import treebanks
from attempt import Attempt
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from mirrors import make_corpus
from omegaconf import OmegaConf
from recipe_runs import RECIPES
from run_directories import MADE, train_log, write_run
from small_models import small_model

KINDS = {"translation": "all embeddings shared", "parser": "parser"}


def make_materials(root: Path) -> Path:
    for name, kind in KINDS.items():
        fast = name == "translation"
        small_model(root / name, kind).export(root / f"{name}-folder", for_ctranslate2=fast)
    (root / "save").mkdir()
    state = torch.load(root / "translation" / "checkpoint.pt", weights_only=False)
    for number in (1, 2):
        state["optimizer_history"][0]["num_updates"] = number
        torch.save(state, root / "save" / f"checkpoint_1_{number}.pt")
    log = f"{with_cfg(state)['cfg']}\n{train_log(100_000)}\n"
    write_run(root / "run", MADE, **{"train.log": log})
    (root / "wsj.mrg").write_text(treebanks.invented_text(20, 1))
    also = ("--words", root / "words", "--trees", root / "gold.trees")
    linearized = Attempt(root, root).aiayn("linearize", root / "wsj.mrg", *also)
    (root / "sequences").write_bytes(linearized.stdout)
    make_corpus(RECIPES / "wmt14_en_de", root / "corpus", "de", 5)
    return root


def with_cfg(state: dict) -> dict:
    """Return a checkpoint's state with its options as fairseq-train writes them today."""
    cfg = convert_namespace_to_omegaconf(state["args"])
    plain = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    return state | {"args": None, "cfg": plain}


def sound_commands(root: Path) -> Iterator[tuple[object, ...]]:
    """Yield a command line of each command that ends well; outputs are in the working directory."""
    gold, model = root / "gold.trees", root / "translation"
    checkpoint = ("--checkpoint", model / "checkpoint.pt", "--data-bin", model / "bin")
    yield ("rows",)
    yield ("user-dir",)
    yield ("repairs",)
    yield "check", "--gpus", 0
    yield "recipes", "recipes"
    yield "flags", "base", "--gpus", 8
    yield "cost", "big"
    yield "average", "--last", 2, "--dir", root / "save", "--output", "output.pt"
    yield "bleu", "--hypothesis", gold, "--reference", gold, "--target-lang", "de"
    yield "bleu", "--hypothesis", gold, "-lc", "--target-lang", "pt_BR", "--reference", gold, gold
    yield "compare", root / "run", "--output", "."
    yield "attention", *checkpoint, "--source", "the cat", "--output", "output.svg"
    yield "linearize", root / "wsj.mrg", "--words", "output.words"
    yield "delinearize", root / "sequences", "--words", root / "words"
    yield "evalb", gold, gold
    yield "diagnose", root / "run"
    yield "export", *checkpoint, "--output", "output.model"
    yield "translate", root / "translation-folder", "--beam", 1
    yield "parse", "--model", root / "parser-folder", "--beam", 1, "the cat"
