"""The product with a vocabulary's matrix is the plain one, and only taken where it is the same."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_aiayn.nn import cpu_kernels
from fairseq_aiayn.nn.cpu_kernels import fits_onednn, vocabulary_product

E = torch.randn(97, 16, generator=torch.Generator().manual_seed(1))
X = torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    "x",
    [X, X[0], X[0, 0], X[:0], X.transpose(0, 1)[:, :2], X[:, ::2]],
    ids=["batch", "rows", "vector", "nothing", "transposed", "every other"],
)
@torch.no_grad()
def test_is_the_plain_product(x: torch.Tensor) -> None:
    assert fits_onednn(x, E)
    torch.testing.assert_close(vocabulary_product(x, E), F.linear(x, E))


def test_gradients_and_other_types_take_the_plain_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a gradient is lost, or if autocast's bfloat16 is not used."""
    x = X.clone().requires_grad_()
    vocabulary_product(x, E).sum().backward()
    torch.testing.assert_close(x.grad, E.sum(dim=0).expand_as(x))
    with torch.no_grad():
        assert not fits_onednn(X.double(), E.double())
        assert not fits_onednn(X.to("meta"), E.to("meta"))
        with torch.autocast("cpu", torch.bfloat16):
            assert vocabulary_product(X, E).dtype == torch.bfloat16
        monkeypatch.setattr(cpu_kernels.torch.backends.mkldnn, "is_available", lambda: False)
        assert not fits_onednn(X, E)
