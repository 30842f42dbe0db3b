"""Translate plain text with CTranslate2, ranked as the paper ranks (section 6.1).

CTranslate2 divides log P by |Y|^α, the paper by ((5 + |Y|)/6)^α. So CTranslate2 is asked for all
outputs that its search finished, with plain log P, and they are ranked here. Its search ends when
twice as many outputs are finished as there are beams; ours, when no open one could become better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import ctranslate2

from fairseq_aiayn.decoding.beam_search import SearchOptions
from fairseq_aiayn.decoding.length_penalty import length_penalty
from fairseq_aiayn.files.json_fields import read_json
from fairseq_aiayn.model_folder.config import OF_CTRANSLATE2, config_from_json
from fairseq_aiayn.model_folder.folder import require_unchanged
from fairseq_aiayn.model_folder.search import (
    in_pieces,
    longest_output,
    longest_sentence,
    parts,
    search_options,
)
from fairseq_aiayn.model_folder.text import PIECES_FILES
from fairseq_aiayn.model_folder.translator import AT_ONCE, BATCH_TOKENS, Translation
from fairseq_aiayn.model_folder.vocabulary import END, PADDING, SPECIAL

FINISHED_PER_BEAM = 2


class CTranslate2Translator:
    """A model that `write_ctranslate2` wrote: text in, text out."""

    def __init__(
        self,
        path: Path,
        device: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        threads: int | None = None,
    ):
        """Load a model; CTranslate2 chooses the device or the number of threads that is None.

        Raises OSError or ValueError for a directory, a device or a number that cannot be used.
        """
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
        config = path / OF_CTRANSLATE2
        self.config = config_from_json(read_json(config), config)
        self.batch_tokens = batch_tokens
        text, name = self.config.text, PIECES_FILES[self.config.text.pieces]
        require_unchanged(path, [name] if name else [], self.config)
        self.cut = text.cutter(self.config.source_lang, path / name if name else None)
        self.join = text.joiner(self.config.target_lang)
        with _errors_of(path):
            self.engine = ctranslate2.Translator(
                str(path), device or "auto", intra_threads=threads or 0
            )
        shared, target = path / "shared_vocabulary.json", path / "target_vocabulary.json"
        self.V = len(read_json(shared if shared.exists() else target))

    def stream(
        self,
        sentences: Iterable[str],
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
        at_once: int = AT_ONCE,
    ) -> Iterator[list[Translation]]:
        """Yield up to `nbest` outputs of each sentence, best first, in the order of the sentences;
        an empty sentence has one empty output. `at_once` of them are sorted by length.

        Raises ValueError for a value out of range, and for a sentence of more than 1,024 tokens.
        """
        options = search_options(self.config, self.V, beam, alpha, nbest)
        longest = longest_sentence(self.config, side=0)
        for first, part in parts(sentences, at_once):
            yield from self._search(in_pieces(part, self.cut, longest, first), options)

    def _search(
        self, sources: Sequence[Sequence[str]], options: SearchOptions
    ) -> list[list[Translation]]:
        """Search sources of equal length together: CTranslate2 has one longest output per call."""
        found = [[Translation("", 0.0, 0.0, ())]] * len(sources)
        order = sorted(range(len(sources)), key=lambda place: len(sources[place]))
        for length, group in groupby(order, key=lambda place: len(sources[place])):
            if not length:
                continue
            places = list(group)
            outputs = self._finished([sources[place] for place in places], options.beam)
            for place, pairs in zip(places, outputs, strict=True):
                ranked = [self._translation(*pair, options.alpha) for pair in pairs]
                ranked.sort(key=lambda one: one.score, reverse=True)
                found[place] = ranked[: options.nbest]
        return found

    def _finished(
        self, sources: Sequence[Sequence[str]], beam: int
    ) -> list[list[tuple[Sequence[str], float]]]:
        """Return the finished outputs of each source with their log P.

        CTranslate2 excludes a token by a softmax over the others, which would change log P. So
        what our search excludes, empty outputs and padding, is left out afterwards. A source with
        nothing else, or only with outputs that reached the longest length without an end token, is
        searched again, and what is found gets its log P by itself.
        """
        found = []
        for source, pairs in zip(sources, self._outputs(sources, beam), strict=True):
            usable = [(tokens, log_p) for tokens, log_p in pairs if _is_usable(tokens)]
            if not usable:
                (pairs,) = self._outputs([source], beam, 1, [[SPECIAL[PADDING]]])
                usable = self._scored(source, [_without_end(tokens) for tokens, _ in pairs])
            found.append(usable)
        return found

    def _scored(
        self, source: Sequence[str], outputs: Sequence[Sequence[str]]
    ) -> list[tuple[Sequence[str], float]]:
        """Return outputs of a source with log P of their pieces and of the end token."""
        with _errors_of("CTranslate2"):
            results = self.engine.score_batch([source] * len(outputs), outputs, max_input_length=0)
        totals = [sum(one.log_probs) for one in results]
        return list(zip(outputs, totals, strict=True))

    def _outputs(
        self,
        sources: Sequence[Sequence[str]],
        beam: int,
        shortest: int = 0,
        excluded: list[list[str]] | None = None,
    ) -> list[list[tuple[Sequence[str], float]]]:
        """Return all outputs of CTranslate2's search for sources of one length, with log P."""
        more = FINISHED_PER_BEAM if beam > 1 else 1  # with one beam, it takes the best token
        with _errors_of("CTranslate2"):
            results = self.engine.translate_batch(
                sources,
                max_batch_size=self.batch_tokens,
                batch_type="tokens",
                beam_size=beam,
                patience=more,
                num_hypotheses=beam * more,
                length_penalty=0,
                suppress_sequences=excluded,
                return_end_token=True,
                return_scores=True,
                max_input_length=0,
                min_decoding_length=shortest,
                max_decoding_length=longest_output(self.config, len(sources[0])),
            )
        return [list(zip(one.hypotheses, one.scores, strict=True)) for one in results]

    def _translation(self, tokens: Sequence[str], log_p: float, alpha: float) -> Translation:
        pieces = _without_end(tokens)
        score = log_p / length_penalty(len(pieces) + 1, alpha)
        return Translation(self.join(pieces), score, log_p, tuple(pieces))


@contextmanager
def _errors_of(where: object) -> Iterator[None]:
    """Name the place of CTranslate2's errors, which are RuntimeErrors, too."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def _is_usable(tokens: Sequence[str]) -> bool:
    """Return whether an output has pieces, no padding, and the end token."""
    return len(tokens) > 1 and tokens[-1] == SPECIAL[END] and SPECIAL[PADDING] not in tokens


def _without_end(tokens: Sequence[str]) -> list[str]:
    return [piece for piece in tokens if piece != SPECIAL[END]]
