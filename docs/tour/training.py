"""A training in its shortest form: the model of section 3, the loss and the rate of section 5.

It needs no fairseq. Half a minute on a CPU is enough for the small language of number_words.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_aiayn.nn.layers import Dimensions
from fairseq_aiayn.nn.transformer import Transformer, create_transformer
from fairseq_aiayn.paper import ADAM, learning_rate
from fairseq_aiayn.training import smoothed_nll
from tour.number_words import END, INDEX, PADDING, SYMBOLS, VOCABULARY, Pair, draw_pairs

PAIRS = draw_pairs(1_500, seed=1)
TRAINING, DEVELOPMENT = PAIRS[:1_000], PAIRS[1_000:]


@dataclass(frozen=True)
class Options:
    """A small model and its training; the experiments vary some of it."""

    N: int = 2
    d_model: int = 64
    h: int = 4
    P_drop: float = 0.1
    epsilon_ls: float = 0.1
    warmup: int = 200
    first_step: int = 1  # earlier steps have the rate of this one; with `warmup`, the highest
    updates: int = 600
    batch_size: int = 64
    seed: int = 1

    def rate(self, step: int) -> float:
        """Return the learning rate of an update, counted from 1."""
        return learning_rate(max(step, self.first_step), self.d_model, self.warmup)


class Batch(NamedTuple):
    """Sources [B, S], the decoder's input [B, T], shifted right by one, and its targets [B, T]."""

    source: Tensor
    shifted: Tensor
    target: Tensor


def new_model(options: Options) -> Transformer:
    """Return a Transformer with fresh weights."""
    torch.manual_seed(options.seed)
    d_k = options.d_model // options.h
    sizes = Dimensions(
        N=options.N,
        d_model=options.d_model,
        d_ff=4 * options.d_model,
        h=options.h,
        d_k=d_k,
        d_v=d_k,
        P_drop=options.P_drop,
    )
    return create_transformer(sizes, len(VOCABULARY), len(VOCABULARY), PADDING)


def batch_of(pairs: Sequence[Pair]) -> Batch:
    """Return the pairs as tensors; as in fairseq, the end token also precedes the first word."""
    source, target = (
        padded([[*words, SYMBOLS[END]] for words in side]) for side in zip(*pairs, strict=True)
    )
    shifted = torch.cat([torch.full_like(target[:, :1], END), target[:, :-1]], dim=1)
    return Batch(source, shifted, target)


def padded(sentences: Sequence[Sequence[str]]) -> Tensor:
    """Return the indices of words [B, L]."""
    rows = [torch.tensor([INDEX[word] for word in words]) for words in sentences]
    return pad_sequence(rows, batch_first=True, padding_value=PADDING)


def loss_of(model: Transformer, batch: Batch, epsilon_ls: float) -> Tensor:
    """Return the smoothed loss per word, in nats."""
    log_p = model(batch.source, batch.shifted).log_softmax(dim=-1)
    loss, _ = smoothed_nll(log_p.flatten(0, 1), batch.target.flatten(), epsilon_ls, PADDING)
    return loss / batch.target.ne(PADDING).sum()


def train(model: Transformer, options: Options) -> Iterator[int]:
    """Train the model; yield the number of each update, so that the caller can measure meanwhile.

    The gradients of the update are still there.
    """
    adam = torch.optim.Adam(model.parameters(), betas=(ADAM.beta_1, ADAM.beta_2), eps=ADAM.epsilon)
    torch.manual_seed(options.seed)
    for step in range(1, options.updates + 1):
        places = torch.randint(len(TRAINING), (options.batch_size,)).tolist()
        model.train()
        adam.zero_grad()
        loss_of(model, batch_of([TRAINING[i] for i in places]), options.epsilon_ls).backward()
        for group in adam.param_groups:
            group["lr"] = options.rate(step)
        adam.step()
        yield step


@torch.no_grad()
def development_loss(model: Transformer) -> float:
    """Return the unsmoothed loss per word of the development set, in nats."""
    model.eval()
    return loss_of(model, batch_of(DEVELOPMENT), epsilon_ls=0.0).item()
