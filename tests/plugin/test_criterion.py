"""The criterion beside fairseq's own options."""

import pytest
import torch
from building import dictionaries_task, dictionary, plain_model

from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.training import AiaynLabelSmoothedCrossEntropy
from fairseq_aiayn.training import smoothed_nll

DIMENSIONS = Dimensions(N=1, d_model=16, d_ff=32, h=2, d_k=8, d_v=8, P_drop=0.0)
EPSILON = 0.1


WORDS = dictionary("abcd")


@pytest.fixture
def model() -> AiaynModel:
    return plain_model(WORDS, DIMENSIONS).eval()


def sample() -> dict:
    end, padding = WORDS.eos(), WORDS.pad()
    target = torch.tensor([[4, 5, 6, end], [7, 5, end, padding]])
    shifted = torch.tensor([[end, 4, 5, 6], [end, 7, 5, end]])
    source = torch.tensor([[4, 6, 5, end], [padding, 7, 4, end]])
    inputs = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": shifted}
    return {"net_input": inputs, "target": target, "ntokens": 7}


def test_accuracy_is_that_of_the_most_probable_types(model) -> None:
    """Breaks if --report-accuracy looks for the largest feature of the decoder."""
    batch = sample()
    best = model(**batch["net_input"])[0].argmax(dim=-1)
    batch["target"][0, :3] = best[0, :3]
    criterion = AiaynLabelSmoothedCrossEntropy(
        dictionaries_task(WORDS), False, EPSILON, report_accuracy=True
    )
    loss, _, log = criterion(model, batch)
    real = batch["target"] != WORDS.pad()
    assert log["n_correct"] == (best == batch["target"])[real].sum() >= 3
    assert log["total"] == real.sum() == 7
    plain = AiaynLabelSmoothedCrossEntropy(dictionaries_task(WORDS), False, EPSILON)
    torch.testing.assert_close(loss, plain(model, batch)[0])


def test_a_prefix_is_left_out_of_the_loss(model) -> None:
    """Breaks if --ignore-prefix-size is ignored where the loss computes the projection itself."""
    batch = sample()
    criterion = AiaynLabelSmoothedCrossEntropy(
        dictionaries_task(WORDS), False, EPSILON, ignore_prefix_size=1
    )
    log_p = model(**batch["net_input"])[0][:, 1:].log_softmax(dim=-1).flatten(0, 1)
    target = batch["target"][:, 1:].flatten()
    expected, _ = smoothed_nll(log_p, target, EPSILON, WORDS.pad())
    torch.testing.assert_close(criterion(model, batch)[0], expected)
