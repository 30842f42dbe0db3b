"""A model folder in use, without fairseq, gives what the plugin's model gives, in order."""

import ast
import os
import re
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fairseq.data import data_utils
from small_models import SENTENCES, Small, small_model

import fairseq_aiayn
from fairseq_aiayn import load
from fairseq_aiayn.cli.options import PRECISIONS
from fairseq_aiayn.inference.folder import read_folder
from fairseq_aiayn.inference.pytorch import Translator, find_device
from fairseq_aiayn.nn.cpu_kernels import PRODUCT_TYPES
from fairseq_aiayn.treebank.repair import repair

CLOSE = {"abs": 1e-4, "rel": 1e-5}
ROOT = Path(fairseq_aiayn.__file__).parents[1]
MODELS = ("no embeddings shared", "learned positions")  # two vocabularies, one vocabulary


def test_a_parser_refuses_a_text_before_it_is_split(parser_folder, monkeypatch):
    monkeypatch.setattr("fairseq_aiayn.inference.pytorch.penn_words", pytest.fail)
    with pytest.raises(ValueError, match="sentence 1: .* got 200,000 characters"):
        load(parser_folder, "cpu").parse(["a b " * 100_000])


@pytest.fixture(scope="module", params=MODELS)
def small(request, tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("model"), request.param)


@pytest.fixture(scope="module")
def exported(small, tmp_path_factory):
    return small.export(tmp_path_factory.mktemp("folder") / "folder")


@pytest.fixture(scope="module")
def translator(exported):
    return load(exported, "cpu")


def tokens_of(small: Small, translator: Translator, sentence: str) -> torch.Tensor:
    pieces = " ".join(translator.cut_source(sentence))
    encode = small.task.source_dictionary.encode_line
    return encode(pieces, add_if_not_exist=False, append_eos=True).long()


@pytest.mark.parametrize(
    ("beam", "alpha", "nbest", "precision"),
    [(1, 0.0, 1, "float32"), (4, 0.6, 3, "float32"), (4, 0.6, 1, "bfloat16")],
)
def test_the_search_is_the_plugins(small, exported, translator, beam, alpha, nbest, precision):
    """In one batch; in bfloat16 one at a time, because rounding depends on a batch's padding."""
    config = replace(small.task.cfg, search_precision=precision)
    task = type(small.task)(config, small.task.source_dictionary, small.task.target_dictionary)
    options = Namespace(beam=beam, lenpen=alpha, nbest=nbest)
    generator, mine = task.build_generator([small.model], options), load(exported, "cpu", precision)
    rounded = precision == "bfloat16"
    for batch in [[sentence] for sentence in SENTENCES] if rounded else [SENTENCES]:
        rows = [tokens_of(small, translator, sentence) for sentence in batch]
        source = data_utils.collate_tokens(rows, pad_idx=1, left_pad=True)
        expected = generator.generate([small.model], {"net_input": {"src_tokens": source}})
        for outputs, others in zip(mine.search(batch, beam, alpha, nbest), expected, strict=True):
            assert len(outputs) == len(others) == nbest
            for output, other in zip(outputs, others, strict=True):
                pieces = small.task.target_dictionary.string(other["tokens"]).split()
                assert (list(output.pieces), output.text) == (pieces, translator.join(pieces))
                assert output.score == pytest.approx(other["score"].item(), **CLOSE)
                log_p = other["positional_scores"].sum().item()
                assert output.log_p == pytest.approx(log_p, **CLOSE)
    assert (mine.search(SENTENCES) != translator.search(SENTENCES)) == rounded
    assert tuple(PRODUCT_TYPES) == PRECISIONS


def test_defaults_are_the_papers_and_batches_change_nothing(translator, exported):
    lines = ["", *SENTENCES[2:], " ", SENTENCES[4], "", SENTENCES[3]]
    best = [outputs[0].text for outputs in translator.search(lines, beam=4, alpha=0.6)]
    assert translator.translate(lines) == best
    assert [text == "" for text in best] == [line.strip() == "" for line in lines]
    alone = Translator(read_folder(exported), "cpu", batch_tokens=1)
    assert [alone.translate([line])[0] for line in lines] == best
    assert [outputs[0].text for outputs in alone.engine().stream(lines, at_once=2)] == best
    first, *_, last = translator.search(["", "the cat", ""])
    first.append("mine")
    assert last == translator.search([""])[0], "no two sentences share a list"


def test_scores_are_those_of_the_full_forward(small, translator):
    targets = [*SENTENCES[1:], SENTENCES[0]]
    target_dictionary = small.task.target_dictionary
    scores = translator.score(SENTENCES, targets)
    for source, target, score in zip(SENTENCES, targets, scores, strict=True):
        pieces = " ".join(translator.cut_target(target))
        y = target_dictionary.encode_line(pieces, add_if_not_exist=False).long()
        x = tokens_of(small, translator, source)
        with torch.no_grad():
            logits, _ = small.model(x[None], None, y.roll(1)[None])
        log_p = logits[0].log_softmax(-1).gather(1, y[:, None])
        assert score == pytest.approx(log_p.sum().item(), **CLOSE)


def test_encoder_outputs_are_the_plugins_in_any_batch(small, translator):
    outputs = translator.encode(["", *SENTENCES])
    assert outputs[0].shape == (0, 16)
    for sentence, rows in zip(SENTENCES, outputs[1:], strict=True):
        source = tokens_of(small, translator, sentence)
        with torch.no_grad():
            memory = small.model.transformer.encode(source[None], None)
        torch.testing.assert_close(rows, memory[0], atol=1e-5, rtol=1e-5)


def test_attention_without_a_target_is_that_of_the_pieces_that_the_model_wrote(folder, monkeypatch):
    """Breaks if they are joined to text and cut again, which may give other pieces."""
    translator = load(folder, "cpu")
    ((best,),) = translator.search([SENTENCES[3]])
    source, written = translator.source_tokens(SENTENCES[3]), translator.target.numbers(best.pieces)
    expected = translator.attention_of(source, written)
    monkeypatch.setattr(translator, "cut_target", lambda text: list(text))
    weights = translator.attention(SENTENCES[3])
    assert all(torch.equal(weights[kind], expected[kind]) for kind in expected)


@pytest.mark.parametrize(
    ("use", "kind", "message"),
    [
        (lambda t: t.translate("Hello."), TypeError, "expected a list"),  # of letters
        (lambda t: t.encode(None), TypeError, "expected a list"),
        (lambda t: t.score(["a"], "a"), TypeError, "expected a list"),
        (lambda t: t.translate(["a", None]), TypeError, "expected a sentence"),
        (lambda t: t.translate(["a b", "a " * 1025]), ValueError, "sentence 2: expected at most"),
        (lambda t: t.translate(["a"], beam=0), ValueError, "beam.* got 0"),
        (lambda t: t.translate(["a"], beam=2.5), ValueError, "beam must be a whole number, got"),
        (lambda t: t.score(["a", "b"], ["a", ""]), ValueError, "sentence 2: .* both sides"),
        (lambda t: t.score(["a"], ["b", "c"]), ValueError, "^expected 1 targets, .* got 2$"),
        (lambda t: t.score(["a"], iter("bc")), ValueError, "^expected 1 targets, .* got 2$"),
        (lambda t: t.attention(""), ValueError, "the source: expected words"),
        (lambda t: find_device("nowhere"), ValueError, "^device nowhere: "),
    ],
)
def test_what_is_no_list_of_sentences_or_out_of_range_is_named(folder, use, kind, message):
    translator = load(folder, "cpu")
    with pytest.raises(kind, match=message):
        use(translator)


def test_a_precision_without_products_is_named(folder):
    with pytest.raises(ValueError, match="expected float32 or float16 or bfloat16, got 'float64'"):
        load(folder, "cpu", precision="float64")


def test_learned_positions_limit_sentences_and_outputs(tmp_path):
    """80 source positions are 79 tokens and the end token; outputs end at 84 of 85."""
    translator = load(small_model(tmp_path, "learned positions").export(tmp_path / "folder"), "cpu")
    (outputs,) = translator.search(["the " * 79], beam=1)
    assert len(outputs[0].pieces) <= 84
    with pytest.raises(ValueError, match="at most 79 tokens, got 80"):
        translator.translate(["the " * 80])
    translator.score(["the"], ["the " * 84])
    with pytest.raises(ValueError, match="at most 84 tokens, got 85"):
        translator.score(["the"], ["the " * 85])


def test_a_parser_folder_is_a_parser_with_trees_over_the_words(parser_folder):
    parser = load(parser_folder, "cpu")
    sentences = ["The cat sat.", "", "the hat"]
    trees = parser.parse(sentences, beam=2, constrained=True)
    assert [tree == "" for tree in trees] == [False, True, False]
    assert all(f" {word})" in trees[0] for word in ("The", "cat", "sat", "."))
    assert parser.parse([["the", "hat"]], beam=2, constrained=True) == trees[2:]
    (parse,) = parser.engine(2, constrained=True)(["the cat"])
    assert repair(parse.symbols, parse.words).well_formed
    assert parse.words == ("the", "cat")
    (free,) = parser.engine(2)(["the cat"])
    assert free.symbols != parse.symbols
    for wrong in ("Hello.", [5], [["a", 5]]):
        with pytest.raises(TypeError, match="expected a"):
            parser.parse(wrong)
    with pytest.raises(ValueError, match="sentence 1: a word"):
        parser.parse([["a b"]])


def test_neither_fairseq_nor_compilers_are_loaded(folder):
    """PyTorch's compiler alone would take longer to import than everything else."""
    script = (
        "import sys, fairseq_aiayn, fairseq_aiayn.inference.pytorch\n"
        "translator = fairseq_aiayn.load(sys.argv[1], 'cpu')\n"
        "print(translator.translate([sys.argv[2]])[0])\n"
        "roots = {name.partition('.')[0] for name in sys.modules} | set(sys.modules)\n"
        "print(*sorted(roots & {'fairseq', 'omegaconf', 'sentencepiece', 'torch._dynamo'}))"
    )
    command = [sys.executable, "-c", script, str(folder), SENTENCES[0]]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    printed = subprocess.check_output(command, text=True, env=environment)
    assert printed == f"{load(folder, 'cpu').translate([SENTENCES[0]])[0]}\n\n"


def test_the_page_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    """A comment below an expression is its value."""
    (tmp_path / "text.en").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    shown = 0
    for block in re.findall(r"(?ms)^```python\n(.*?)^```$", page):
        lines = block.splitlines()
        for node in ast.parse(block).body:
            source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            after = "".join(lines[node.end_lineno : node.end_lineno + 1])
            if isinstance(node, ast.Expr) and after.startswith("# "):
                value = ast.literal_eval(after.removeprefix("# "))
                is_number = isinstance(value[0], float)
                expected = pytest.approx(value, abs=0.002) if is_number else value
                assert eval(source, names) == expected
                shown += 1
            else:
                exec(compile(source, "docs/python.md", "exec"), names)  # noqa: S102
    printed = capsys.readouterr().out.splitlines()
    assert shown == 4 and printed[2:] == names["translator"].translate(SENTENCES)
