"""Translate, score and look into plain text with a model folder, without fairseq.

Shape letters as in fairseq_aiayn.nn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import SearchOptions, beam_search
from fairseq_aiayn.decoding.candidates import Symbols
from fairseq_aiayn.decoding.ensemble import EnsembleContinuations
from fairseq_aiayn.decoding.hypotheses import Hypothesis
from fairseq_aiayn.decoding.maximum_length import MaximumLength
from fairseq_aiayn.inspection.attention_weights import attention_weights
from fairseq_aiayn.model_folder.folder import Model, read_folder
from fairseq_aiayn.model_folder.vocabulary import END, PADDING, Vocabulary

SYMBOLS = Symbols(end=END, padding=PADDING)
BATCH_TOKENS = 4_096  # source tokens per batch, with padding
LONGEST = 1_024  # tokens of a source; attention and the search take far more time for more
AT_ONCE = 2_000  # sentences that a stream sorts by length


@dataclass(frozen=True)
class Translation:
    """One output of the search for a sentence."""

    text: str
    score: float  # log P divided by the length penalty (section 6.1), in nats
    log_p: float  # log P of the pieces and of the end token, in nats
    pieces: tuple[str, ...]


class Translator:
    """A trained model with its vocabularies and text processing: text in, text out."""

    def __init__(self, model: Model, device: str | None = None, batch_tokens: int = BATCH_TOKENS):
        """Raises ValueError for a device that PyTorch does not have."""
        if batch_tokens < 1:
            raise ValueError(f"--batch-tokens must be at least 1, got {batch_tokens}")
        self.config, self.source, self.target = model.config, model.source, model.target
        self.device = _device(device)
        self.transformer = model.transformer.to(self.device).eval()
        self.batch_tokens = batch_tokens
        text, file = model.config.text, model.pieces_file
        self.cut_source = text.cutter(model.config.source_lang, file)
        self.cut_target = text.cutter(model.config.target_lang, file)
        self.join = text.joiner(model.config.target_lang)

    def translate(
        self, sentences: Sequence[str], beam: int | None = None, alpha: float | None = None
    ) -> list[str]:
        """Return the best translation of each sentence; that of an empty sentence is empty.

        Beam and α are by default those of the model's task (section 6.1). Raises ValueError for a
        value out of range, and for a sentence of more than 1,024 tokens.
        """
        return [found[0].text for found in self.search(sentences, beam, alpha)]

    def search(
        self,
        sentences: Sequence[str],
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
    ) -> list[list[Translation]]:
        """Return up to `nbest` outputs of each sentence, best first; an empty sentence has one
        empty output, whose score is 0. Raises ValueError as `translate` does."""
        return self._search(self.tokens(sentences), *self._options(beam, alpha, nbest))

    def stream(
        self,
        sentences: Iterable[str],
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
        at_once: int = AT_ONCE,
    ) -> Iterator[list[Translation]]:
        """Yield what `search` returns, in the order of the sentences; `at_once` of them are sorted
        by length and searched together. Raises ValueError as `translate` does."""
        options = self._options(beam, alpha, nbest)
        sentences, done = iter(sentences), 0
        while part := list(islice(sentences, at_once)):
            yield from self._search(self.tokens(part, first=done + 1), *options)
            done += len(part)

    @torch.no_grad()
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Return log P(target | source) of each pair in nats, the end token included.

        Raises ValueError if the numbers of sentences differ, or for an empty one.
        """
        if len(sources) != len(targets):
            raise ValueError(f"as many targets as sources, got {len(targets)} and {len(sources)}")
        read, written = self.tokens(sources), self._target_tokens(targets)
        lengths = [
            max(len(source), len(target)) for source, target in zip(read, written, strict=True)
        ]
        found = [0.0] * len(lengths)
        for places in self._batches(lengths):
            source = self._padded([read[place] for place in places])
            target = self._padded([written[place] for place in places], left=False)
            totals = self._log_p(source, target).tolist()
            for place, total in zip(places, totals, strict=True):
                found[place] = total
        return found

    def attention(self, source: str, target: str | None = None) -> dict[str, Tensor]:
        """Return what every head attends to, for a pair of sentences or, without a target, the best
        translation: "encoder" [N, h, S, S], "decoder" [N, h, T, T] and "cross" [N, h, T, S].

        Raises ValueError for an empty sentence.
        """
        target = self.translate([source])[0] if target is None else target
        (read,), (written,) = self.tokens([source]), self._target_tokens([target])
        if not read or not written:
            raise ValueError("attention is between words: neither sentence may be empty")
        shifted = [END, *written[:-1]]
        tokens = [torch.tensor(side, device=self.device) for side in (read, shifted)]
        return attention_weights(self.transformer, *tokens)

    @torch.no_grad()
    def encode(self, sentences: Sequence[str]) -> list[Tensor]:
        """Return the encoder's output for each sentence, [S, d_model]; the last row is the end
        token's, and an empty sentence has no row."""
        sources = self.tokens(sentences)
        found = [torch.empty(0, self.config.sizes.d_model)] * len(sources)
        for places in self._batches([len(tokens) for tokens in sources]):
            memory, _ = self.transformer.encode(self._padded([sources[place] for place in places]))
            for place, rows in zip(places, memory, strict=True):
                found[place] = rows[-len(sources[place]) :]
        return found

    def tokens(self, sentences: Sequence[str], first: int = 1) -> list[list[int]]:
        """Return the numbers of each sentence's pieces and of the end token; none of an empty
        sentence.

        Raises ValueError for a sentence of more than 1,024 tokens, with its number, counted from
        `first`.
        """
        return _numbered(sentences, self.cut_source, self.source, first)

    def _target_tokens(self, sentences: Sequence[str]) -> list[list[int]]:
        return _numbered(sentences, self.cut_target, self.target, first=1)

    def _options(
        self, beam: int | None, alpha: float | None, nbest: int
    ) -> tuple[SearchOptions, MaximumLength]:
        """Return the search's options; None is the default of the model's task."""
        usual = self.config.search
        beam, alpha = usual.beam if beam is None else beam, usual.alpha if alpha is None else alpha
        if beam > len(self.target):
            raise ValueError(f"the beam size must be at most {len(self.target):,}, got {beam:,}")
        return SearchOptions(beam, alpha, nbest=nbest), MaximumLength(1, usual.extra_length)

    def _search(
        self, sources: Sequence[Sequence[int]], options: SearchOptions, limit: MaximumLength
    ) -> list[list[Translation]]:
        found = [[Translation("", 0.0, 0.0, ())]] * len(sources)
        for places in self._batches([len(tokens) for tokens in sources]):
            batch = self._padded([sources[place] for place in places])
            continuations = EnsembleContinuations([self.transformer], batch)
            outputs = beam_search(continuations, limit.of(batch, SYMBOLS), SYMBOLS, options)
            for place, hypotheses in zip(places, outputs, strict=True):
                found[place] = [self._translation(one) for one in hypotheses]
        return found

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        pieces = self.target.pieces(hypothesis.tokens.tolist())
        log_p = float(hypothesis.token_log_p.sum())
        return Translation(self.join(pieces), hypothesis.score, log_p, tuple(pieces))

    def _log_p(self, source: Tensor, target: Tensor) -> Tensor:
        """source [B, S] and target [B, T], padded on the right → log P of the targets [B]."""
        shifted = target.roll(1, dims=1)
        shifted[:, 0] = END
        log_p = self.transformer(source, shifted).log_softmax(-1)
        own = log_p.gather(2, target[:, :, None])[:, :, 0]
        return own.masked_fill(target.eq(PADDING), 0.0).sum(1)

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield the places of sentences with tokens, in batches of similar lengths."""
        batch: list[int] = []
        for place in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            if not lengths[place]:
                break
            if batch and lengths[batch[0]] * (len(batch) + 1) > self.batch_tokens:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    def _padded(self, sentences: Sequence[Sequence[int]], left: bool = True) -> Tensor:
        """Return the tokens of a batch [B, L]; sources are padded on the left, as fairseq's are."""
        longest = max(map(len, sentences))
        room = [[PADDING] * (longest - len(one)) for one in sentences]
        rows = [
            [*pad, *one] if left else [*one, *pad] for pad, one in zip(room, sentences, strict=True)
        ]
        return torch.tensor(rows, device=self.device)


def load(path: str | Path, device: str | None = None) -> Translator:
    """Load a model folder that `aiayn export` wrote; raises as `read_folder` does."""
    return Translator(read_folder(Path(path)), device)


def in_pieces(
    sentences: Sequence[str], cut: Callable[[str], list[str]], first: int
) -> list[list[str]]:
    """Return the pieces of each sentence; raises ValueError for more than 1,024, with the
    sentence's number, counted from `first`."""
    found = [cut(sentence) for sentence in sentences]
    for number, pieces in enumerate(found, start=first):
        if len(pieces) > LONGEST:
            raise ValueError(
                f"sentence {number} must have at most {LONGEST:,} tokens, has {len(pieces):,}"
            )
    return found


def _numbered(
    sentences: Sequence[str], cut: Callable[[str], list[str]], vocabulary: Vocabulary, first: int
) -> list[list[int]]:
    found = in_pieces(sentences, cut, first)
    return [vocabulary.numbers(pieces) if pieces else [] for pieces in found]


def _device(name: str | None) -> torch.device:
    """Return the device; without a name, a GPU if there is one."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"--device {name}: {str(error).splitlines()[0]}") from None
    return device
