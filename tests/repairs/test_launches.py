"""Copies, norms and figures of all parameters at once are those of one at a time, to the bit."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import utils
from fairseq.optim.fp16_optimizer import FP16Optimizer
from originals import original
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_aiayn.repairs.patches import PATCHES

GRADIENTS, WEIGHTS, NORM, CLIP, LOG = PATCHES["launches"]


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operation, types, args=(), named=None):
        self.names.append(operation.overloadpacket.__name__)
        return operation(*args, **named or {})


def done(patch, wraps, *arguments):
    """What a function of fairseq returns, with or without its repair, and its operations."""
    function = patch.wrapper(original(patch)) if wraps else original(patch)
    with Operations() as operations:
        return function(*arguments), operations.names


def half_optimizer(flat: bool, without_gradient: int = 0) -> FP16Optimizer:
    """An optimizer of --fp16 or, not flat, --bf16, with gradients and newer weights in 32 bits."""
    torch.manual_seed(1)
    optimizer = FP16Optimizer.__new__(FP16Optimizer)
    optimizer.fp16_params = [torch.nn.Parameter(torch.randn(n, 3).half()) for n in (1, 2, 4, 5)]
    for parameter in optimizer.fp16_params[without_gradient:]:
        parameter.grad = torch.randn(parameter.shape).half()
    build = FP16Optimizer.build_fp32_params
    optimizer.fp32_params = build(None, optimizer.fp16_params, flatten=flat)
    optimizer._needs_sync = True
    for weight in optimizer.fp32_params.values() if flat else optimizer.fp32_params:
        weight.data += 0.1 * torch.randn(weight.shape)
        weight.grad.zero_()
    return optimizer


@pytest.mark.parametrize("without_gradient", [0, 1])
@pytest.mark.parametrize("flat", [True, False])
def test_copies_between_16_and_32_bits(flat, without_gradient, monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    ends, names = [], []
    for wraps in (False, True):
        optimizer = half_optimizer(flat, without_gradient)
        names.append([*done(GRADIENTS, wraps, optimizer)[1], *done(WEIGHTS, wraps, optimizer)[1]])
        wide = optimizer.fp32_params
        wide = [*(wide.values() if flat else wide)]
        ends.append([*(one.grad for one in wide), *(one.data for one in optimizer.fp16_params)])
        assert not optimizer._needs_sync
    torch.testing.assert_close(*ends, rtol=0, atol=0)
    if not without_gradient:
        assert [each.count("copy_") for each in names] == [8, 0]


def test_the_norm_of_the_gradient(monkeypatch):
    monkeypatch.setattr(utils, "multi_tensor_l2norm_available", False)
    gradients = [torch.randn(n, 3) for n in range(1, 5)]
    parameters = [SimpleNamespace(grad=gradient) for gradient in gradients]
    alone, names = done(CLIP, False, parameters, 0.0)
    assert names.count("linalg_vector_norm") == 5
    monkeypatch.setattr(utils, "multi_tensor_total_norm", NORM.wrapper(original(NORM)))
    together, names = done(CLIP, True, parameters, 0.0)
    assert "_foreach_norm" in names and torch.equal(alone, together)


def test_figures_of_several_batches_are_read_together():
    outputs = [{"loss": torch.tensor(float(n)), "ntokens": n} for n in range(3)]
    wrapped = LOG.wrapper(lambda trainer, outputs, *rest: outputs)
    assert wrapped(None, None, 1) is None
    with Operations() as operations:
        assert wrapped(None, outputs, 1) == outputs
    assert operations.names.count("stack") == 1
