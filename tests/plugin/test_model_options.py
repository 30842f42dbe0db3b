"""The model's options: given options win over the row, and contradictory options are refused."""

import pytest
import torch
from building import build, count, dictionaries_task, dictionary, parse
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.trainer import _catalog_shared_params

from fairseq_aiayn.plugin.model import AiaynModel


def test_explicit_flags_win_over_the_row() -> None:
    """Breaks if the row overwrites a given option, even a falsy one, or does not set the decoder's
    option to the same value."""
    flags = ["--encoder-layers", "2", "--decoder-embed-dim", "32", "--encoder-ffn-embed-dim", "48"]
    flags += ["--encoder-attention-heads", "3", "--d-k", "5", "--d-v", "7", "--dropout", "0"]
    flags += ["--attention-dropout", "0.2", "--autocast", "bfloat16"]
    args = parse("--arch", "aiayn_big", *flags)
    model = build(args)
    stack = model.decoder.stack
    assert model.autocast is torch.bfloat16
    layer, _ = stack.layers
    for attention in (layer.self_attention, layer.cross_attention):
        assert attention.projection_sizes == (15, 15, 21)
        assert attention.W_QKV.weight.shape == (15 + 15 + 21, 32)
        assert attention.attention_dropout == 0.2
    assert layer.feed_forward.W_1.weight.shape == (48, 32)
    assert layer.feed_forward_norm.dropout.p == 0.0
    assert args.d_model == 32, "the schedule follows the model"


@pytest.mark.parametrize(
    ("flags", "matrices"),
    [
        ("", 1),
        ("--share-all-embeddings", 1),
        ("--share-all-embeddings --share-decoder-input-output-embed", 1),
        ("--share-decoder-input-output-embed", 2),
        ("--untied-embeddings", 3),
    ],
)
def test_embedding_matrices(flags: str, matrices: int) -> None:
    """Breaks if fairseq's options for shared embeddings have a different meaning here."""
    args = parse("--arch", "aiayn_tiny", *flags.split())
    model = build(args, 12)
    assert count(build(args, 112)) - count(model) == matrices * 100 * 256
    shared = [name for names in _catalog_shared_params(model) for name in names]
    ends = ("embedding.weight", "projection.weight")
    assert len(shared) == {1: 3, 2: 2, 3: 0}[matrices], "fairseq logs and sets what is shared"
    assert all(name.endswith(ends) for name in shared), "and not the biases that do not exist"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--encoder-layers 2 --decoder-layers 3", "--encoder-layers 2 and --decoder-layers 3"),
        (
            "--encoder-embed-dim 64 --d-model 32 --lr-scheduler aiayn_inverse_sqrt",
            "--d-model 32 .* differs from the model's --encoder-embed-dim 64",
        ),
        ("--share-all-embeddings --untied-embeddings", "contradict each other"),
        ("--encoder-embed-dim 33", "d_model must be even.* got 33"),
        ("--left-pad-target", "--left-pad-target"),  # padding would be position 0 of a target
    ],
)
def test_contradictions_are_refused(flags: str, message: str) -> None:
    """Breaks if one of two contradictory options silently wins, or if an impossible size is noticed
    only in training."""
    with pytest.raises(ValueError, match=message):
        build(parse("--arch", "aiayn_tiny", *flags.split()))


def test_targets_padded_on_the_right_may_be_said_in_words() -> None:
    """As --task translation_multi_simple_epoch does."""
    languages = ["--lang-pairs", "en-de", "--langs", "en,de"]
    args = parse("--arch", "aiayn_tiny", *languages, task="translation_multi_simple_epoch")
    assert args.left_pad_target == "False"
    build(args)


def test_completing_options_twice_changes_nothing() -> None:
    """fairseq applies an architecture when it parses options and again when it builds the model.
    Breaks if --untied-embeddings is lost."""
    args = parse("--arch", "aiayn_parsing", "--untied-embeddings", "--encoder-embed-dim", "64")
    once = dict(vars(args))
    ARCH_CONFIG_REGISTRY["aiayn_parsing"](args)
    assert vars(args) == once


def test_separate_dictionaries_need_separate_matrices() -> None:
    """Breaks if two vocabularies of equal size share a matrix, so that unrelated words have the
    same vector."""
    task = dictionaries_task(dictionary(["word"]), dictionary(["Wort"]))
    args = parse("--arch", "aiayn_tiny")
    with pytest.raises(ValueError, match="--joined-dictionary"):
        AiaynModel.build_model(args, task)
    separate = parse("--arch", "aiayn_tiny", "--share-decoder-input-output-embed")
    with torch.device("meta"):
        AiaynModel.build_model(separate, task)
