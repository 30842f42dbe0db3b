"""What translating and parsing with a model folder share: a device, batches, options, lengths.

Shape letters as in fairseq_aiayn.nn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_aiayn.attention_maps.weights import all_attention_weights
from fairseq_aiayn.decoding.beam_search import (
    Continuations,
    EnsembleContinuations,
    Search,
    Symbols,
    beam_search,
)
from fairseq_aiayn.decoding.hypotheses import Hypothesis
from fairseq_aiayn.decoding.tree_constraint import (
    ConstrainedContinuations,
    TreeSymbols,
    classify_tokens,
)
from fairseq_aiayn.inference.folder import (
    END,
    PADDING,
    PIECES_FILES,
    WORD_PIECES,
    Config,
    Model,
    TextProcessing,
    read_folder,
)
from fairseq_aiayn.nn.cpu_kernels import PRODUCT_TYPES, products_in
from fairseq_aiayn.nn.layers import LONGEST_SINUSOIDS
from fairseq_aiayn.nn.transformer import needed_mask
from fairseq_aiayn.treebank.linearization import MAX_OPEN, require_words, source_text, split_symbol

LONGEST = 1_024  # tokens of a sentence; attention and the search take far more time for more
SYMBOLS = Symbols(end=END, padding=PADDING)


def find_device(name: str | None) -> torch.device:
    """Return the device; without a name, a GPU if there is one.

    Raises ValueError for a device that PyTorch does not have, or that computes nothing.
    """
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name}: {str(error).splitlines()[0]}") from None
    return device


def find_product_type(precision: str) -> torch.dtype | None:
    """Return the type of a search's matrix products, None for that of the weights.

    Raises ValueError for a precision that the search does not have.
    """
    if precision not in PRODUCT_TYPES:
        raise ValueError(f"precision must be one of {', '.join(PRODUCT_TYPES)}, got {precision}")
    return PRODUCT_TYPES[precision]


def longest_sentence(config: Config, side: int) -> int:
    """Return how many tokens a source (side 0) or a target (side 1) may have."""
    lengths = config.learned_lengths
    return LONGEST if lengths is None else lengths[side] - 1  # the end takes one


def in_pieces(
    sentences: Sequence[str], cut: Callable[[str], list[str]], longest: int, first: int = 1
) -> list[list[str]]:
    """Return the pieces of each sentence; raises ValueError for too many, with the sentence's
    number, counted from `first`."""
    found = [cut(sentence) for sentence in sentences]
    for number, pieces in enumerate(found, start=first):
        if len(pieces) > longest:
            raise ValueError(
                f"sentence {number} must have at most {longest:,} tokens, has {len(pieces):,}"
            )
    return found


def batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Yield the places of sentences with tokens, in batches of similar lengths."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not lengths[place]:
            break
        if batch and lengths[batch[0]] * (len(batch) + 1) > most_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def padded(
    sentences: Sequence[Sequence[int]], device: torch.device, is_source: bool = True
) -> Tensor:
    """Return the tokens of a batch [B, L]; sources are padded on the left, as fairseq's are."""
    longest = max(map(len, sentences))
    rows = []
    for tokens in sentences:
        room = [PADDING] * (longest - len(tokens))
        rows.append([*room, *tokens] if is_source else [*tokens, *room])
    return torch.tensor(rows, device=device)


def parts(sentences: Iterable[str], at_once: int) -> Iterator[tuple[int, list[str]]]:
    """Yield `at_once` sentences at a time, with the number of the first, counted from 1."""
    sentences, first = iter(sentences), 1
    while part := list(islice(sentences, at_once)):
        yield first, part
        first += len(part)


def search_options(
    config: Config, V: int, beam: int | None = None, alpha: float | None = None, nbest: int = 1
) -> Search:
    """Return the options of a search over V target types; None is the default of the model's task.

    Raises ValueError for a value that is out of range.
    """
    beam = config.search.beam if beam is None else beam
    alpha = config.search.alpha if alpha is None else alpha
    return Search(beam, alpha, config.search.extra_length, nbest=nbest).over(V)


def longest_output(config: Config, source_tokens: int) -> int:
    """Return how many tokens the output of a source may have before its end token (section 6.1)."""
    longest = source_tokens + config.search.extra_length
    if config.learned_lengths is None:
        return longest
    return min(longest, longest_sentence(config, side=1))


def longest_outputs(config: Config, source: Tensor) -> Tensor:
    """source [B, S] → the `longest_output` [B] of each sentence."""
    search = config.search
    longest = Search(search.beam, search.alpha, search.extra_length).max_lengths(source, SYMBOLS)
    positions = LONGEST_SINUSOIDS if config.learned_lengths is None else config.learned_lengths[1]
    return longest.clamp(max=positions - 1)  # the end takes one


# Translate, score and look into plain text with a model folder, without fairseq.
#
# Shape letters as in fairseq_aiayn.nn.


BATCH_TOKENS = 4_096  # source tokens per batch, with padding
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

    def __init__(
        self,
        model: Model,
        device: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        precision: str = "float32",
    ):
        """`precision` is that of the search's matrix products, float32 or bfloat16.

        Raises ValueError for another one, and for a device that PyTorch does not have.
        """
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
        self.config, self.source, self.target = model.config, model.source, model.target
        self.device, self.product_type = find_device(device), find_product_type(precision)
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
        return self._search(
            self.tokens(sentences),
            search_options(self.config, len(self.target), beam, alpha, nbest),
        )

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
        options = search_options(self.config, len(self.target), beam, alpha, nbest)
        for first, part in parts(sentences, at_once):
            yield from self._search(self.tokens(part, first), options)

    @torch.no_grad()
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Return log P(target | source) of each pair in nats, the end token included.

        Raises ValueError if the numbers of sentences differ, or for an empty one.
        """
        if len(sources) != len(targets):
            raise ValueError(
                f"there must be as many targets as sources, got {len(targets)} and {len(sources)}"
            )
        read, written = self.tokens(sources), self._numbers(targets, 1)
        for number, pair in enumerate(zip(read, written, strict=True), start=1):
            if not all(pair):
                raise ValueError(f"pair {number}: neither sentence may be empty")
        found = [0.0] * len(read)
        lengths = [max(map(len, pair)) for pair in zip(read, written, strict=True)]
        for places in batches(lengths, self.batch_tokens):
            source = padded([read[place] for place in places], self.device)
            target = padded([written[place] for place in places], self.device, is_source=False)
            for place, log_p in zip(places, self._log_p(source, target), strict=True):
                found[place] = log_p
        return found

    def attention(self, source: str, target: str | None = None) -> dict[str, Tensor]:
        """Return what every head attends to, for a pair of sentences or, without a target, the best
        translation: "encoder" [N, h, S, S], "decoder" [N, h, T, T] and "cross" [N, h, T, S].

        Raises ValueError for an empty sentence.
        """
        target = self.translate([source])[0] if target is None else target
        (read,), (written,) = self.tokens([source]), self._numbers([target], 1)
        if not read or not written:
            raise ValueError("attention is between words: neither sentence may be empty")
        shifted = [END, *written[:-1]]
        tokens = [torch.tensor(side, device=self.device) for side in (read, shifted)]
        return all_attention_weights(self.transformer, *tokens)

    @torch.no_grad()
    def encode(self, sentences: Sequence[str]) -> list[Tensor]:
        """Return the encoder's output for each sentence, [S, d_model]; the last row is the end
        token's, and an empty sentence has no row."""
        sources = self.tokens(sentences)
        found = [torch.empty(0, self.config.sizes.d_model, device=self.device)] * len(sources)
        for places in batches([*map(len, sources)], self.batch_tokens):
            batch = padded([sources[place] for place in places], self.device)
            memory = self.transformer.encode(batch, needed_mask(batch, PADDING))
            for place, rows in zip(places, memory, strict=True):
                found[place] = rows[-len(sources[place]) :]
        return found

    def tokens(self, sentences: Sequence[str], first: int = 1) -> list[list[int]]:
        """Return the numbers of each sentence's pieces and of the end token; none of an empty
        sentence.

        Raises ValueError for a sentence of more than 1,024 tokens, or than learned positions have,
        with its number, counted from `first`.
        """
        return self._numbers(sentences, 0, first)

    def _numbers(self, sentences: Sequence[str], side: int, first: int = 1) -> list[list[int]]:
        """Do what `tokens` does, for sources (side 0) or targets (side 1)."""
        cut, vocabulary = ((self.cut_source, self.source), (self.cut_target, self.target))[side]
        found = in_pieces(sentences, cut, longest_sentence(self.config, side), first)
        return [vocabulary.numbers(pieces) if pieces else [] for pieces in found]

    @torch.no_grad()
    def _search(self, sources: Sequence[Sequence[int]], options: Search) -> list[list[Translation]]:
        found = [[Translation("", 0.0, 0.0, ())]] * len(sources)
        for places in batches([*map(len, sources)], self.batch_tokens):
            batch = padded([sources[place] for place in places], self.device)
            longest = longest_outputs(self.config, batch)
            with products_in(self.product_type, self.device):
                continuations = EnsembleContinuations([self.transformer], batch)
                outputs = beam_search(continuations, longest, SYMBOLS, options)
            for place, hypotheses in zip(places, outputs, strict=True):
                found[place] = [self._translation(one) for one in hypotheses]
        return found

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        pieces = self.target.pieces(hypothesis.tokens.tolist())
        log_p = float(hypothesis.token_log_p.sum())
        return Translation(self.join(pieces), hypothesis.score, log_p, tuple(pieces))

    def _log_p(self, source: Tensor, target: Tensor) -> list[float]:
        """source [B, S] and target [B, T], padded on the right → log P of each target."""
        shifted = target.roll(1, dims=1)
        shifted[:, 0] = END
        decoder, mask = self.transformer.decoder, needed_mask(source, PADDING)
        features = decoder(shifted, self.transformer.encode(source, mask), mask)
        return [  # a sentence at a time: the logits of all would take V times the memory of tokens
            -F.cross_entropy(
                decoder.projection.project(x), y, ignore_index=PADDING, reduction="sum"
            ).item()
            for x, y in zip(features, target, strict=True)
        ]


def load(path: str | Path, device: str | None = None, precision: str = "float32") -> Translator:
    """Load a model folder that `aiayn export` wrote; raises as `read_folder` and `Translator`
    do."""
    return Translator(read_folder(Path(path)), device, precision=precision)


# A trained parser (section 6.3) without fairseq: from words to the symbols of a tree.


class Parser:
    """A model with its vocabularies and its word pieces."""

    def __init__(
        self,
        model: Model,
        beam: int,
        constrained: bool,
        device: str | None = None,
        precision: str = "float32",
    ):
        """`precision` is that of the search's matrix products, float32 or bfloat16.

        Raises ValueError for a model, a beam, a device or a precision with which no search is
        possible.
        """
        self.config, self.source, self.target = model.config, model.source, model.target
        self.cut = model.config.text.cutter(model.config.source_lang, model.pieces_file)
        self.options = search_options(model.config, len(self.target), beam)
        self.trees = tree_symbols(self.target.types, END) if constrained else None
        self.device, self.product_type = find_device(device), find_product_type(precision)
        self.transformer = model.transformer.to(self.device).eval()

    def symbols(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Parse a batch of sentences, given as lists of words; return the symbols of the best
        output of each, as the model wrote them.

        Raises ValueError for words that cannot be part of a tree.
        """
        if not sentences:
            return []
        for words in sentences:
            require_words(words)
        numbers = [self.source.numbers(self.cut(source_text(words))) for words in sentences]
        source = padded(numbers, self.device)
        longest = longest_outputs(self.config, source)
        with torch.no_grad(), products_in(self.product_type, self.device):
            continuations: Continuations = EnsembleContinuations([self.transformer], source)
            if self.trees:
                words = torch.tensor([*map(len, sentences)], device=self.device)
                continuations = ConstrainedContinuations(
                    continuations, self.trees, words, longest, MAX_OPEN
                )
            found = beam_search(continuations, longest, SYMBOLS, self.options)
        return [
            [self.target.types[token] for token in hypotheses[0].tokens[:-1].tolist()]
            for hypotheses in found
        ]


def tree_symbols(types: Sequence[str], end: int) -> TreeSymbols:
    """Return the role of each token of a target vocabulary in a tree; raises ValueError if the
    vocabulary can write no tree."""
    try:
        return classify_tokens([*map(split_symbol, types)], end)
    except ValueError as error:
        raise ValueError(
            f"constrained search: the target dictionary writes no trees, {error}"
        ) from None


def parser_folder(path: Path) -> Model:
    """Read the folder of a parser; raises as `read_folder` does, and ValueError for a model that
    translates."""
    model = read_folder(path)
    if model.config.task != "parsing":
        raise ValueError(f"{path}: must be a parser, is a model for {model.config.task}")
    return model


def parser_checkpoint(checkpoint: Path, data: Path) -> Model:
    """Read a checkpoint, and the dictionaries and word pieces of the data that it was trained on.

    Raises OSError or ValueError as `of_checkpoint` does.
    """
    from fairseq_aiayn.inference.export import model_of, of_checkpoint  # needs omegaconf

    text = TextProcessing(WORD_PIECES)
    return model_of(of_checkpoint(checkpoint, data, text, data / PIECES_FILES[WORD_PIECES]))
