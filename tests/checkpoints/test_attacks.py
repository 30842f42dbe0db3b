"""Checkpoints that somebody made to run code, to break memory or to read what is not theirs."""

from __future__ import annotations

import argparse
import collections
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy
import omegaconf
import pytest
import torch
from checkpoint_states import checkpoint, save
from fairseq import checkpoint_utils, utils
from intruder import expression

from fairseq_aiayn import plugin  # noqa: F401  (guards fairseq's loading)
from fairseq_aiayn.checkpoints import ALLOWED, SAFE_GLOBALS, read_checkpoint

ROOT = Path(__file__).parents[2]
ARRAY = "numpy._core.multiarray._reconstruct"


# --- names in a pickle ---


def test_every_allowed_name_says_why_it_can_do_no_harm():
    """A new name has to be argued for, here too."""
    names = [name for _, name, _ in ALLOWED]
    assert sorted(names) == sorted(
        [
            *("argparse.Namespace", "collections.defaultdict", "typing.Any", "typing.Dict"),
            *("omegaconf.dictconfig.DictConfig", "omegaconf.listconfig.ListConfig"),
            *("omegaconf.nodes.AnyNode", "omegaconf.base.ContainerMetadata"),
            *("omegaconf.base.Metadata", "builtins.dict", "builtins.list", "builtins.int"),
            *("numpy.ndarray", "numpy.dtype", ARRAY, "numpy.core.multiarray._reconstruct"),
            *("numpy._core.multiarray.scalar", "numpy.core.multiarray.scalar"),
            *(f"fairseq.meters.{name}Meter" for name in ("Average", "Time", "Stopwatch")),
        ]
    )
    assert all(why for _, _, why in ALLOWED)
    foreign = {numpy.ndarray, numpy.dtype, dict, list, int, collections.defaultdict}
    assert not foreign & {value for value, _ in SAFE_GLOBALS}, "a file could call them"


def call(function: str, *arguments: bytes) -> bytes:
    """A pickle that calls a function by its name with pickled arguments."""
    module, _, name = function.rpartition(".")
    named = f"c{module}\n{name}\n".encode()
    return b"\x80\x02" + named + b"(" + b"".join(arguments) + b"tR."


def dumped(value: object) -> bytes:
    return pickle.dumps(value, protocol=2)[2:-1]  # without the first and the last operation


def named(name: str) -> bytes:
    module, _, last = name.rpartition(".")
    return f"c{module}\n{last}\n".encode()


def array_at(address: bytes) -> bytes:
    """numpy.ndarray((1,), dtype("O"), address)."""
    dtype = named("numpy.dtype") + b"(" + dumped("O8") + b"tR"
    return named("numpy.ndarray") + b"(" + dumped((1,)) + dtype + dumped(address) + b"tR"


@pytest.mark.parametrize(
    "called",
    [(dict, ([("a", 1)],)), (list, ((1, 2),)), (int, ("7",))],
    ids=["dict", "list", "int"],
)
def test_types_that_a_file_mentions_cannot_be_called(called, tmp_path):
    class Called:
        def __reduce__(self):
            return called

    path = save(tmp_path / "evil.pt", checkpoint(value=Called()))
    with pytest.raises(ValueError, match="truncated, or not a PyTorch checkpoint"):
        read_checkpoint(path)


def test_objects_at_an_address_of_ones_choice_are_not_made(tmp_path):
    """NumPy would take the bytes for a pointer to an object: a process of its own may crash."""
    path = tmp_path / "evil.pt"
    path.write_bytes(call("builtins.list", array_at(b"A" * 8)))
    code = "import sys; from pathlib import Path; from fairseq_aiayn.checkpoints"
    code += " import read_checkpoint; read_checkpoint(Path(sys.argv[1]))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, "ValueError" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    "array",
    [
        numpy.array([{"a": 1}], dtype=object),
        numpy.array(["text"]),
        numpy.zeros(2, dtype=[("a", "i4"), ("b", "O")]),
        numpy.array(["2017-06-12"], dtype="datetime64[D]"),
    ],
    ids=["objects", "text", "records", "dates"],
)
def test_arrays_are_of_numbers_only(array, tmp_path):
    path = save(tmp_path / "evil.pt", checkpoint(array=array))
    with pytest.raises(ValueError, match=r"evil\.pt: "):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "state",
    [
        (1, (4,), numpy.dtype("f8"), False, b"8 bytes."),
        (1, (-1, -1), numpy.dtype("f8"), False, b"8 bytes."),
        (1, (2**62, 4), numpy.dtype("f8"), False, b"8 bytes."),
        (1, ("1",), numpy.dtype("f8"), False, b"8 bytes."),
        (1, (1,), "f8", False, b"8 bytes."),
    ],
)
def test_an_array_has_the_bytes_of_its_shape(state, tmp_path):
    class Lying:
        def __reduce__(self):
            return (*numpy.zeros(0).__reduce__()[:2], state)

    path = save(tmp_path / "evil.pt", checkpoint(array=Lying()))
    with pytest.raises(ValueError, match=r"evil\.pt: ") as caught:
        read_checkpoint(path)
    assert str(caught.value.__cause__).startswith("an array")  # not the refusal of something else


def test_the_type_of_arrays_has_no_name_that_a_file_can_give(tmp_path):
    hidden = [name for _, name in SAFE_GLOBALS if "\n" in name]
    assert len(hidden) == 1
    path = tmp_path / "evil.pt"
    path.write_bytes(b"\x80\x02c" + f"{hidden[0]}\n".encode() + b".")
    with pytest.raises(ValueError, match="refused, it asks for"):
        read_checkpoint(path)


# --- what a configuration asks for ---


def load(path: Path) -> None:
    """As fairseq's commands do."""
    checkpoint_utils.load_model_ensemble_and_task([str(path)])


def test_a_model_that_evaluates_its_options_is_not_built(tmp_path):
    mark = tmp_path / "mark"
    model = argparse.Namespace(_name="fconv", arch="fconv", encoder_layers=expression(mark))
    path = save(tmp_path / "evil.pt", checkpoint(model))
    with pytest.raises(ValueError, match=r"evil\.pt: asks for the model 'fconv', which is not"):
        load(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("section", "content", "message"),
    [
        ("criterion", {"_name": "ctc", "wer_args": "x"}, "the criterion 'ctc'"),
        ("criterion", "ctc", "the criterion 'ctc'"),
        ("task", {"_name": "language_modeling"}, "the task 'language_modeling'"),
        ("task", {"task": "translation_lev", "_name": "translation"}, "the task 'translation_lev'"),
        ("model", {"_name": "transformer", "arch": "fconv"}, "the model 'fconv'"),
        ("model", {"wav2vec_ctc": {}}, "the model 'wav2vec_ctc'"),
        ("model", {"_name": "no such model"}, "the model 'no such model'"),
        ("model", {"_name": ["fconv"]}, r"the model \"\['fconv'\]\""),
        ("task", {"_name": {"a": 1}}, r"the task \"\{'a': 1\}\""),
        ("criterion", {"_name": 3}, "the criterion '3'"),
    ],
)
@pytest.mark.parametrize("form", ["dict", "config"])
def test_classes_are_known_ones(section, content, message, form, tmp_path):
    state = checkpoint()
    state["cfg"][section] = content
    if form == "config":
        state["cfg"] = omegaconf.OmegaConf.create(state["cfg"], flags={"allow_objects": True})
    path = save(tmp_path / "evil.pt", state)
    with pytest.raises(ValueError, match=f"evil.pt: asks for {message}, which is not known"):
        load(path)


def test_configurations_of_old_fairseq_are_looked_at_too(tmp_path):
    args = argparse.Namespace(arch="fconv", task="translation", criterion="cross_entropy")
    path = save(tmp_path / "evil.pt", checkpoint() | {"args": args, "cfg": None})
    with pytest.raises(ValueError, match="asks for the model 'fconv'"):
        load(path)


def test_no_string_is_evaluated(tmp_path):
    """Stock fairseq's Transformer has two options that it evaluates."""
    mark = tmp_path / "mark"
    for evaluate in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool):
        with pytest.raises(ValueError, match="must be a list, a dict or a number, got"):
            evaluate(expression(mark))
    assert not mark.exists()
    assert utils.eval_str_list("[1, 2]", type=int) == [1, 2] == utils.eval_str_list("1,2", type=int)
    assert utils.eval_str_list(None) is None and utils.eval_str_list(7.0, type=int) == [7]
    assert utils.eval_str_dict("{'a': 1}") == {"a": 1}
    assert utils.eval_bool("True") is True and utils.eval_bool("0") is False


@pytest.mark.parametrize(
    "text", ["${oc.env:HOME}", "a ${ oc.env : HOME }", "${a.${oc.env:HOME}}", "${oc.decode:'1'}"]
)
def test_nothing_is_read_from_the_environment(text, tmp_path):
    places = [
        checkpoint(argparse.Namespace(_name="aiayn_base", dropout=[0.1, {"deep": text}])),
        checkpoint() | {"args": argparse.Namespace(arch="aiayn_base", data=text)},
    ]
    flags = {"allow_objects": True}
    places.append(
        checkpoint() | {"cfg": omegaconf.OmegaConf.create({"a": {"b": text}}, flags=flags)}
    )
    for state in places:
        path = save(tmp_path / "evil.pt", state)
        for read in (load, read_checkpoint):
            with pytest.raises(ValueError, match="must not be computed when it is read, is"):
                read(path)


def test_references_within_a_configuration_are_fairseqs_own(tmp_path):
    """fairseq 0.10 to 0.12 write them."""
    flags = {"allow_objects": True}
    cfg = omegaconf.OmegaConf.create({"lr": [0.1], "optimizer": {"lr": "${lr}"}}, flags=flags)
    path = save(tmp_path / "checkpoint.pt", checkpoint(cfg=cfg))
    assert read_checkpoint(path)["cfg"].optimizer.lr == [0.1]


def test_a_whole_section_that_is_computed_is_refused(tmp_path):
    cfg = omegaconf.OmegaConf.create({"a": {"b": 1}}, flags={"allow_objects": True})
    cfg.a = "${oc.env:HOME}"
    cfg._content["a"] = omegaconf.DictConfig("${oc.env:HOME}")
    path = save(tmp_path / "evil.pt", checkpoint(cfg=cfg))
    with pytest.raises(ValueError, match=r"cfg\.a must not be computed when it is read, is"):
        read_checkpoint(path)


@pytest.mark.parametrize("value", ["1", "True"])
def test_a_variable_that_turns_the_guard_off_is_refused(value, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", value)
    path = save(tmp_path / "checkpoint.pt", checkpoint())
    for read in (load, read_checkpoint):
        with pytest.raises(ValueError, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD lets .* unset it"):
            read(path)


# --- well-formed files of wrong content ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"w": torch.ones(1)}, "cfg": None}, "it has neither 'args' nor 'cfg'"),
        ({"model": [1]}, "it has no 'model'"),
        ({"model": {"w": 1.0}}, "'model' must be parameters by their names, has 'w' of type float"),
        ({"model": {3: torch.ones(1)}}, "'model' must be parameters by their names, has 3"),
        ({"model": {}}, "it has no 'model'"),
        ({"cfg": "text"}, "a configuration .* must have values by names"),
        ({"cfg": ["a"]}, "a configuration .* must have values by names"),
        ({"args": {"arch": "aiayn_base"}}, "'args' must be a Namespace, is a dict"),
        ({"cfg": {"a": [{"b": torch.ones(1)}]}}, "cfg.a.0.b must be a plain value, is a tensor"),
        ({"extra_state": None}, "it has no 'extra_state'"),
        ({"optimizer_history": []}, "it has no 'optimizer_history'"),
        ({"optimizer_history": {"a": 1}}, "it has no 'optimizer_history'"),
    ],
)
@pytest.mark.parametrize("read", [load, read_checkpoint])
def test_what_fairseq_would_stumble_over_is_named(read, change, message, tmp_path):
    path = save(tmp_path / "odd.pt", checkpoint() | change)
    with pytest.raises(ValueError, match="odd.pt: .*" + message):
        read(path)


def test_a_plain_state_dict_is_no_checkpoint(tmp_path):
    path = save(tmp_path / "weights.pt", {"encoder.weight": torch.ones(2)})
    with pytest.raises(ValueError, match="weights.pt: not a checkpoint of fairseq, .* 'model'"):
        load(path)
