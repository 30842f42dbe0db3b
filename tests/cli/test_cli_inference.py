"""aiayn translate, parse and export: input and output, engines, options that go together."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest
from small_models import SENTENCES, SHARED, small_model, small_run

from fairseq_aiayn import load
from fairseq_aiayn.cli.sentences import ENGINES
from fairseq_aiayn.inference.folder import read_folder

LINES = ["", *SENTENCES, "", "the cat saw"]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def run(tmp_path):
    return small_run(tmp_path / "exp")


@pytest.fixture
def translate(aiayn, give):
    def run(*words: object) -> tuple[int, str, str]:
        give(TEXT)
        return aiayn("translate", *words, "--cpu")

    return run


def test_translations_are_the_apis_in_order(folder, aiayn, give):
    expected = load(folder, "cpu").search(LINES, beam=3, alpha=0.2, nbest=3)
    options = ("--cpu", "--beam", 3, "--alpha", 0.2)
    give(b"\xef\xbb\xbf" + TEXT.encode())  # a byte order mark is no word
    status, out, _ = aiayn("translate", folder, *options, "--threads", 1, "--batch-tokens", 9)
    assert (status, out.split("\n")) == (0, [*(best.text for best, *_ in expected), ""])
    give(TEXT)
    _, out, _ = aiayn("translate", folder, *options, "--nbest", 3, "--scores")
    found = [line.split("\t") for line in out.splitlines()]
    lines = [(one.score, one.log_p, one.text) for outputs in expected for one in outputs]
    for empty in (0, len(SENTENCES) + 1):  # three lines for every sentence, an empty one too
        assert found[3 * empty + 1 : 3 * empty + 3] == [[""], [""]]
    found = [line for line in found if line != [""]]
    assert [line[2] for line in found] == [text for *_, text in lines]
    for column in (0, 1):
        numbers = [float(line[column]) for line in found]
        assert numbers == pytest.approx([line[column] for line in lines], abs=1e-4)


@pytest.fixture
def fast_folder(tmp_path):
    return small_model(tmp_path / "fast").export(tmp_path / "en-de", for_ctranslate2=True)


@pytest.mark.parametrize(
    ("kind", "precision"),
    [(SHARED, "float32"), ("no embeddings shared", "float32"), (SHARED, "bfloat16")],
)
def test_both_engines_write_the_same(kind, precision, tmp_path, translate):
    folder = small_model(tmp_path / "exp", kind).export(tmp_path / "folder", precision, True)
    ours = translate(folder, "--engine", "aiayn")
    for other in (("--beam", 3), ("--beam", 22), ("--alpha", 2), ("--precision", "bfloat16")):
        status, _, err = translate(folder, *other)
        assert (status, err) == (0, "")
    assert translate(folder, "--nbest", 2)[1].splitlines()[::2] == ours[1].splitlines()
    status, out, err = translate(folder)
    assert ours == (status, out, "") and status == 0
    assert "CTranslate2" in err and "--engine aiayn" in err and err.count("\n") == 1


def test_ctranslate2_uses_the_folders_files_and_settings(fast_folder, translate, monkeypatch):
    """None that were changed; without the files or the package, our own search translates."""
    expected = translate(fast_folder)
    int8 = translate(fast_folder, "--engine", "ctranslate2", "--quantization", "int8")
    assert int8[0] == 0 and "translating" not in int8[2]
    config = (fast_folder / "config.json").read_text()
    shorter = config.replace('"extra_length": 50', '"extra_length": 3')
    (fast_folder / "config.json").write_text(shorter)
    assert translate(fast_folder)[:2] == translate(fast_folder, "--engine", "aiayn")[:2]
    assert translate(fast_folder)[1] != expected[1]
    (fast_folder / "config.json").write_text(config)
    for file in (fast_folder / "ctranslate2").iterdir():
        content = file.read_bytes()
        file.write_bytes(content[:-9] + b"\0" + content[-8:])
        assert f"{file}: changed since the export" in translate(fast_folder)[2]
        file.write_bytes(content)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ctranslate2", None)  # it is not installed
        patch.delitem(sys.modules, "fairseq_aiayn.inference.ctranslate2")
        assert translate(fast_folder) == (*expected[:2], "")
        assert "[ctranslate2]'" in translate(fast_folder, "--engine", "ctranslate2")[2]
    shutil.rmtree(fast_folder / "ctranslate2")
    assert translate(fast_folder) == (*expected[:2], "")


@pytest.mark.parametrize(
    ("option", "numbers"),
    [
        ("--beam", (0, 81)),  # the target vocabulary has 80 entries
        ("--alpha", (-1, 101, "nan")),
        ("--nbest", (0, 5)),
        ("--threads", (0, 10**5, 10**20)),
        ("--batch-tokens", (0, -1)),
    ],
)
def test_every_engine_has_the_same_limits(option, numbers, fast_folder, refused):
    for number in numbers:
        words = ("translate", fast_folder, "--cpu", option, number)
        (message,) = {refused(*words, "--engine", engine) for engine in ENGINES}
        assert "must be" in message


def test_ctranslate2_is_refused_with_what_writes_its_files(run, folder, aiayn, translate, tmp_path):
    data = run.parent / "bin"
    checkpoint = ("--checkpoint", run / "checkpoints/checkpoint_last.pt", "--data-bin", data)
    cut = ("--bpe-codes", data / "codes", "--lowercase")
    for model in ((folder,), (run,), (*checkpoint, *cut)):
        status, out, err = translate(*model, "--engine", "ctranslate2")
        assert (status, out, err.count("\n")) == (2, "", 1)
        _, *words, _ = shlex.split(err[err.index("aiayn export") :])
        assert aiayn(*words, tmp_path / "new")[0] == 0
        assert translate(tmp_path / "new")[:2] == translate(*model)[:2]
        shutil.rmtree(tmp_path / "new")


def test_ctranslate2_needs_neither_torch_nor_fairseq(fast_folder, translate):
    program = (
        "import sys; from fairseq_aiayn.cli.main import main; main(sys.argv[1:]);"
        "print({'torch', 'fairseq', 'omegaconf'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", program, "translate", str(fast_folder), "--cpu"]
    printed = subprocess.check_output(command, input=TEXT, text=True, stderr=subprocess.DEVNULL)
    assert printed == f"{translate(fast_folder)[1]}set()\n"


@pytest.mark.parametrize("bad", [b"caf\xe9", b"the " * 1025])
def test_an_invalid_line_comes_after_what_is_done_or_is_skipped(bad, folder, aiayn, give):
    good = [line.encode() for line in LINES]
    expected = load(folder, "cpu").translate(LINES)
    text = b"\n".join([*good[:2], bad, *good[2:], bad])
    give(text)
    status, out, err = aiayn("translate", folder, "--cpu")
    assert (status, out.splitlines()) == (2, expected[:2])
    assert err.startswith("aiayn translate: standard input:3: ") and err.count("\n") == 1
    give(text)
    status, out, err = aiayn("translate", folder, "--cpu", "--skip-invalid")
    assert (status, out.split("\n")) == (0, [*expected[:2], "", *expected[2:], "", ""])
    last = len(LINES) + 2
    assert "standard input:3: " in err and f"standard input:{last}: " in err and "2 invalid" in err


def test_a_sentence_that_cannot_be_a_tree_is_named_or_skipped(parser_folder, aiayn, give):
    options = ("--model", parser_folder, "--cpu", "--tokenized", "--beam", 1)
    sentences = ["the cat", "", "a (b c", "the cat"]
    tree = aiayn("parse", *options, "the cat")[1]
    status, out, err = aiayn("parse", *options, *sentences)
    assert (status, out) == (2, f"{tree}\n")
    assert err.startswith("aiayn parse: sentence 3: a word") and "'(b'" in err
    sentences.append("caf\udce9")  # how Python gives an argument that is not UTF-8
    skipped = aiayn("parse", *options, "--skip-invalid", *sentences)
    assert skipped[:2] == (0, f"{tree}\n\n{tree}\n") and "sentence 5: 'utf-8'" in skipped[2]
    give("\n".join(sentences[:3]))
    assert aiayn("parse", *options)[2].startswith("aiayn parse: standard input:3: a word")


def test_a_terminal_is_asked_again(folder, parser_folder, aiayn, give, monkeypatch):
    give(b"caf\xe9\n" + b"x " * 1025 + b"\n\nthe cat\n", terminal=True)
    status, out, err = aiayn("translate", folder, "--scores", "--beam", 1, "--cpu")
    empty, translation = out.splitlines()
    assert (status, empty) == (0, "0.0000\t0.0000\t") and float(translation.split("\t")[1]) < 0
    assert "0xe9" in err and "at most 1,024" in err
    monkeypatch.setitem(sys.modules, "readline", None)  # a Python may have been built without it
    give("a (b c\n\nthe cat\n", terminal=True)
    status, out, err = aiayn("parse", "--model", parser_folder, "--tokenized", "--beam", 1, "--cpu")
    assert (status, out.split("\n")[0], out.count("\n")) == (0, "", 2)
    assert "'(b'" in err


def test_folder_run_and_checkpoint_are_one_model(run, aiayn, translate, tmp_path, monkeypatch):
    root, data = tmp_path, run.parent / "bin"
    checkpoint = ("--checkpoint", run / "checkpoints/checkpoint_last.pt", "--data-bin", data)
    cut = ("--bpe-codes", data / "codes", "--lowercase")
    card = ("--licence", "CC0", "--scores", "BLEU 1")
    for words in (
        (*checkpoint, *cut, *card, "--output", root / "one"),
        (run, "--output", root / "two", "--no-ctranslate2"),
        (*checkpoint, "--output", root / "noted", "--no-ctranslate2"),
        (root / "one", "--licence", "MIT", "--output", root / "free", "--no-ctranslate2"),
    ):
        wrote = f"wrote {root}/one with CTranslate2's files\n" if words[-1] == root / "one" else ""
        assert aiayn("export", *words) == (0, "", wrote)
    assert not (root / "two" / "ctranslate2").exists()
    one, two, noted = (read_folder(root / name).config for name in ("one", "two", "noted"))
    assert one.told == {"licence": "CC0", "scores": "BLEU 1"} and two.told == {"data": "invented"}
    assert read_folder(root / "free").config.told == one.told | {"licence": "MIT"}
    assert "CC0" in (root / "one" / "README.md").read_text() and noted.text == two.text
    models = ((root / "one",), (root / "two",), (run,), (*checkpoint, *cut))
    outputs = [translate(*model, "--engine", "aiayn") for model in models]
    assert outputs == [outputs[0]] * 4 and outputs[0][0] == 0
    assert translate(root / "one")[:2] == outputs[0][:2]
    (root / "one" / "codes").write_text("#version: 0.2\n")
    assert f"{root}/one/codes: changed" in translate(root / "one")[2]
    (data / "text.json").unlink()
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # it is not installed
    status, _, err = aiayn("export", *checkpoint, "--output", root / "uncut")
    assert status == 0 and "nothing says how the text was cut" in err
    assert f"wrote {root}/uncut without CTranslate2's files" in err


@pytest.mark.parametrize("task", ["translation", "parsing"])
def test_the_card_has_a_command_that_works(task, folder, parser_folder, aiayn, give):
    model = folder if task == "translation" else parser_folder
    words = re.search(r"(?m)^    aiayn (.*) < text$", (model / "README.md").read_text())[1]
    give("the cat\n")
    status, output, _ = aiayn(*words.replace("THIS_FOLDER", str(model)).split(), "--cpu")
    assert (status, output.count("\n")) == (0, 1)


def test_without_a_name_it_is_the_model_of_the_package(aiayn, give):
    give("Select the cells.\n")
    status, output, error = aiayn("translate", "--cpu")
    assert (status, output) == (0, f"{load(device='cpu').translate(['Select the cells.'])[0]}\n")
    assert error.startswith("no model is named: this is the package's small English-German one")


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("parse x", "expected exactly one of RUN"),
        ("export --output OUT", "expected exactly one of RUN"),
        ("translate PARSER", "PARSER: expected a translation model, got a parser"),
        ("translate PARSER --engine ctranslate2", "PARSER: expected a translation model, got"),
        ("parse --model FOLDER x", "FOLDER: expected a parser"),
        ("translate FOLDER --quantization int8", "--quantization: goes with --engine ctranslate2"),
        ("translate FOLDER --engine ctranslate2 --precision bfloat16", "--precision: goes with"),
        ("parse --checkpoint ROOT/bin x", "--checkpoint: goes with --data-bin"),
        ("export FOLDER --to fairseq --output ROOT", "must not exist yet"),
        ("export FOLDER --to fairseq --licence MIT --output OUT", "goes with --to folder"),
        ("export ROOT --lowercase --output OUT", "--lowercase: goes with --checkpoint"),
        ("export --checkpoint c --data-bin b --normalize --output OUT", "goes with --bpe-codes"),
        ("export --checkpoint c --data-bin b --lowercase --output OUT", "goes with --bpe-codes"),
        ("export ROOT --checkpoint c --data-bin b --output OUT", "expected exactly one of RUN"),
    ],
)
def test_options_that_do_not_fit(given, rule, folder, parser_folder, tmp_path, refused):
    places = {"FOLDER": folder, "PARSER": parser_folder, "ROOT": tmp_path, "OUT": tmp_path / "out"}

    def filled(text: str) -> str:
        return re.sub("[A-Z]{3,}", lambda match: str(places.get(match[0], match[0])), text)

    assert filled(rule) in refused(*map(filled, given.split()))
    assert not [*tmp_path.iterdir()]
