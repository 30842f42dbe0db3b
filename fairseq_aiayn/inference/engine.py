"""Sentences in, translations or trees out: one engine, a Translator and a Parser.

Shape letters as in fairseq_aiayn.nn. Nothing here imports fairseq.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

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
    PARSING,
    TRANSLATION,
    Config,
    Cut,
    Join,
    Model,
    require_task,
)
from fairseq_aiayn.nn.cpu_kernels import PRODUCT_TYPES, products_in
from fairseq_aiayn.nn.layers import LONGEST_SINUSOIDS
from fairseq_aiayn.nn.transformer import needed_mask
from fairseq_aiayn.treebank.linearization import MAX_OPEN, require_words, source_text, split_symbol
from fairseq_aiayn.treebank.trees import SYMBOLS as SPACED
from fairseq_aiayn.treebank.trees import Constituent, penn_words, write_tree

LONGEST = 1_024  # tokens of a sentence; attention and the search take far more time for more
BATCH_TOKENS = 4_096  # source tokens per batch, with padding
AT_ONCE = 2_000  # sentences that a stream sorts by length
SYMBOLS = Symbols(end=END, padding=PADDING)

Sentence = TypeVar("Sentence")
Source = TypeVar("Source")
Output = TypeVar("Output")


@dataclass(frozen=True)
class Engine(Generic[Sentence, Source, Output]):
    """Map sentences to outputs, in their order, by batches of similar lengths.

    read: what a model reads of a sentence; raises ValueError for an invalid one. run: the outputs
    of a batch. empty: the output of a sentence whose `length`, a number of tokens, is 0.
    """

    read: Callable[[Sentence], Source]
    run: Callable[[list[Source]], Iterable[Output]]
    empty: Callable[[], Output]
    batch_tokens: int
    length: Callable[[Any], int] = len

    def __call__(self, sentences: Iterable[Sentence]) -> list[Output]:
        """Return the output of each sentence; raises as `stream` does."""
        return [*self.stream(sentences, at_once=None)]

    def stream(
        self, sentences: Iterable[Sentence], at_once: int | None = AT_ONCE
    ) -> Iterator[Output]:
        """Yield the output of each sentence; `at_once` of them are read and sorted by length.

        Raises ValueError with the number of an invalid sentence, after the outputs before it, and
        TypeError unless `sentences` is an iterable of sentences, which a str is not.
        """
        for number, output in enumerate(self.outputs(sentences, at_once), start=1):
            if isinstance(output, ValueError):
                raise ValueError(f"sentence {number}: {output}") from output
            yield output

    def outputs(
        self, sentences: Iterable[Sentence], at_once: int | None = AT_ONCE
    ) -> Iterator[Output | ValueError]:
        """Yield what `stream` does, but the error of an invalid sentence in its place."""
        require_sentences(sentences)
        rest = iter(sentences)
        while True:
            sources: list[Source] = []
            error: ValueError | None = None
            for sentence in islice(rest, at_once):
                try:
                    sources.append(self.read(sentence))
                except ValueError as invalid:
                    error = invalid
                    break
            yield from self._in_batches(sources)
            if error:
                yield error
            elif not sources:
                return

    def _in_batches(self, sources: Sequence[Source]) -> Iterator[Output]:
        outputs: dict[int, Output] = {}
        for batch in batches([*map(self.length, sources)], self.batch_tokens):
            outputs |= zip(batch, self.run([sources[index] for index in batch]), strict=True)
        for index in range(len(sources)):
            yield outputs[index] if index in outputs else self.empty()


def batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of all lengths but 0, longest first, in batches that have at most
    `most_tokens` tokens with padding, or one sentence."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not lengths[index]:
            break
        if batch and lengths[batch[0]] * (len(batch) + 1) > most_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


class TrainedModel:
    """A model on a device, with its vocabularies and text processing, ready to search."""

    task: str

    def __init__(
        self,
        model: Model,
        device: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        precision: str = "float32",
    ):
        """`precision` is that of the search's matrix products, float32 or bfloat16.

        Raises ValueError for a device that PyTorch does not have, and for a model of another task.
        """
        require_task(model.config, self.task, model.name)
        self.config, self.source, self.target = model.config, model.source, model.target
        self.device, self.product_type = find_device(device), PRODUCT_TYPES[precision]
        self.transformer = model.transformer.to(self.device).eval()
        self.batch_tokens = batch_tokens
        self.pieces_file = model.pieces_file
        self.cut_source = model.config.text.cutter(model.config.source_lang, model.pieces_file)

    def source_tokens(self, text: str) -> list[int]:
        """Return the tokens of a source and the end token; none of an empty one."""
        return self.source.numbers(pieces_of(text, self.cut_source, most_tokens(self.config)[0]))

    @torch.no_grad()
    def hypotheses(
        self,
        sources: Sequence[Sequence[int]],
        options: Search,
        trees: TreeSymbols | None = None,
        words: Sequence[int] = (),
    ) -> list[list[Hypothesis]]:
        """Search the outputs of a batch of sources (section 6.1); with `trees`, only among trees
        over sentences of so many `words`."""
        source = self.padded(sources, "left")
        max_lengths = options.max_lengths(source, SYMBOLS).clamp(max=most_tokens(self.config)[2])
        with products_in(self.product_type, self.device):
            continuations: Continuations = EnsembleContinuations([self.transformer], source)
            if trees:
                counts = torch.tensor(words, device=self.device)
                continuations = ConstrainedContinuations(
                    continuations, trees, counts, max_lengths, MAX_OPEN
                )
            return beam_search(continuations, max_lengths, SYMBOLS, options)

    def padded(self, sentences: Sequence[Sequence[int]], side: str) -> Tensor:
        """Return the tokens of a batch [B, L], padded on the left as fairseq's sources are, or on
        the right."""
        rows = [torch.tensor(tokens) for tokens in sentences]
        return pad_sequence(rows, batch_first=True, padding_value=PADDING, padding_side=side).to(
            self.device
        )


@dataclass(frozen=True)
class Translation:
    """One output of the search for a sentence."""

    text: str
    score: float  # log P divided by the length penalty (section 6.1), in nats
    log_p: float  # log P of the pieces and of the end token, in nats
    pieces: tuple[str, ...]


Pair = tuple[list[int], list[int]]  # the tokens of a source and of a target


class Translator(TrainedModel):
    """A trained model that translates: text in, text out.

    All functions raise TypeError for what is not a sentence or a list of sentences, and ValueError
    for an option out of range or a sentence of more than 1,024 tokens.
    """

    task = TRANSLATION

    @cached_property
    def cut_target(self) -> Cut:
        """The function that cuts a translation into pieces."""
        return self.config.text.cutter(self.config.target_lang, self.pieces_file)

    @cached_property
    def join(self) -> Join:
        """The function that makes a text of pieces."""
        return self.config.text.joiner(self.config.target_lang)

    def translate(
        self, sentences: Iterable[str], beam: int | None = None, alpha: float | None = None
    ) -> list[str]:
        """Return the best translation of each sentence; that of an empty sentence is empty.

        Beam and α are by default those of the model's task (section 6.1).
        """
        return [outputs[0].text for outputs in self.search(sentences, beam, alpha)]

    def search(
        self,
        sentences: Iterable[str],
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
    ) -> list[list[Translation]]:
        """Return up to `nbest` outputs of each sentence, best first; an empty sentence has one
        empty output, whose score is 0."""
        return self.engine(beam, alpha, nbest)(sentences)

    def stream(
        self,
        sentences: Iterable[str],
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
        at_once: int = AT_ONCE,
    ) -> Iterator[list[Translation]]:
        """Yield what `search` returns, in the order of the sentences; `at_once` of them are sorted
        by length and searched together."""
        return self.engine(beam, alpha, nbest).stream(sentences, at_once)

    def score(self, sources: Iterable[str], targets: Iterable[str]) -> list[float]:
        """Return log P(target | source) of each pair in nats, the end token included.

        Raises ValueError if the numbers of sentences differ, or for an empty one.
        """
        for sentences in (sources, targets):
            require_sentences(sentences)

        def longer_side(pair: Pair) -> int:
            return max(map(len, pair))

        engine = Engine(self._pair, self._log_p, float, self.batch_tokens, longer_side)
        return engine(zip(sources, targets, strict=True))

    def attention(self, source: str, target: str | None = None) -> dict[str, Tensor]:
        """Return what every head attends to, for a pair of sentences or, without a target, the best
        translation: "encoder" [N, h, S, S], "decoder" [N, h, T, T] and "cross" [N, h, T, S].

        Raises ValueError for an empty sentence.
        """
        tokens = self.source_tokens(source)
        if not tokens:
            raise ValueError("the source: expected words, got none")
        if target is None:
            ((best, *_),) = self.search([source])
            return self.attention_of(tokens, self.target.numbers(best.pieces))
        return self.attention_of(*self._pair((source, target)))

    def attention_of(self, source: Sequence[int], target: Sequence[int] = ()) -> dict[str, Tensor]:
        """Return what `attention` does, for tokens with the end token."""
        shifted = [END, *target[:-1]]
        tokens = [torch.tensor(side, device=self.device) for side in (source, shifted)]
        return all_attention_weights(self.transformer, *tokens)

    def encode(self, sentences: Iterable[str]) -> list[Tensor]:
        """Return the encoder's output for each sentence, [S, d_model]; the last row is the end
        token's, and an empty sentence has no row."""
        empty = partial(torch.empty, 0, self.config.sizes.d_model, device=self.device)
        return Engine(self.source_tokens, self._memories, empty, self.batch_tokens)(sentences)

    def engine(
        self, beam: int | None = None, alpha: float | None = None, nbest: int = 1
    ) -> Engine[str, list[int], list[Translation]]:
        """Return the engine of `search`."""
        options = search_options(self.config, beam, alpha, nbest).over(len(self.target))
        run = partial(self._search, options=options)
        return Engine(self.source_tokens, run, empty_output, self.batch_tokens)

    def _pair(self, pair: tuple[str, str]) -> Pair:
        target = pieces_of(pair[1], self.cut_target, most_tokens(self.config)[1])
        tokens = self.source_tokens(pair[0]), self.target.numbers(target)
        if not all(tokens):
            raise ValueError(f"expected words on both sides, got {pair!r:.60}")
        return tokens

    def _search(
        self, sources: Sequence[Sequence[int]], options: Search
    ) -> Iterator[list[Translation]]:
        for hypotheses in self.hypotheses(sources, options):
            outputs = []
            for found in hypotheses:
                pieces = self.target.pieces(found.tokens.tolist())
                log_p = float(found.token_log_p.sum())
                outputs.append(Translation(self.join(pieces), found.score, log_p, tuple(pieces)))
            yield outputs

    @torch.no_grad()
    def _memories(self, sources: Sequence[Sequence[int]]) -> list[Tensor]:
        source = self.padded(sources, "left")
        memory = self.transformer.encode(source, needed_mask(source, PADDING))
        return [rows[-len(source) :] for source, rows in zip(sources, memory, strict=True)]

    @torch.no_grad()
    def _log_p(self, pairs: Sequence[Pair]) -> list[float]:
        sources, targets = zip(*pairs, strict=True)
        source, target = self.padded(sources, "left"), self.padded(targets, "right")
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


@dataclass(frozen=True)
class Parse:
    """The words of a sentence, and the symbols that the model wrote for it (section 6.3)."""

    words: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()

    def tree(self) -> Constituent:
        """Return the tree over the words; what is not a tree is repaired."""
        from fairseq_aiayn.treebank.repair import repair

        return repair(self.symbols, self.words).tree


ParserInput = tuple[tuple[str, ...], list[int]]  # words, and the tokens of their pieces


class Parser(TrainedModel):
    """A trained parser (section 6.3): sentences in, trees out."""

    task = PARSING

    def parse(
        self,
        sentences: Iterable[str | Sequence[str]],
        beam: int | None = None,
        constrained: bool = False,
    ) -> list[str]:
        """Return the tree of each sentence in Penn Treebank brackets; that of an empty sentence is
        empty. A sentence is a str, which is split as in the WSJ, or a list of words.

        Raises ValueError for a word that cannot stand in a tree, and for a beam out of range.
        """
        parses = self.engine(beam, constrained)(sentences)
        return [write_tree(parse.tree()) if parse.words else "" for parse in parses]

    def engine(
        self, beam: int | None = None, constrained: bool = False
    ) -> Engine[str | Sequence[str], ParserInput, Parse]:
        """Return the engine of `parse`; with `constrained`, the search writes trees only."""
        options = search_options(self.config, beam).over(len(self.target))
        trees = None
        if constrained:
            trees = classify_tokens([*map(split_symbol, self.target.types)], END)
        run = partial(self._search, options=options, trees=trees)
        return Engine(self.read, run, Parse, self.batch_tokens, lambda source: len(source[1]))

    def read(self, sentence: str | Sequence[str]) -> ParserInput:
        """Return the words and the tokens of a sentence."""
        words = sentence
        if isinstance(sentence, str):
            words = penn_words(" ".join(SPACED.findall(sentence)))
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise TypeError(f"expected a sentence or a list of words, got {sentence!r:.60}")
        if words:
            require_words(words)
        return tuple(words), self.source_tokens(source_text(words))

    def _search(
        self, sources: Sequence[ParserInput], options: Search, trees: TreeSymbols | None
    ) -> Iterator[Parse]:
        sentences, tokens = zip(*sources, strict=True)
        found = self.hypotheses(tokens, options, trees, [*map(len, sentences)])
        for words, (best, *_) in zip(sentences, found, strict=True):
            symbols = [self.target.types[token] for token in best.tokens[:-1].tolist()]
            yield Parse(words, tuple(symbols))


def require_sentences(sentences: object) -> None:
    """Raise TypeError for what is not an iterable of sentences; a str is one of letters."""
    if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
        raise TypeError(f"expected a list of sentences, got {sentences!r:.60}")


def empty_output() -> list[Translation]:
    """Return the output of an empty sentence."""
    return [Translation("", 0.0, 0.0, ())]


def pieces_of(sentence: str, cut: Cut, longest: int) -> list[str]:
    """Return the pieces of a sentence; raises ValueError for too many, TypeError for no str."""
    if not isinstance(sentence, str):
        raise TypeError(f"expected a sentence, a str, got {sentence!r:.60}")
    pieces = cut(sentence)
    if len(pieces) > longest:
        raise ValueError(f"expected at most {longest:,} tokens, got {len(pieces):,}")
    return pieces


def most_tokens(config: Config) -> tuple[int, int, int]:
    """Return how many tokens a source, a given target and an output may have before the end token,
    which takes a position, too."""
    if config.learned_lengths is None:
        return LONGEST, LONGEST, LONGEST_SINUSOIDS - 1
    source, target = config.learned_lengths
    return source - 1, target - 1, target - 1


def search_options(
    config: Config, beam: int | None, alpha: float | None = None, nbest: int = 1
) -> Search:
    """Return the options of a search; None is the default of the model's task.

    Raises ValueError for a value that is out of range.
    """
    beam = config.search.beam if beam is None else beam
    alpha = config.search.alpha if alpha is None else alpha
    return Search(beam, alpha, config.search.extra_length, nbest=nbest)


def find_device(name: str | None) -> torch.device:
    """Return the device; without a name, a GPU if there is one.

    Raises ValueError for a device that PyTorch does not have.
    """
    try:
        default = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.zeros(1, device=name or default).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name}: {error}") from error
