"""Checkpoints made to run code, to read files or to take memory and time are refused, unbuilt."""

import importlib
import json
import os
import pickle
import warnings
import zipfile
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import fairseq
import numpy
import pytest
import torch
from checkpoint_states import Intruder, checkpoint, configuration, expression, save
from fairseq import checkpoint_utils, criterions, utils
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.data import Dictionary
from fairseq.logging import meters
from fairseq.models.transformer import TransformerModel
from omegaconf import OmegaConf

from fairseq_aiayn import plugin  # noqa: F401  (guards fairseq's loading)
from fairseq_aiayn.checkpoints import read_checkpoint
from fairseq_aiayn.repairs.guard import nothing_unasked
from fairseq_aiayn.repairs.loading import criterion_of_a_checkpoint

pytestmark = pytest.mark.needs_repairs


def refusal(path: Path) -> str:
    with pytest.raises(ValueError, match=path.name) as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Call:
    """Calls a function when it is unpickled without a guard."""

    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before PyTorch 1.6"])
def test_a_command_in_a_checkpoint_is_refused_and_not_run(zipped: bool, tmp_path: Path) -> None:
    path, marker = tmp_path / "evil.pt", tmp_path / "ran"
    evil = Namespace(arch=Intruder(marker))
    torch.save(checkpoint(cfg=evil), path, _use_new_zipfile_serialization=zipped)
    assert "refused, it asks for posix.system" in refusal(path)
    with pytest.raises(pickle.UnpicklingError):  # torch.load itself, as fairseq calls it
        torch.load(path, map_location="cpu")
    assert not marker.exists()
    path = save(tmp_path / "evil.pt", checkpoint(value=Call(getattr, "x", "upper")))
    assert "refused, it asks for " in refusal(path)


def test_nothing_is_made_at_an_address_that_a_file_gives(tmp_path: Path) -> None:
    """Breaks if a file gets NumPy's classes, which take 8 bytes for the address of an object."""
    number = Call(numpy._core.multiarray.scalar, numpy.dtype("O"), b"A" * 8)
    refusal(save(tmp_path / "evil.pt", checkpoint(value=number)))
    array = Call(numpy.ndarray, (1,), numpy.dtype("O"), b"A" * 8)
    path = save(tmp_path / "evil.pt", checkpoint(value=array))
    assert not isinstance(read_checkpoint(path)["value"], numpy.ndarray)


REFERENCES = {
    "environment": {"a": "${oc.env:HOME}"},
    "spaced": {"a": "a ${ oc.env : HOME }"},
    # Each has ten references to the next: 10⁹ values.
    "references of references": {f"a{i}": 10 * f"${{a{i + 1}}}" for i in range(9)} | {"a9": "x"},
    "circle": {"a": "${a}"},
    "lists of references": {"a": ["${b}"] * 10, "b": ["${c}"] * 10, "c": 1},
    "section": {"a": "${b}", "b": {"c": 1}},
    "relative": {"a": {"b": "${..c}"}, "c": 1},
    "missing": {"a": "${b}"},
}


@pytest.mark.parametrize("content", REFERENCES.values(), ids=REFERENCES)
def test_only_a_reference_to_a_plain_value_is_resolved(content, tmp_path):
    cfg = checkpoint()["cfg"] | content
    for given in ({"cfg": cfg}, {"cfg": configuration(cfg)}, {"args": Namespace(**content)}):
        path = save(tmp_path / "evil.pt", checkpoint() | given)
        assert "expected a reference to a value of the configuration" in refusal(path)


@pytest.mark.parametrize(
    "content",
    [
        {"a": "x" * 20_000, "b": ["${a}"] * 100},
        {"a": ["x"] * 1_000, "b": ["${a}"] * 1_000},
        {"a": "x" * 2_000_000},
        {"a" * 2_000_000: 1},
    ],
    ids=["text many times", "list many times", "long text", "long name"],
)
def test_the_whole_size_is_counted_before_anything_is_looked_through(content, tmp_path):
    path = save(tmp_path / "evil.pt", checkpoint(cfg=checkpoint()["cfg"] | content))
    assert "expected a configuration of at most" in refusal(path)


def test_a_part_is_not_larger_than_its_file(tmp_path):
    """Breaks if a few bytes, unpacked, fill the memory."""
    with zipfile.ZipFile(tmp_path / "evil.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("evil/data.pkl", bytes(10**6))
    assert "its parts are larger than the file" in refusal(tmp_path / "evil.pt")


def test_lists_within_lists_end(tmp_path):
    wide: list = []
    for _ in range(30):
        wide = [wide] * 10
    loop: list = []
    loop.append(loop)
    for value in (wide, loop):
        state = checkpoint(args=Namespace(arch=value))
        refusal(save(tmp_path / "evil.pt", state))
        state["extra_state"]["best"] = value
        refusal(save(tmp_path / "evil.pt", state | {"args": None}))


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before PyTorch 1.6"])
@pytest.mark.parametrize(
    "value", [b")" + 40 * b"q\0h\0\x86", b")" + 200_000 * b"\x85"], ids=["wide", "deep"]
)
def test_no_key_takes_hours_or_the_stack(value, zipped, tmp_path):
    """Breaks if PyTorch hashes tuples within tuples: it then hangs, or the process dies."""

    class Key(pickle.Pickler):
        def __init__(self, file: IO, **options: object) -> None:
            self.file = file

        def dump(self, state: object) -> None:
            self.file.write(b"\x80\x02}" + value + b"K\x01s.")

    path, zipped = tmp_path / "evil.pt", {"_use_new_zipfile_serialization": zipped}
    module = SimpleNamespace(__name__="pickle", dump=pickle.dump, Pickler=Key)
    torch.save({}, path, module, 2, **zipped)
    assert "refused, it has values within values without end" in refusal(path)


def test_no_string_is_evaluated(tmp_path):
    """Stock fairseq's Transformer has two options that it evaluates."""
    mark = tmp_path / "mark"
    for evaluate in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool):
        for text in (expression(mark), "-" * 200_000 + "1", "[" * 100_000):
            with pytest.raises(ValueError, match="expected a list, a dict or a number, got"):
                evaluate(text)
    assert not mark.exists()
    assert utils.eval_str_list("[1, 2]", type=int) == [1, 2] == utils.eval_str_list("1,2", type=int)
    assert utils.eval_str_list(None) is None and utils.eval_str_list(7.0, type=int) == [7]
    assert utils.eval_str_dict("{'a': 1}") == {"a": 1}
    assert utils.eval_bool("True") is True and utils.eval_bool("0") is False


def test_a_pipe_and_a_device_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    for path in (tmp_path / "pipe.pt", Path("/dev/zero")):
        assert "a plain file" in refusal(path)


def stock(directory, task="translation", search=None, **options):
    """Write the checkpoint of a small stock model; `search` has options of its task."""
    for language in ("en", "de"):
        (directory / f"dict.{language}.txt").write_text("x 1\n")
    sizes = {"encoder_embed_dim": 8, "decoder_embed_dim": 8, "encoder_layers": 1}
    sizes |= {"decoder_layers": 1, "share_all_embeddings": True}
    model = Namespace(**{"_name": "transformer", "arch": "transformer"} | sizes | options)
    state = checkpoint(model)
    languages = {"source_lang": "en", "target_lang": "de"} | (search or {})
    state["cfg"]["task"] = Namespace(task=task, data=str(directory), **languages)
    state["model"] = {"encoder.embed_tokens.weight": torch.ones(len(Dictionary()) + 1, 8)}
    return str(save(directory / "evil.pt", state))


@pytest.mark.parametrize(
    "options",
    [
        {"decoder_output_dim": 10**9, "share_all_embeddings": False},
        {"max_source_positions": 10**9},
        {"encoder_ffn_embed_dim": 10**12},
        {"encoder_layers": 10**9},
        {"encoder_layers_to_keep": "1," * 10**5},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_small_file_has_no_large_model(options, tmp_path):
    """Breaks if memory is taken, or if a billion layers are built one after another."""
    with pytest.raises(ValueError, match="asks for a larger model than its file holds"):
        checkpoint_utils.load_model_ensemble_and_task([stock(tmp_path, **options)])


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"encoder_embed_path": "MARK"}, "open '.*mark'"),
        # A checkpoint within the checkpoint
        ({"_name": "wav2vec_ctc", "arch": "wav2vec_ctc", "w2v_path": "MARK"}, "open '.*mark'"),
        ({"_name": "fconv", "arch": "fconv", "encoder_layers": "MARK"}, "evaluate a string"),
        ({"_name": "fconv", "arch": "transformer", "encoder_layers": "MARK"}, "evaluate a string"),
    ],
)
def test_what_is_built_opens_and_evaluates_nothing(options, what, tmp_path, monkeypatch):
    """Unless the user says so. A training that goes on builds its own options, and may load it."""
    mark = tmp_path / "mark"
    value = expression(mark) if "evaluate" in what else str(mark)
    path = stock(tmp_path, **json.loads(json.dumps(options).replace('"MARK"', json.dumps(value))))
    checkpoint_utils.load_checkpoint_to_cpu(path)
    with pytest.raises(ValueError, match=f"{what}.*; if you trust it: AIAYN_TRUST={path}"):
        checkpoint_utils.load_model_ensemble_and_task([path])
    assert not mark.exists()
    monkeypatch.setenv("AIAYN_TRUST", f"other.pt:{path}")
    with pytest.raises(Exception) as error:
        checkpoint_utils.load_model_ensemble_and_task([path])
    assert "if you trust it" not in str(error.value)
    assert mark.exists() == ("evaluate" in what)


def test_a_refusal_that_fairseq_catches_and_one_of_an_ensemble_name_the_way_out(
    tmp_path, monkeypatch
):
    """Trust in the one that asks is enough, and is added to the trust there is."""
    (tmp_path / "c.yaml").write_text("x: 1")
    speech = {"config_yaml": "c.yaml", "max_source_positions": 9, "max_target_positions": 9}
    path = stock(tmp_path, task="speech_to_text", search=speech)
    with pytest.raises(ValueError, match="evil.pt: .* open '.*c.yaml'; if you trust it: AIAYN_TRU"):
        checkpoint_utils.load_model_ensemble_and_task([path])
    bad = Path(stock(tmp_path, encoder_embed_path=str(tmp_path / "c.yaml")))
    bad = str(bad.rename(tmp_path / "bad.pt"))
    paths = [stock(tmp_path), bad]
    monkeypatch.setattr(TransformerModel, "load_state_dict", lambda *_, **__: None)
    monkeypatch.setenv("AIAYN_TRUST", "other.pt")
    with pytest.raises(ValueError, match=f"^{bad}: .* AIAYN_TRUST=other.pt:{bad}$"):
        checkpoint_utils.load_model_ensemble_and_task(paths)
    monkeypatch.setenv("AIAYN_TRUST", bad)
    checkpoint_utils.load_model_ensemble_and_task(paths)


def test_what_is_built_may_warn_and_import(tmp_path, monkeypatch):
    """A warning shows a line of its code, wherever that lies."""
    (tmp_path / "with_warning.py").write_text("import warnings\n\nwarnings.warn('seen')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with nothing_unasked("x.pt"):
        with pytest.warns(UserWarning, match="seen") as caught:
            importlib.import_module("with_warning")
        text = warnings.formatwarning("seen", UserWarning, caught[0].filename, 3)
    assert "warnings.warn('seen')" in text


@pytest.mark.filterwarnings("ignore:Exception ignored in.*SentenceRankingCriterion.__del__")
@pytest.mark.parametrize(
    ("cfg", "what"),
    [
        ({"_name": "ctc", "wer_args": "MARK"}, "evaluate a string"),
        ({"_name": "sentence_ranking", "save_predictions": "MARK"}, "open '.*mark'"),
    ],
)
def test_no_criterion_of_a_checkpoint_does_either(cfg, what, tmp_path):
    mark = tmp_path / "mark"
    value = expression(mark) if "evaluate" in what else str(mark)
    cfg = {key: value if it == "MARK" else it for key, it in cfg.items()}
    if defaults := CRITERION_DATACLASS_REGISTRY.get(cfg["_name"]):
        cfg = OmegaConf.merge(defaults(), cfg)
    else:
        cfg = Namespace(criterion=cfg["_name"], ranking_head_name="x", num_classes=1, **cfg)
    task = SimpleNamespace(target_dictionary=Dictionary())
    with pytest.raises(ValueError, match=what):
        criterion_of_a_checkpoint(criterions.build_criterion, cfg, task)
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["scoring", "tokenizer"])
def test_no_configuration_file_that_it_names_is_read(kind, tmp_path):
    """fairseq reads the files of an option's choices, in which variables may be named."""
    (tmp_path / "x.yaml").write_text("_name: ${oc.env:HOME}\n")
    name = os.path.relpath(tmp_path / "x", Path(fairseq.__file__).parent / "config" / kind)
    args = Namespace(arch="aiayn_tiny", task="translation", **{kind: name})
    line = refusal(save(tmp_path / "evil.pt", checkpoint() | {"cfg": None, "args": args}))
    assert "asks to open" in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eval_bleu_args", "[" * 100_000),
        ("eval_bleu_args", "{"),
        ("eval_bleu_args", '{"sampling": true, "print_alignment": "x"}'),
        ("eval_bleu_args", '{"prefix_allowed_tokens_fn": 1}'),
        ("eval_bleu_args", '{"beam": 100000}'),
        ("eval_bleu_args", '{"beam": 2.5}'),
        ("eval_bleu_args", '{"max_len_b": Infinity}'),
        ("eval_bleu_detok_args", '{"tokenizer": "x"}'),
        ("eval_bleu_detok", "x"),
    ],
)
def test_a_checkpoint_has_a_small_search(name, value, tmp_path):
    search = {"eval_bleu": True, "eval_bleu_args": '{"beam": 5, "max_len_a": 1.2}'}
    with pytest.raises(RuntimeError, match="Missing key"):  # it is built
        checkpoint_utils.load_model_ensemble_and_task([stock(tmp_path, search=search)])
    path = stock(tmp_path, search=search | {name: value})
    with pytest.raises(ValueError, match="eval_bleu.* expected .*--model-overrides"):
        checkpoint_utils.load_model_ensemble_and_task([path])
    with pytest.raises(RuntimeError, match="Missing key"):
        checkpoint_utils.load_model_ensemble_and_task([path], {"eval_bleu": False})


@pytest.mark.parametrize(
    "extra",
    [
        {"train_iterator": {"epoch": 1, "iterations_in_epoch": 10**18}},
        {"train_iterator": {"epoch": "x"}},
        *({"updates": updates} for updates in (10**400, "x", -1)),
        {"train_iterator": {"epoch": 1, "patience": {"num_runs": "x"}}},
        {"best": "x"},
        {"previous_training_time": "x"},
        {"metrics": 3},
        {"metrics": {"train": [1, 2]}},
        {"metrics": {"train": [(1, "loss", "safe_round", {})]}},
        {"metrics": {"train": [(1, "loss", "MetersDict", [(1, "a", "AverageMeter", {})])]}},
        {"metrics": {"train": [(1, "loss", "AverageMeter", {"val": 1, "sum": "x", "count": 1})]}},
        {"metrics": {"train": [(1, "loss", "AverageMeter", {"val": 1})]}},
    ],
)
def test_a_place_updates_and_meters_are_numbers(extra, tmp_path):
    """fairseq-train calls the function of fairseq that a meter names."""
    state = checkpoint(updates=extra.get("updates", 1))
    state["extra_state"] |= extra
    assert "fairseq cannot load this checkpoint: " in refusal(save(tmp_path / "evil.pt", state))


def test_every_kind_of_meter_is_loaded(tmp_path):
    state, kept = checkpoint(), meters.MetersDict()
    for kind in ("AverageMeter", "SumMeter", "TimeMeter", "StopwatchMeter"):
        kept.add_meter(kind, getattr(meters, kind)(), 1)
    state["extra_state"] |= {"metrics": {"train": kept.state_dict()}}
    checkpoint_utils.load_checkpoint_to_cpu(str(save(tmp_path / "good.pt", state)))


def test_no_option_takes_the_memory_or_the_name_of_a_parameter_the_terminal(tmp_path):
    args = Namespace(arch="aiayn_tiny", task="translation", max_update="-" * 200_000 + "1")
    path = save(tmp_path / "evil.pt", checkpoint(args=args, cfg=None))
    assert "fairseq cannot load this checkpoint: " in refusal(path)
    path = save(tmp_path / "evil.pt", checkpoint() | {"model": {"\x1b[2J": torch.ones(1)}})
    assert "expected dense tensors by their names" in refusal(path)
