"""The paper's beam search behind the interface of fairseq's sequence generators."""

from __future__ import annotations

import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import (
    Continuations,
    EnsembleContinuations,
    Search,
    Symbols,
    beam_search,
)
from fairseq_aiayn.decoding.hypotheses import Hypothesis
from fairseq_aiayn.nn.cpu_kernels import products_in
from fairseq_aiayn.plugin.model import AiaynModel


class BeamSearchGenerator:
    """The generator that fairseq's commands call; hypotheses are returned in fairseq's form."""

    def __init__(
        self,
        source_dictionary: Dictionary,
        target_dictionary: Dictionary,
        options: Search,
        product_type: torch.dtype | None,
    ):
        """`product_type` is that of the matrix products, None for the type of the weights."""
        self.source_symbols = Symbols(source_dictionary.eos(), source_dictionary.pad())
        self.symbols = Symbols(end=target_dictionary.eos(), padding=target_dictionary.pad())
        self.symbols_to_strip_from_output = {target_dictionary.eos()}
        self.options = options
        self.product_type = product_type

    @torch.no_grad()
    def generate(
        self,
        models: list[AiaynModel],
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
    ) -> list[list[dict]]:
        """Translate a batch; return a list of hypotheses per sentence, best first, with scores in
        nats."""
        if constraints is not None:
            raise ValueError(
                "aiayn tasks have no lexically constrained search; use --task translation"
            )
        for model in models:
            model.eval()
        net_input = sample["net_input"]
        longest = min(model.max_decoder_positions() for model in models) - 1  # the end takes one
        max_lengths = self.options.max_lengths(net_input["src_tokens"], self.source_symbols)
        max_lengths = max_lengths.clamp(max=longest)
        with products_in(self.product_type, max_lengths.device):
            continuations = self.continuations(models, sample, max_lengths)
            found = beam_search(
                continuations, max_lengths, self.symbols, self.options, prefix_tokens
            )
        return [[as_fairseq(hypothesis) for hypothesis in sentence] for sentence in found]

    def continuations(
        self, models: list[AiaynModel], sample: dict, max_lengths: Tensor
    ) -> Continuations:
        """Return the continuations that the search scores: the ensemble at the start of a batch."""
        transformers = [model.transformer for model in models]
        return EnsembleContinuations(transformers, sample["net_input"]["src_tokens"])


def as_fairseq(hypothesis: Hypothesis) -> dict:
    """Return a hypothesis in the form that fairseq's commands and --eval-bleu read."""
    return {
        "tokens": hypothesis.tokens,
        "score": torch.tensor(hypothesis.score),
        "positional_scores": hypothesis.token_log_p,
        "attention": None,
        "alignment": torch.empty(0),
    }
