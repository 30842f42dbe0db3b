"""A checkpoint becomes a folder and a checkpoint again, bit for bit; what is damaged is named; text
becomes the pieces that fairseq-interactive makes of it, and pieces the text."""

import json
import random
import resource
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE
from faults import fault_of
from safetensors.torch import load_file, save_file
from small_models import KINDS, SENTENCES, SHARED, small_model, small_run, write_codes

from fairseq_aiayn.checkpoints import read_checkpoint
from fairseq_aiayn.corpus.subwords import learn
from fairseq_aiayn.inference.export import find_run, to_fairseq
from fairseq_aiayn.inference.folder import (
    BYTE_PAIRS,
    END,
    NONE,
    PADDING,
    UNKNOWN,
    WORD_PIECES,
    TextProcessing,
    model_card,
    read_folder,
    read_vocabulary,
    write_folder,
)
from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.plugin.model import AiaynModel, apply_row

# fairseq-preprocess pads to a multiple; special types may be replaced, and so may others
DICTIONARY = (
    "the 9\nca@@ 3\nmadeupword0000 0\n<unk> 2 #fairseq:overwrite\nb 2\n"
    "the 7 #fairseq:overwrite\na\u2028b 2\nc\x85d 1\ne f 4\n\u00a0g 1\n"
)
LINES = (
    *SENTENCES,
    "  two  spaces,\ta tab and\u00a0a no-break space ",
    "Zürich's 漢字 (“quotes” – dashes) & <unk> @@ x@@ ▁y",
    "",
)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("model") / "exp")


@pytest.fixture
def folder(folder, tmp_path):
    """A copy to damage."""
    return shutil.copytree(folder, tmp_path / "folder")


def refused(path: Path) -> str:
    """The message with which reading a folder fails."""
    with pytest.raises((ValueError, OSError)) as caught:
        read_folder(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "precision"),
    [*((kind, "float32") for kind in KINDS), *((SHARED, half) for half in ("float16", "bfloat16"))],
)
def test_every_kind_of_model_comes_back(kind, precision, tmp_path):
    """From a checkpoint to a folder, whose parameters are shared as before, to a checkpoint: bit
    for bit, but for what a precision of the folder rounds."""
    small, dtype = small_model(tmp_path / "model", kind), getattr(torch, precision)

    def are_rounded(weights: Iterable[torch.Tensor], before: Iterable[torch.Tensor]) -> bool:
        return all(map(torch.equal, weights, (weight.to(dtype).float() for weight in before)))

    model = read_folder(small.export(tmp_path / "folder", precision))
    theirs = dict(small.model.transformer.named_parameters())
    mine = dict(model.transformer.named_parameters())
    assert list(mine) == [name.replace(".stack", "") for name in theirs]
    assert are_rounded(mine.values(), theirs.values())
    stored = load_file(tmp_path / "folder" / "model.safetensors")
    assert {name: tensor.dtype for name, tensor in stored.items()} == dict.fromkeys(mine, dtype)
    source = torch.tensor([[1, 5, 6, 7, 2], [8, 9, 5, 6, 2]])
    target = torch.tensor([[2, 5], [2, 6]])
    with torch.no_grad():
        logits = model.transformer(source, target)
        same = torch.equal(logits, small.model.transformer(source, target))
    assert same == (precision == "float32")
    to_fairseq(model, tmp_path / "again.pt")
    before, after = read_checkpoint(small.checkpoint), read_checkpoint(tmp_path / "again.pt")
    assert list(after["model"]) == list(before["model"])
    assert are_rounded(after["model"].values(), before["model"].values())
    assert after["args"] == before["args"]
    apply_row(ROWS[before["args"].arch.removeprefix("aiayn_")], after["args"])
    built = AiaynModel.build_model(after["args"], small.task)
    built.load_state_dict(after["model"], strict=True)


def test_a_run_says_where_its_model_is(tmp_path, monkeypatch):
    """From the run's own directory. A parser's search has one within it."""
    run = small_run(tmp_path / "exp of mine")
    (run / "test").mkdir()
    score = {"score": 24.2345, "signature": "case:mixed"}
    (run / "score.json").write_text(json.dumps({"paper": score, "sacrebleu": "none"}))
    monkeypatch.chdir(run / "test")
    for given in (run, run / "test", Path("..", "test"), Path()):
        model = find_run(given).read()
        assert model.config.text == TextProcessing(BYTE_PAIRS, lowercase=True)
        assert model.config.told["data"] == "invented"
    assert "BLEU 24.23 (case:mixed)" in model_card(find_run(run).read())
    (run.parent / "bin" / "sha256").write_text("0dd  -\n")
    with pytest.raises(ValueError, match="has been made anew since"):
        find_run(run)
    (run / "model.json").unlink()
    rule = f"{run}: expected a model folder, or a run with its model.json; --checkpoint and --data-"
    assert fault_of(find_run, run).startswith(rule)


def test_numbers_and_pieces_are_fairseqs(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text(DICTIONARY)
    mine, stock = read_vocabulary(path), Dictionary.load(str(path))
    assert mine.types == tuple(stock.symbols) and len(mine) == len(stock)
    assert (PADDING, END, UNKNOWN) == (stock.pad(), stock.eos(), stock.unk())
    pieces = ["b", "the", "</s>", "a", "nowhere", "<s>", "c", "<unk>", "ca@@"]
    tokens = stock.encode_line(" ".join(pieces), add_if_not_exist=False).tolist()
    assert mine.numbers(pieces) == tokens
    every = [number for number in range(len(stock)) if " " not in stock[number]]
    assert mine.pieces(every) == stock.string(torch.tensor(every)).split(" ")
    path.write_text(f"the 5\nno count\n{DICTIONARY}")
    rule = f"{path}:2: expected a word and its count, got 'no count'"
    assert fault_of(read_vocabulary, path) == rule


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "source.txt", "target.txt", "codes"]
)
def test_a_file_that_is_cut_off_or_missing_is_named(name, folder):
    path = folder / name
    for end in (path.stat().st_size - 3, 0):
        path.write_bytes(path.read_bytes()[:end])
        assert refused(folder).startswith(str(path))
    path.unlink()
    assert str(path) in refused(folder)


@pytest.mark.parametrize(
    ("names", "value", "rule"),
    [
        ("format", 2, "format"),
        ("sizes.N", 3, "decoder.layers.2"),
        ("sizes.d_model", 10**12, "size mismatch"),
        ("learned_lengths", [10**15, 9], "encoder.position"),
        ("sha256", {}, "SHA-256"),
    ],
)
def test_a_configuration_that_does_not_fit_is_named(names, value, rule, folder):
    """Sizes that no memory could hold are refused before any memory is taken for them."""
    config = json.loads((folder / "config.json").read_text())
    *outer, last = names.split(".")
    inside = config
    for name in outer:
        inside = inside[name]
    inside[last] = value
    (folder / "config.json").write_text(json.dumps(config))
    message = refused(folder)
    assert message.startswith(str(folder)) and rule in message


def test_changed_weights_are_noticed_but_in_a_folder_of_an_earlier_version(folder):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-8] + bytes(8))
    assert refused(folder).startswith(f"{path}: changed since the export")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert refused(folder).startswith(f"{path}: expected a plain file")
    path.unlink()
    path.write_bytes(data[:-8] + bytes(8))
    forget_sum_of_weights(folder)
    read_folder(folder)


def forget_sum_of_weights(folder: Path) -> None:
    """Make this the folder of an earlier version."""
    config = json.loads((folder / "config.json").read_text())
    del config["sha256"]["model.safetensors"]
    (folder / "config.json").write_text(json.dumps(config))


def test_weights_that_do_not_fit_or_are_not_finite_are_named(folder):
    path, name = folder / "model.safetensors", "encoder.layers.1.feed_forward.W_1.bias"
    forget_sum_of_weights(folder)
    weights = load_file(path)
    for value in (torch.full_like(weights[name], torch.nan), weights[name][:-1].clone()):
        save_file(weights | {name: value}, path)
        message = refused(folder)
        assert name in message and message.startswith(str(path))
    save_file(weights | {"more": weights[name].clone()}, path)
    assert "more" in refused(folder)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"arch": "transformer"}, "of this plugin"),
        ({"encoder_layers": 3}, "decoder.layers.2"),
        ({"d_k": None}, "sizes.d_k"),
    ],
)
def test_a_checkpoint_that_cannot_be_a_folder_is_named(changes, rule, small, tmp_path):
    state = read_checkpoint(small.checkpoint)
    vars(state["args"]).update(changes)
    torch.save(state, tmp_path / "checkpoint.pt")
    assert rule in fault_of(replace(small, checkpoint=tmp_path / "checkpoint.pt").read)


@contextmanager
def full_disk(free: int) -> Iterator[None]:
    """Let this process write at most so many bytes into each file: a write fails halfway."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_a_failed_export_leaves_is_no_model_and_in_nobodys_way(small, tmp_path):
    with full_disk(1_000), pytest.raises(OSError, match="File too large"):
        small.export(tmp_path / "folder")
    state = read_checkpoint(small.checkpoint)
    state["model"]["encoder.stack.layers.0.feed_forward.W_1.bias"][3] = 1e6
    torch.save(state, tmp_path / "checkpoint.pt")
    large = replace(small, checkpoint=tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="encoder.layers.0.* finite values in float16"):
        large.export(tmp_path / "folder", "float16")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]
    path = large.export(tmp_path / "folder", "bfloat16")
    with pytest.raises(ValueError, match="must not exist yet"):
        write_folder(read_folder(path), path)


def moses(language: str) -> MosesTokenizer:
    """fairseq's --tokenizer moses for one language."""
    both = {"source_lang": language, "target_lang": language}
    return MosesTokenizer(Namespace(**both, moses_no_dash_splits=False, moses_no_escape=False))


@pytest.mark.parametrize("language", ["en", "de", "fr"])
@pytest.mark.parametrize("kind", [BYTE_PAIRS, WORD_PIECES])
def test_text_is_cut_and_joined_as_by_fairseq(kind, language, tmp_path):
    """Pieces are joined in any order, as a model may write them: words and quotes do not match."""
    file, text = tmp_path / "file", TextProcessing(kind)
    if kind == BYTE_PAIRS:
        write_codes(file)
        bpe = SubwordNMTBPE(Namespace(bpe_codes=str(file), bpe_separator="@@"))
        encode, decode = moses(language).encode, moses(language).decode
    else:
        file.write_bytes(learn(SENTENCES, 70))
        options = {"sentencepiece_enable_sampling": False, "sentencepiece_alpha": None}
        bpe = SentencepieceBPE(Namespace(sentencepiece_model=str(file), **options))
        encode = decode = str
    cut, join = text.cutter(language, file), text.joiner(language)
    lines = [bpe.encode(encode(line)).split() for line in LINES]
    assert [cut(line) for line in LINES] == lines
    draw, pieces = random.Random(1), [piece for line in lines for piece in line]
    for line in [*lines, *(draw.choices(pieces, k=length) for length in (1, 5, 30, 30))]:
        assert join(line) == decode(bpe.decode(" ".join(line)))


def test_text_in_pieces_stays_as_it_is():
    text = TextProcessing(NONE)
    assert text.cutter("en", None)(" the  ca@@ t\u2028") == ["the", "ca@@", "t"]
    assert text.joiner("en")(["the", "ca@@", "t"]) == "the ca@@ t"


def test_text_is_cut_as_the_recipes_cut_it(tmp_path):
    text = "„Gut-Gemeint“,  don't say: 3.5\u00a0% of it's\u2028rosy-red\u200b!"
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\ng u\nd o\nr o\ns a\n", encoding="utf-8")
    lines = f"{text}\n".encode()
    moses = ("moses", "--language", "de", "--normalize", "--lowercase")
    for words in (moses, ("subwords", "apply", "--codes", codes)):
        command = [sys.executable, "-m", f"fairseq_aiayn.corpus.{words[0]}", *words[1:]]
        lines = subprocess.run(command, input=lines, check=True, capture_output=True).stdout
    found = TextProcessing(BYTE_PAIRS, normalize=True, lowercase=True).cutter("de", codes)(text)
    assert found == lines.decode().split() and any("@@" in piece for piece in found)
