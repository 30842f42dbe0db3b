"""The paper's beam search behind the interface of fairseq's sequence generators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import Continuations, SearchOptions, beam_search
from fairseq_aiayn.decoding.candidates import Symbols
from fairseq_aiayn.decoding.hypotheses import Hypothesis
from fairseq_aiayn.nn.decoder_state import DecoderState
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.training.projected_loss import rows_of_logits

# Logits per part: as many as fit into the cache of a CPU, or enough rows to keep a GPU busy.
LOGITS = {"cpu": 2**21, "cuda": 2**27}
# Limits of --max-len-a and --max-len-b. Without them, a model that never ends its output could take
# far too many steps.
LONGEST_OUTPUT = (100, 100_000)


class EnsembleContinuations:
    """Models and their decoding states; P is the mean of their probabilities, as in fairseq."""

    def __init__(self, models: list[AiaynModel], net_input: dict[str, Tensor]):
        self.decoders = [model.decoder for model in models]
        self.states: list[DecoderState] = []
        for model in models:
            encoded = model.encoder(net_input["src_tokens"])
            self.states.append(model.decoder.stack.start(**encoded))

    def log_probabilities(self, tokens: Tensor) -> Iterator[Tensor]:
        """tokens [R, 1] → log P(next token) of all rows in order, in parts [rows, V]; float32,
        whatever the type of the models."""
        features = [
            decoder.stack.step(tokens, state)[:, 0]
            for decoder, state in zip(self.decoders, self.states, strict=True)
        ]
        rows = rows_of_logits(LOGITS, self.decoders[0].stack.projection.weight)
        for part in zip(*(x.split(rows) for x in features), strict=True):
            yield self._mean(part)

    def _mean(self, features: Sequence[Tensor]) -> Tensor:
        """Return log P [rows, V] from the features [rows, d_model] of every model."""
        log_p = [
            decoder.output_layer(x).log_softmax(dim=-1, dtype=torch.float32)
            for decoder, x in zip(self.decoders, features, strict=True)
        ]
        if len(log_p) == 1:
            return log_p[0]
        return torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p))

    def follow(self, parents: Tensor) -> None:
        """In every model, make beam j of sentence b a continuation of its beam parents[b, j];
        parents [B, k]."""
        for state in self.states:
            state.follow(parents)

    def keep_sentences(self, sentences: Tensor) -> None:
        """Keep only these sentences [B']."""
        for state in self.states:
            state.keep_sources(sentences)
            k = state.ancestors.size(2)
            beams = torch.arange(k, device=sentences.device)
            state.reorder_beams((sentences[:, None] * k + beams).flatten())


@dataclass(frozen=True)
class MaximumLength:
    """The limit ⌊a·n + b⌋ of the output length for a source of n tokens; neither length counts the
    end-of-sentence token. Raises ValueError for a or b out of range."""

    a: float
    b: int

    def __post_init__(self) -> None:
        largest_a, largest_b = LONGEST_OUTPUT
        if not 0 <= self.a <= largest_a:
            raise ValueError(f"--max-len-a must be a number from 0 to {largest_a}, got {self.a}")
        if self.b > largest_b:
            raise ValueError(f"--max-len-b must be at most {largest_b:,}, got {self.b:,}")

    def of(self, src_tokens: Tensor, dictionary: Dictionary) -> Tensor:
        """src_tokens [B, S] → [B]; a sentence's limit depends only on its own length."""
        real = src_tokens.ne(dictionary.pad()) & src_tokens.ne(dictionary.eos())
        return (self.a * real.sum(dim=1) + self.b).long()


class BeamSearchGenerator:
    """The generator that fairseq's commands call; hypotheses are returned in fairseq's form."""

    def __init__(
        self,
        source_dictionary: Dictionary,
        target_dictionary: Dictionary,
        options: SearchOptions,
        maximum_length: MaximumLength,
    ):
        self.source_dictionary = source_dictionary
        self.symbols = Symbols(end=target_dictionary.eos(), padding=target_dictionary.pad())
        self.symbols_to_strip_from_output = {target_dictionary.eos()}
        self.options = options
        self.maximum_length = maximum_length

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
        max_lengths = self.maximum_length.of(net_input["src_tokens"], self.source_dictionary)
        max_lengths = max_lengths.clamp(max=longest)
        continuations = self.continuations(models, sample, max_lengths)
        found = beam_search(continuations, max_lengths, self.symbols, self.options, prefix_tokens)
        return [[as_fairseq(hypothesis) for hypothesis in sentence] for sentence in found]

    def continuations(
        self, models: list[AiaynModel], sample: dict, max_lengths: Tensor
    ) -> Continuations:
        """Return the continuations that the search scores: the ensemble at the start of a batch."""
        return EnsembleContinuations(models, sample["net_input"])


def as_fairseq(hypothesis: Hypothesis) -> dict:
    """Return a hypothesis in the form that fairseq's commands and --eval-bleu read."""
    return {
        "tokens": hypothesis.tokens,
        "score": torch.tensor(hypothesis.score),
        "positional_scores": hypothesis.token_log_p,
        "attention": None,
        "alignment": torch.empty(0),
    }
