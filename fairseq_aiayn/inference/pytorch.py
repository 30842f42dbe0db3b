"""Trained models in PyTorch: a Translator and a Parser with our own search.

Shape letters as in fairseq_aiayn.nn. Nothing here imports fairseq.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_aiayn.attention_maps.weights import all_attention_weights
from fairseq_aiayn.decoding.beam_search import Continuations, EnsembleContinuations, beam_search
from fairseq_aiayn.decoding.hypotheses import Hypothesis
from fairseq_aiayn.decoding.search import Search, Symbols
from fairseq_aiayn.decoding.tree_constraint import (
    ConstrainedContinuations,
    TreeSymbols,
    classify_tokens,
)
from fairseq_aiayn.inference.description import END, PADDING, Cut, Join, Model, Task, require_task
from fairseq_aiayn.inference.engine import (
    BATCH_TOKENS,
    Engine,
    Translation,
    pieces_of,
    require_sentences,
    require_short,
)
from fairseq_aiayn.nn.cpu_kernels import PRODUCT_TYPES, products_in
from fairseq_aiayn.nn.transformer import needed_mask
from fairseq_aiayn.treebank.linearization import MAX_OPEN, source_text, split_symbol
from fairseq_aiayn.treebank.repair import repair
from fairseq_aiayn.treebank.trees import Constituent, penn_words, symbols_of, write_tree

__all__ = ["Parser", "Translator"]

END_AND_PADDING = Symbols(end=END, padding=PADDING)


class TrainedModel:
    """A model on a device, with its vocabularies and text processing, ready to search."""

    task: Task

    def __init__(
        self,
        model: Model,
        device: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        threads: int | None = None,
        precision: str = "float32",
    ):
        """`threads`, if given, are those of PyTorch from now on; `precision` is that of the
        search's matrix products, of PRODUCT_TYPES. Raises ValueError for a device that PyTorch
        does not have, for another precision, and for a model of another task."""
        require_task(model.config, self.task, model.name)
        if precision not in PRODUCT_TYPES:
            expected = " or ".join(PRODUCT_TYPES)
            raise ValueError(f"precision: expected {expected}, got {precision!r}")
        if threads is not None:
            torch.set_num_threads(threads)
        self.config, self.source, self.target = model.config, model.source, model.target
        self.device, self.product_type = find_device(device), PRODUCT_TYPES[precision]
        self.transformer = model.transformer.to(self.device).eval()
        self.batch_tokens = batch_tokens
        self.pieces_file = model.pieces_file
        self.cut_source = model.config.text.cutter(model.config.source_lang, model.pieces_file)

    def source_tokens(self, text: str) -> list[int]:
        """Return the tokens of a source and the end token; none of an empty one."""
        return self.source.numbers(pieces_of(text, self.cut_source, self.config.most_tokens[0]))

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
        max_lengths = options.max_lengths(source, END_AND_PADDING).clamp(
            max=self.config.most_tokens[2]
        )
        with products_in(self.product_type, self.device):
            continuations: Continuations = EnsembleContinuations([self.transformer], source)
            if trees:
                counts = torch.tensor(words, device=self.device)
                continuations = ConstrainedContinuations(
                    continuations, trees, counts, max_lengths, MAX_OPEN
                )
            return beam_search(continuations, max_lengths, END_AND_PADDING, options)

    def padded(self, sentences: Sequence[Sequence[int]], side: str) -> Tensor:
        """Return the tokens of a batch [B, L], padded on the left as fairseq's sources are, or on
        the right."""
        rows = [torch.tensor(tokens) for tokens in sentences]
        return pad_sequence(rows, batch_first=True, padding_value=PADDING, padding_side=side).to(
            self.device
        )


TokenPair = tuple[list[int], list[int]]  # the tokens of a source and of a target


class Translator(TrainedModel):
    """A trained model that translates, text in, text out; all functions raise TypeError for what is
    not a sentence or a list of sentences, and ValueError for an option out of range or a sentence
    of more than 1,024 tokens."""

    task = "translation"

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
        """Return the best translation of each sentence, empty for an empty one; beam and α are by
        default those of the model's task (section 6.1)."""
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

    def score(self, sources: Iterable[str], targets: Iterable[str]) -> list[float]:
        """Return log P(target | source) of each pair in nats, the end token included; raises
        ValueError if the numbers of sentences differ, or for an empty one."""
        for sentences in (sources, targets):
            require_sentences(sentences)
        sources, targets = [*sources], [*targets]
        if len(sources) != len(targets):
            raise ValueError(f"expected {len(sources)} targets, one a source, got {len(targets)}")
        engine = Engine(
            self._pair, self._log_p, float, self.batch_tokens, lambda pair: max(map(len, pair))
        )
        return engine(zip(sources, targets, strict=True))

    def attention(self, source: str, target: str | None = None) -> dict[str, Tensor]:
        """Return what every head attends to, for a pair of sentences or, without a target, the best
        translation: "encoder" [N, h, S, S], "decoder" [N, h, T, T] and "cross" [N, h, T, S]; raises
        ValueError for an empty sentence."""
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
        options = self.config.search_options(len(self.target), beam, alpha, nbest)
        run = partial(self._search, options=options)
        return Engine(self.source_tokens, run, lambda: [Translation()], self.batch_tokens)

    def _pair(self, pair: tuple[str, str]) -> TokenPair:
        target = pieces_of(pair[1], self.cut_target, self.config.most_tokens[1])
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
    def _log_p(self, pairs: Sequence[TokenPair]) -> list[float]:
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
        return repair(self.symbols, self.words).tree


ParserInput = tuple[tuple[str, ...], list[int]]  # words, and the tokens of their pieces


class Parser(TrainedModel):
    """A trained parser (section 6.3): sentences in, trees out."""

    task = "parsing"

    def parse(
        self,
        sentences: Iterable[str | Sequence[str]],
        beam: int | None = None,
        constrained: bool = False,
    ) -> list[str]:
        """Return the tree of each sentence, a str that is split as in the WSJ or a list of words,
        in Penn Treebank brackets, empty for an empty sentence; raises ValueError for a word that
        cannot stand in a tree, and for a beam out of range."""
        parses = self.engine(beam, constrained)(sentences)
        return [write_tree(parse.tree()) if parse.words else "" for parse in parses]

    def engine(
        self, beam: int | None = None, constrained: bool = False
    ) -> Engine[str | Sequence[str], ParserInput, Parse]:
        """Return the engine of `parse`; with `constrained`, the search writes trees only."""
        options = self.config.search_options(len(self.target), beam)
        trees = None
        if constrained:
            trees = classify_tokens([*map(split_symbol, self.target.types)], END)
        run = partial(self._search, options=options, trees=trees)
        return Engine(self.read, run, Parse, self.batch_tokens, lambda source: len(source[1]))

    def read(self, sentence: str | Sequence[str]) -> ParserInput:
        """Return the words and the tokens of a sentence."""
        words = sentence
        if isinstance(sentence, str):
            require_short(sentence, self.config.most_tokens[0])
            words = penn_words(" ".join(symbols_of(sentence)))
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise TypeError(f"expected a sentence or a list of words, got {sentence!r:.60}")
        return tuple(words), self.source_tokens(source_text(words))

    def _search(
        self, sources: Sequence[ParserInput], options: Search, trees: TreeSymbols | None
    ) -> Iterator[Parse]:
        sentences, tokens = zip(*sources, strict=True)
        found = self.hypotheses(tokens, options, trees, [*map(len, sentences)])
        for words, (best, *_) in zip(sentences, found, strict=True):
            symbols = [self.target.types[token] for token in best.tokens[:-1].tolist()]
            yield Parse(words, tuple(symbols))


def find_device(name: str | None) -> torch.device:
    """Return the device; without a name, a GPU if there is one. Raises ValueError for a device that
    PyTorch does not have."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.zeros(1, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name}: {error}") from error
