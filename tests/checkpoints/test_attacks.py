"""Checkpoints that somebody made to run code, to read what is not theirs, or to take memory and
time without end: each is refused, with its name, before anything is built from it."""

from __future__ import annotations

import argparse
import functools
import os
import pickle
from pathlib import Path

import numpy
import omegaconf
import pytest
import torch
from checkpoint_states import checkpoint, save
from fairseq import checkpoint_utils, utils
from fairseq.data import Dictionary
from intruder import Intruder, expression

from fairseq_aiayn import plugin  # noqa: F401  (guards fairseq's loading)
from fairseq_aiayn.checkpoints import read_checkpoint


def refusal(path: Path, load=checkpoint_utils.load_checkpoint_to_cpu) -> str:
    """Return the one line with which a checkpoint is refused."""
    with pytest.raises(ValueError, match=path.name) as caught:
        load(str(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def transformer(**options: object) -> argparse.Namespace:
    """Return the configuration of a small stock model."""
    sides = {f"{side}_{name}": 8 for side in ("encoder", "decoder") for name in ("embed_dim",)}
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "share_all_embeddings": True}
    return argparse.Namespace(_name="transformer", arch="transformer", **sides | sizes | options)


# --- pickles ----------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before PyTorch 1.6"])
def test_a_command_in_a_checkpoint_is_refused_and_not_run(zipped: bool, tmp_path: Path) -> None:
    path, marker = tmp_path / "evil.pt", tmp_path / "ran"
    evil = argparse.Namespace(arch=Intruder(marker))
    torch.save(checkpoint(cfg=evil), path, _use_new_zipfile_serialization=zipped)
    assert "refused, it asks for posix.system" in refusal(path)
    with pytest.raises(pickle.UnpicklingError):  # torch.load itself, as fairseq calls it
        torch.load(path, map_location="cpu")
    assert not marker.exists()


class Call:
    """Calls a function when it is unpickled without a guard."""

    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize(
    "call", [Call(eval, "1"), Call(getattr, "x", "upper"), Call(functools.partial, print)]
)
def test_what_calls_by_name_is_refused(call: Call, tmp_path: Path) -> None:
    path = save(tmp_path / "evil.pt", checkpoint(value=call))
    assert "refused, it asks for " in refusal(path)


def test_nothing_is_made_at_an_address_that_a_file_gives(tmp_path: Path) -> None:
    """Breaks if a file gets NumPy's own classes: they would take 8 bytes for the address of an
    object."""
    number = Call(numpy._core.multiarray.scalar, numpy.dtype("O"), b"A" * 8)
    refusal(save(tmp_path / "evil.pt", checkpoint(value=number)))
    array = Call(numpy.ndarray, (1,), numpy.dtype("O"), b"A" * 8)
    path = save(tmp_path / "evil.pt", checkpoint(value=array))
    assert not isinstance(read_checkpoint(path)["value"], numpy.ndarray)


# --- references -------------------------------------------------------------------------------

REFERENCES = {
    "environment": {"a": "${oc.env:HOME}"},
    "spaced": {"a": "a ${ oc.env : HOME }"},
    "nested": {"a": "${b.${oc.env:HOME}}", "b": 1},
    # Each has ten references to the next: 10⁹ values.
    "references of references": {f"a{i}": 10 * f"${{a{i + 1}}}" for i in range(9)} | {"a9": "x"},
    "chain": {"a": "${b}", "b": "${c}", "c": 1},
    "circle": {"a": "${a}"},
    "lists of references": {"a": ["${b}"] * 10, "b": ["${c}"] * 10, "c": 1},
    "section": {"a": "${b}", "b": {"c": 1}},
    "relative": {"a": {"b": "${..c}"}, "c": 1},
    "missing": {"a": "${b}"},
}


@pytest.mark.parametrize("form", [dict, omegaconf.DictConfig, argparse.Namespace])
@pytest.mark.parametrize("content", REFERENCES.values(), ids=REFERENCES)
def test_only_a_reference_to_a_plain_value_is_resolved(content, form, tmp_path):
    state = checkpoint()
    if form is argparse.Namespace:
        state["args"] = argparse.Namespace(**content)
    else:
        state["cfg"] = (
            form({**state["cfg"], **content}, flags={"allow_objects": True})
            if (form is omegaconf.DictConfig)
            else {**state["cfg"], **content}
        )
    path = save(tmp_path / "evil.pt", state)
    assert "expected a reference to a value of the configuration" in refusal(path)
    with pytest.raises(ValueError, match="evil.pt: expected a reference"):
        read_checkpoint(path)


def nested(depth: int, width: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value] * width
    return value


def loop() -> list:
    value: list = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [nested(30, 10), loop()], ids=["wide", "loop"])
def test_lists_within_lists_end(value, tmp_path):
    path = save(tmp_path / "evil.pt", checkpoint(args=argparse.Namespace(arch=value)))
    refusal(path)


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("model", argparse.Namespace(_name="fconv", arch="fconv")),
        ("model", {"_name": "transformer", "arch": "fconv"}),
        ("model", {"_name": "no such model"}),
        ("model", {"_name": ["fconv"]}),
        ("criterion", {"_name": "ctc", "wer_args": "x"}),
        ("criterion", "ctc"),
        ("criterion", {"_name": 3}),
        ("task", {"_name": "language_modeling"}),
        ("task", {"task": "translation_lev", "_name": "translation"}),
        ("bpe", {"_name": "../../x"}),
    ],
)
def test_names_are_those_of_harmless_classes(kind, content, tmp_path):
    for form in (dict, lambda cfg: omegaconf.OmegaConf.create(cfg, flags={"allow_objects": True})):
        state = checkpoint()
        state["cfg"] = form({**state["cfg"], kind: content})
        line = refusal(save(tmp_path / "evil.pt", state))
        assert f"asks for the {kind} " in line and "not known to be harmless" in line


def test_a_model_has_a_name(tmp_path):
    state = checkpoint()
    state["cfg"]["model"] = {"wav2vec_ctc": {}}  # fairseq takes the only field for the name
    assert "expected a configuration with the name of a model" in refusal(
        save(tmp_path / "evil.pt", state)
    )


@pytest.mark.parametrize("name", ["tokenizer", "bpe", "scoring"])
def test_a_name_in_old_options_is_no_path(name, tmp_path):
    """fairseq composes a configuration from the files that such names are of, and those may name
    variables of the environment."""
    args = argparse.Namespace(arch="aiayn_tiny", task="translation", **{name: "../../x"})
    path = save(tmp_path / "evil.pt", checkpoint() | {"args": args, "cfg": None})
    assert f"asks for the {name} '../../x'" in refusal(path)


def test_no_string_is_evaluated(tmp_path):
    """Stock fairseq's Transformer has two options that it evaluates."""
    mark = tmp_path / "mark"
    for evaluate in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool):
        with pytest.raises(ValueError, match="expected a list, a dict or a number, got"):
            evaluate(expression(mark))
    assert not mark.exists()
    assert utils.eval_str_list("[1, 2]", type=int) == [1, 2] == utils.eval_str_list("1,2", type=int)
    assert utils.eval_str_list(None) is None and utils.eval_str_list(7.0, type=int) == [7]
    assert utils.eval_str_dict("{'a': 1}") == {"a": 1}
    assert utils.eval_bool("True") is True and utils.eval_bool("0") is False


def test_metrics_are_meters(tmp_path):
    state = checkpoint()
    state["extra_state"]["metrics"] = {"train": [(1, "loss", "AverageMeter", {})]}
    checkpoint_utils.load_checkpoint_to_cpu(str(save(tmp_path / "fine.pt", state)))
    state["extra_state"]["metrics"] = {"train": [(1, "loss", "OrderedDict", {})]}
    assert "expected a meter of fairseq" in refusal(save(tmp_path / "evil.pt", state))


# --- files and memory -------------------------------------------------------------------------


def test_a_pipe_and_a_device_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    for path in (tmp_path / "pipe.pt", Path("/dev/zero"), tmp_path):
        assert "a plain file" in refusal(path)


@pytest.mark.parametrize("nested", [False, True])
def test_word_vectors_that_a_checkpoint_names_are_not_opened(nested, tmp_path):
    for file in ("/dev/zero", "a_pipe"):
        model = {"encoder": {"embed_path": file}} if nested else {"encoder_embed_path": file}
        path = save(tmp_path / "evil.pt", checkpoint(transformer(**model)))
        assert "paths in a checkpoint are not opened" in refusal(path)
    given = {"embed_path" if nested else "encoder_embed_path": None}
    checkpoint_utils.load_checkpoint_to_cpu(str(path), given)


@pytest.mark.parametrize("name", ["lang_dict", "source_dict", "target_dict", "fixed_dictionary"])
def test_files_of_a_multilingual_task_are_not_opened(name, tmp_path):
    state = checkpoint()
    state["cfg"]["task"] = {"_name": "translation_multi_simple_epoch", name: None}
    checkpoint_utils.load_checkpoint_to_cpu(str(save(tmp_path / "fine.pt", state)))
    state["cfg"]["task"][name] = "/dev/zero"
    line = refusal(save(tmp_path / "evil.pt", state))
    assert f"{name} is '/dev/zero', and paths in a checkpoint are not opened" in line


def stock(directory: Path, **options: object) -> Path:
    """Write the checkpoint of a small stock model, whose dictionaries lie in `directory`."""
    for language in ("en", "de"):
        (directory / f"dict.{language}.txt").write_text("x 1\n")
    state = checkpoint(transformer(**options))
    state["cfg"]["task"] = {"_name": "translation", "data": str(directory)}
    state["cfg"]["task"] |= {"source_lang": "en", "target_lang": "de"}
    state["model"] = {"encoder.embed_tokens.weight": torch.ones(len(Dictionary()) + 1, 8)}
    return save(directory / "evil.pt", state)


@pytest.mark.parametrize(
    "options",
    [
        {"decoder_output_dim": 10**9, "share_all_embeddings": False},
        {"max_source_positions": 10**9},
        {"encoder_ffn_embed_dim": 10**12},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_small_file_has_no_large_model(options, tmp_path):
    with pytest.raises(ValueError, match="its file has [0-9,]+ bytes"):
        checkpoint_utils.load_model_ensemble_and_task([str(stock(tmp_path, **options))])


def test_layers_are_no_more_than_weights(tmp_path):
    """Breaks if a billion layers are built, one after another."""
    assert "more than its 1 weights" in refusal(stock(tmp_path, encoder_layers=10**9))
