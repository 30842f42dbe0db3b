"""What CTranslate2 makes of an exported model: our log P, and our translations."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import ctranslate2
import pytest
import torch
import torch.nn.functional as F
from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES

from fairseq_aiayn.cli.export import QUANTIZATIONS
from fairseq_aiayn.cli.main import main
from fairseq_aiayn.exchange.ctranslate2 import longest_sequence, write_ctranslate2
from fairseq_aiayn.exchange.ctranslate2_search import CTranslate2Translator
from fairseq_aiayn.model_folder.config import Config
from fairseq_aiayn.model_folder.folder import Files, Model, write_folder
from fairseq_aiayn.model_folder.text import BYTE_PAIRS, NONE, TextProcessing
from fairseq_aiayn.model_folder.translator import LONGEST, Translator
from fairseq_aiayn.model_folder.vocabulary import END, PADDING, SPECIAL, Vocabulary
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.nn.transformer import create_transformer
from fairseq_aiayn.paper import Decoding

SIZES = Dimensions(N=2, d_model=16, d_ff=24, h=4, d_k=4, d_v=4, P_drop=0.1)
SEARCH = Decoding(beam=4, alpha=0.6, extra_length=5)
LEARNED = [20, 25]  # of the longest source and its longest output, with an end token each


@dataclass(frozen=True)
class Kind:
    """A kind of model."""

    sizes: Dimensions = SIZES
    sharing: str = "all"
    learned: bool = False
    spread: float = 1.0  # of the embeddings


KINDS = {
    "base": Kind(),
    "d_k < d_v": Kind(replace(SIZES, d_k=2)),
    "d_k > d_v": Kind(replace(SIZES, d_v=3, d_k=5)),
    "one head": Kind(replace(SIZES, h=1, d_k=16, d_v=16)),
    "odd sizes": Kind(replace(SIZES, N=1, d_model=10, d_ff=7, h=3, d_k=2, d_v=1)),
    "two vocabularies": Kind(sharing="target"),
    "three matrices": Kind(sharing="none"),
    "learned positions": Kind(learned=True),
    "small values": Kind(spread=1e-3),  # the layer norm's ε matters
}


def small_model(kind: Kind, seed: int = 1) -> Model:
    """A model whose parameters are all random, also those that begin as 0 or 1."""
    torch.manual_seed(seed)
    source, target = (
        Vocabulary((*SPECIAL, *(f"{side}{number}" for number in range(size))))
        for side, size in (("a", 30), ("a" if kind.sharing == "all" else "b", 30))
    )
    lengths = LEARNED if kind.learned else None
    transformer = create_transformer(
        kind.sizes, len(source), len(target), PADDING, kind.sharing, lengths
    )
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
        for embedding in {transformer.encoder.embedding, transformer.decoder.embedding}:
            embedding.weight *= kind.spread
    text = TextProcessing(NONE)
    config = Config(
        1, "translation", "base", "en", "de", kind.sizes, kind.sharing, SEARCH, text,
        learned_lengths=lengths,
    )  # fmt: skip
    return Model(config, transformer.eval(), source, target, None)


def sentences(vocabulary: Vocabulary, lengths: list[int], seed: int = 2) -> list[str]:
    """Random sentences of a model's own types."""
    generator = torch.Generator().manual_seed(seed)
    types = vocabulary.types[len(SPECIAL) :]
    return [
        " ".join(types[one] for one in torch.randint(len(types), (n,), generator=generator))
        for n in lengths
    ]


def log_p(engine: ctranslate2.Translator, sources: list[str], targets: list[str]) -> torch.Tensor:
    """CTranslate2's log P of each target."""
    pieces = [[sentence.split() for sentence in side] for side in (sources, targets)]
    found = engine.score_batch(*pieces, max_input_length=0)
    return torch.tensor([sum(one.log_probs) for one in found])


def written(model: Model, path: Path, quantization: str = "float32") -> Path:
    """The model for CTranslate2, in a new directory."""
    write_ctranslate2(model, quantization, path / quantization)
    return path / quantization


# --- log P ---


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_log_p_is_ours(kind, tmp_path):
    model = small_model(kind)
    sources = sentences(model.source, [1, 3, 8, 11])
    targets = sentences(model.target, [5, 1, 7, 4], seed=3)
    ours = torch.tensor(Translator(model, "cpu").score(sources, targets))
    theirs = log_p(ctranslate2.Translator(str(written(model, tmp_path))), sources, targets)
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-5)


def test_unknown_pieces_are_unknown_there_too(tmp_path):
    model = small_model(KINDS["base"])
    ours = torch.tensor(Translator(model, "cpu").score(["a1 never a2"], ["a3 seen"]))
    theirs = log_p(
        ctranslate2.Translator(str(written(model, tmp_path))), ["a1 never a2"], ["a3 seen"]
    )
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-5)


def test_positions_reach_as_far_as_our_longest_translation(tmp_path):
    model = small_model(KINDS["base"])
    longest = longest_sequence(model.config)
    assert longest == LONGEST + SEARCH.extra_length + 1  # the end token comes on top
    engine = ctranslate2.Translator(str(written(model, tmp_path)))
    (source,) = sentences(model.source, [LONGEST])
    (target,) = sentences(model.target, [LONGEST], seed=3)
    (ours,) = Translator(model, "cpu").score([source], [target])
    assert log_p(engine, [source], [target]).item() == pytest.approx(ours, rel=1e-6)
    log_p(engine, ["a1"], ["a1 " * (longest - 1)])
    with pytest.raises(RuntimeError, match="position"):
        log_p(engine, ["a1"], ["a1 " * longest])


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_every_type_of_weights_is_near(quantization, tmp_path):
    model = small_model(KINDS["d_k < d_v"])
    before = [parameter.clone() for parameter in model.transformer.parameters()]
    engine = ctranslate2.Translator(str(written(model, tmp_path, quantization)))
    sources, targets = sentences(model.source, [9] * 4), sentences(model.target, [7] * 4, seed=3)
    ours = torch.tensor(Translator(model, "cpu").score(sources, targets))
    theirs = log_p(engine, sources, targets)
    torch.testing.assert_close(theirs, ours, rtol=0.02, atol=0)
    assert all(
        torch.equal(*pair) for pair in zip(before, model.transformer.parameters(), strict=True)
    )


def test_the_types_of_weights_are_all_that_ctranslate2_has():
    assert set(QUANTIZATIONS) == set(ACCEPTED_MODEL_TYPES)


# --- search ---


@pytest.fixture(scope="module")
def trained() -> Model:
    """A model that has learned a little: every second number of a sequence, sorted."""
    sizes = replace(SIZES, N=1, d_model=32, d_ff=64, d_k=8, d_v=8, P_drop=0.0)
    model = small_model(Kind(sizes))
    torch.manual_seed(5)
    transformer = create_transformer(sizes, len(model.source), len(model.target), PADDING)
    optimizer = torch.optim.Adam(transformer.parameters(), 1e-2)
    end = torch.full((32, 1), END)
    for step in range(150):
        source = torch.randint(len(SPECIAL), len(model.source), (32, 1 + step % 7))
        target = torch.cat([source.sort(1).values[:, ::2], end], 1)
        logits = transformer(torch.cat([source, end], 1), target.roll(1, 1))
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return replace(model, transformer=transformer.eval())


@pytest.mark.parametrize("beam", [1, 4])
def test_the_outputs_are_ours_and_in_our_order(trained, beam, tmp_path):
    texts = sentences(trained.source, [*range(1, 11)] * 5)
    ours = Translator(trained, "cpu").search(texts, beam, nbest=beam)
    directory = written(trained, tmp_path)
    theirs = list(CTranslate2Translator(directory, "cpu").stream(texts, beam, nbest=beam))
    assert [[one.pieces for one in outputs] for outputs in theirs] == [
        [one.pieces for one in outputs] for outputs in ours
    ]
    for mine, other in zip(ours, theirs, strict=True):
        for field in ("log_p", "score"):
            values = [[getattr(one, field) for one in outputs] for outputs in (mine, other)]
            assert values[1] == pytest.approx(values[0], abs=1e-5)
    assert len({len(outputs[0].pieces) for outputs in ours}) > 1


def test_ctranslate2_alone_would_rank_otherwise(trained, tmp_path):
    texts = sentences(trained.source, [*range(1, 11)] * 5)
    translator = CTranslate2Translator(written(trained, tmp_path), "cpu")
    own = translator.engine.translate_batch(
        [text.split() for text in texts], beam_size=4, length_penalty=SEARCH.alpha
    )
    ranked = list(translator.stream(texts))
    assert [one.hypotheses[0] for one in own] != [list(found[0].pieces) for found in ranked]


def preferring(token: int, model: Model) -> Model:
    """The same model, to which one token is always likely."""
    changed = replace(model, transformer=create_transformer(SIZES, 34, 34, PADDING))
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in changed.transformer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
        decoder = changed.transformer.decoder
        decoder.layers[-1].feed_forward_norm.norm.bias.fill_(1.0)
        decoder.projection.weight[token] = 0.3  # its logit grows by 16 · 0.3
    changed.transformer.eval()
    return changed


@pytest.mark.parametrize("token", [END, PADDING, len(SPECIAL)], ids=["end", "padding", "other"])
@pytest.mark.parametrize("beam", [1, 4])
def test_no_output_is_empty_has_padding_or_exceeds_the_longest(token, beam, tmp_path):
    """And its log P is that of the model, whatever the search excluded."""
    model = preferring(token, small_model(KINDS["base"]))
    texts = sentences(model.source, [1, 2, 5])
    found = CTranslate2Translator(written(model, tmp_path), "cpu").stream(texts, beam)
    for text, (best,) in zip(texts, found, strict=True):
        assert 1 <= len(best.pieces) <= len(text.split()) + SEARCH.extra_length
        assert SPECIAL[PADDING] not in best.pieces
        (log_p_of_it,) = Translator(model, "cpu").score([text], [best.text])
        assert best.log_p == pytest.approx(log_p_of_it, abs=1e-4)


def test_a_stream_keeps_its_order_and_empty_sentences(trained, tmp_path):
    translator = CTranslate2Translator(written(trained, tmp_path), "cpu", batch_tokens=1)
    texts = ["", *sentences(trained.source, [5, 1, 3]), " "]
    together = list(translator.stream(texts, nbest=2))
    assert [found for text in texts for found in translator.stream([text], nbest=2)] == together
    assert list(translator.stream(texts, nbest=2, at_once=2)) == together
    assert [len(found) for found in together] == [1, 2, 2, 2, 1]
    assert together[0][0].text == together[-1][0].text == ""


def test_what_cannot_be_searched_is_refused(trained, tmp_path):
    directory = written(trained, tmp_path)
    translator = CTranslate2Translator(directory, "cpu")
    with pytest.raises(ValueError, match="sentence 2 must have at most 1,024 tokens, has 1,025"):
        list(translator.stream(["a1", "a1 " * 1025]))
    with pytest.raises(ValueError, match="beam size must be at least 1, got 0"):
        list(translator.stream(["a1"], beam=0))
    with pytest.raises(ValueError, match="--batch-tokens must be at least 1, got 0"):
        CTranslate2Translator(directory, "cpu", batch_tokens=0)
    with pytest.raises(ValueError, match="unsupported device"):
        CTranslate2Translator(directory, "abacus")
    content = (directory / "model.bin").read_bytes()
    (directory / "model.bin").write_bytes(content[:-100])
    with pytest.raises(ValueError, match=str(directory)):
        CTranslate2Translator(directory, "cpu")


def test_learned_positions_end(tmp_path):
    model = small_model(KINDS["learned positions"])
    translator = CTranslate2Translator(written(model, tmp_path), "cpu")
    assert len(list(translator.stream(["a1 " * (LEARNED[0] - 1)]))) == 1
    with pytest.raises(ValueError, match="CTranslate2: .*position"):
        list(translator.stream(["a1 " * LEARNED[0]]))


# --- commands ---

CODES = "#version: 0.2\na 1</w>\n"  # joins a and 1 at the end of a word


@pytest.fixture
def folder(trained, tmp_path) -> Path:
    """The trained model in a folder; its text is in byte pairs."""
    for name in ("dict.en.txt", "dict.de.txt"):
        lines = "".join(f"{one} 1\n" for one in trained.source.types[len(SPECIAL) :])
        (tmp_path / name).write_text(lines)
    (tmp_path / "codes").write_text(CODES)
    files = Files(*(tmp_path / name for name in ("dict.en.txt", "dict.de.txt", "codes")))
    config = replace(trained.config, text=TextProcessing(BYTE_PAIRS))
    write_folder(config, trained.transformer, files, tmp_path / "folder")
    return tmp_path / "folder"


@pytest.fixture
def translate(monkeypatch, capsys) -> Callable[..., str]:
    """What `aiayn translate` prints for a text."""

    def printed(text: str, *options: object) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert main(["translate", *map(str, options)]) == 0
        return capsys.readouterr().out

    return printed


def refused(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    """The one line of a command that refuses its input."""
    assert main([*map(str, arguments)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_from_a_folder_to_translations(folder, translate, tmp_path):
    other = tmp_path / "new" / "ct2"
    assert main(["export", str(folder), "--to", "ctranslate2", "--output", str(other)]) == 0
    assert {path.name for path in other.iterdir()} == {
        *("model.bin", "config.json", "shared_vocabulary.json", "aiayn.json", "codes")
    }
    text = "a1 a2\n\na7 a1 a3 a1 unknown\n"
    options = ("--scores", "--nbest", 2, "--threads", 1, "--device", "cpu")
    ours = translate(text, folder, *options)
    shutil.rmtree(folder)
    theirs = translate(text, other, "--runtime", "ctranslate2", *options)
    assert [line.split("\t")[2] for line in theirs.splitlines()] == [
        line.split("\t")[2] for line in ours.splitlines()
    ]
    assert theirs.count("\n") == 5


def test_the_target_must_not_exist_and_appears_whole_or_not_at_all(folder, tmp_path, capsys):
    arguments = ("export", folder, "--to", "ctranslate2", "--output")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    line = f"aiayn export: --output {folder}: must not exist yet"
    assert refused(capsys, *arguments, folder) == line
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    (folder / "codes").unlink()
    line = f"aiayn export: {folder / 'codes'}: No such file or directory"
    assert refused(capsys, *arguments, tmp_path / "ct2") == line
    assert {path.name for path in tmp_path.iterdir()} == {
        *("folder", "codes", "dict.en.txt", "dict.de.txt")
    }


def test_options_that_do_not_fit_are_refused(folder, tmp_path, capsys):
    to, output = ("--to", "ctranslate2"), ("--output", tmp_path / "new")
    given = [
        (folder, "--quantization", "int8"),
        (folder, *to, "--precision", "float16"),
        ("--checkpoint", tmp_path / "codes", *to),
        (tmp_path, *to),
    ]
    assert [refused(capsys, "export", *options, *output) for options in given] == [
        "aiayn export: --quantization: is of --to ctranslate2; a folder has --precision",
        "aiayn export: --precision: is of a model folder; --to ctranslate2 has --quantization",
        "aiayn export: --to ctranslate2: must be given a run directory or a model folder",
        f"aiayn export: {tmp_path / 'config.json'}: No such file or directory",
    ]
    assert not (tmp_path / "new").exists()


def test_a_folder_of_another_kind_is_refused(folder, capsys):
    line = f"aiayn translate: {folder}: must be what aiayn export --to ctranslate2 wrote"
    assert refused(capsys, "translate", folder, "--runtime", "ctranslate2") == line


class WithoutCTranslate2:
    """Finds no such package."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "ctranslate2":
            raise ModuleNotFoundError(name=name)


def test_without_the_package_both_commands_say_how_to_get_it(folder, tmp_path, capsys, monkeypatch):
    for name in [name for name in sys.modules if "ctranslate2" in name and "test" not in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutCTranslate2(), *sys.meta_path])
    needed = "ctranslate2 is needed for this: pip install ctranslate2"
    to = ("--to", "ctranslate2", "--output", tmp_path / "new")
    assert refused(capsys, "export", folder, *to) == f"aiayn export: {needed}"
    line = f"aiayn translate: {needed}"
    assert refused(capsys, "translate", folder, "--runtime", "ctranslate2") == line
