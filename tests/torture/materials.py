"""What attacks change: small models, their data, trees and texts, made once a campaign."""

from __future__ import annotations

import io
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import mirrors
import recipe_runs
import treebanks

from torture.server import ROOT, run
from torture.undisturbed import Undisturbed, make_demo, make_wmt

PLUGIN = ("--user-dir", str(ROOT / "fairseq_aiayn"))
SIZE = (
    *("--encoder-layers", "1", "--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "64"),
    *("--encoder-attention-heads", "2"),
)
STOCK = ("--decoder-layers", "1", "--decoder-embed-dim", "32", "--decoder-ffn-embed-dim", "64")
TRAINING = (
    *("--cpu", "--max-tokens", "256", "--num-workers", "0", "--max-update", "2", "--dropout", "0"),
    *("--save-interval-updates", "1", "--label-smoothing", "0.1", "--log-format", "simple"),
)
OURS = (
    *("--task", "aiayn_translation", "--arch", "aiayn_tiny", *SIZE, "--d-k", "16", "--d-v", "16"),
    *("--criterion", "aiayn_label_smoothed_cross_entropy", "--optimizer", "aiayn_adam"),
    *("--lr-scheduler", "aiayn_inverse_sqrt", "--warmup-updates", "200", *TRAINING),
)
THEIRS = (
    *("--task", "translation", "--arch", "transformer", *SIZE, *STOCK),
    *("--decoder-attention-heads", "2", "--share-all-embeddings"),
    *("--criterion", "label_smoothed_cross_entropy", "--optimizer", "adam", "--lr", "0.001"),
    *TRAINING,
)
SHORT = ("--beam", "2", "--max-len-a", "0", "--max-len-b", "8")  # of models that learned nothing
PARSER = {"aiayn_translation": "aiayn_parsing", "aiayn_tiny": "aiayn_parsing_tiny"}
# A system's options of fairseq-train, its task first
SYSTEMS = {
    "ours": OURS,
    "stock": THEIRS,
    "parser": tuple(PARSER.get(word, word) for word in OURS),
}
FOLDERS = ("ours", "parser")  # whose models aiayn export takes


@dataclass(frozen=True)
class Materials:
    """All of it lies under one directory; attacks copy what they change."""

    directory: Path
    wmt: Undisturbed | None = None  # where recipes are attacked
    demo: Undisturbed | None = None

    def data_of(self, system: str) -> Path:
        """The binarized data that a system was trained on."""
        return self.parsing_bin if system == "parser" else self.translation_bin

    @property
    def translation_bin(self) -> Path:
        """Binarized sentence pairs, word by word translations."""
        return self.directory / "pairs" / "bin"

    @property
    def parsing_bin(self) -> Path:
        """Binarized words and linearized trees."""
        return self.directory / "trees" / "bin"

    def checkpoints(self, system: str) -> Path:
        """The directory of a training of two updates: ours, stock or parser."""
        return self.directory / system

    def model_folder(self, system: str) -> Path:
        """What aiayn export made of a checkpoint of ours or of the parser."""
        return self.directory / f"{system}-folder"

    @property
    def train_log(self) -> Path:
        """The log of a training of ours."""
        return self.directory / "train.log"

    @property
    def mirror(self) -> Path:
        """What a recipe downloads, in miniature, and its manifest corpus.toml."""
        return self.directory / "mirror"

    @property
    def trees(self) -> Path:
        """Trees as a treebank prints them."""
        return self.directory / "trees" / "wsj.mrg"

    @property
    def lines(self) -> Path:
        """The same trees, normalized, one per line."""
        return self.directory / "trees" / "gold.trees"


def make(directory: Path, areas: Collection[str]) -> Materials:
    """Make what attacks of these areas need."""
    directory.mkdir(parents=True)
    materials = Materials(
        directory,
        make_wmt(directory / "wmt") if "recipes" in areas else None,
        make_demo(directory / "demo") if "demo" in areas else None,
    )
    if not {*areas} - {"recipes", "demo"}:
        return materials
    recipe_runs.make_corpus("wmt14_en_de", materials.mirror, "de", 30)
    _pairs(directory / "pairs")
    _trees(directory / "trees")
    for system in SYSTEMS:
        folder = materials.checkpoints(system)
        log = ("--log-file", materials.train_log) if system == "ours" else ()
        _call(directory, *training(materials.data_of(system), system, folder), *log)
    for system in FOLDERS:
        model = materials.checkpoints(system) / "checkpoint_last.pt"
        given = ("--checkpoint", model, "--data-bin", materials.data_of(system))
        _call(directory, "aiayn", "export", *given, "--output", materials.model_folder(system))
    return materials


def training(data: Path, system: str, folder: Path) -> tuple[str | Path, ...]:
    """The command of a short training whose checkpoints go to `folder`."""
    return ("fairseq-train", data, *PLUGIN, *SYSTEMS[system], "--save-dir", folder)


def reading(data: Path, system: str, model: Path) -> tuple[str | Path, ...]:
    """What all of fairseq's commands that use a model are given."""
    task = SYSTEMS[system][:2]
    last = ("--required-batch-size-multiple", "1")  # or fairseq leaves sentences out
    return (data, *PLUGIN, *task, "--cpu", "--path", model, *last)


def write_lines(path: Path, lines: list[str]) -> None:
    """Write a text, one line each."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def _pairs(folder: Path) -> None:
    folder.mkdir()
    for seed, (split, size) in enumerate((("train", 60), ("valid", 8), ("test", 8))):
        for language, lines in zip(("en", "de"), mirrors.invented_pairs(size, seed)):
            write_lines(folder / f"{split}.{language}", lines)
    _binarize(folder, "en", "de", "--joined-dictionary")


def _trees(folder: Path) -> None:
    """As the parsing recipe leaves them: pieces, linearized trees, a dictionary of both."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    from fairseq_aiayn.treebank.linearization import source_text

    folder.mkdir()
    (folder / "wsj.mrg").write_text(treebanks.invented_text(60, 1))
    words, trees = folder / "all.words", folder / "gold.trees"
    linearized = _call(
        folder, "aiayn", "linearize", folder / "wsj.mrg", "--words", words, "--trees", trees
    )
    sequences = linearized.decode().splitlines()
    sentences = [source_text(line.split(" ")) for line in words.read_text().split("\n")[:-1]]
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type="bpe",
        vocab_size=90,
        normalization_rule_name="identity",
        minloglevel=2,
        num_threads=1,
    )
    pieces = SentencePieceProcessor(model_proto=model.getvalue())
    write_lines(folder / "dict.txt", [f"{pieces.id_to_piece(n)} 1" for n in range(3, len(pieces))])
    for split, every in (("train", 1), ("valid", 6), ("test", 10)):
        write_lines(
            folder / f"{split}.words",
            [" ".join(pieces.encode(one, out_type=str)) for one in sentences[::every]],
        )
        write_lines(folder / f"{split}.tree", sequences[::every])
    _binarize(folder, "words", "tree", "--srcdict", folder / "dict.txt")
    (folder / "bin" / "pieces.model").write_bytes(model.getvalue())


def _binarize(folder: Path, source: str, target: str, *dictionary: str | Path) -> None:
    splits = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    output = ("--destdir", folder / "bin")
    _call(folder, "fairseq-preprocess", "-s", source, "-t", target, *splits, *dictionary, *output)


def _call(directory: Path, *command: str | Path) -> bytes:
    """Run what must go well and return what it printed."""
    result = run([str(word) for word in command], directory)
    if result.status:
        raise RuntimeError(f"{command} ended with {result.status}\n{result.stderr}")
    return result.stdout
