"""A model folder in CTranslate2, an engine in C++ that searches on CPUs and GPUs without PyTorch.

Nothing here imports torch: an import takes longer than the translation of many sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from shlex import quote

import ctranslate2

from fairseq_aiayn.decoding.search import Search, length_penalty
from fairseq_aiayn.inference.description import (
    BEGIN,
    CTRANSLATE2_FILES,
    END,
    FOR_CTRANSLATE2,
    PADDING,
    SPECIAL,
    TARGET,
    read_config,
    read_vocabulary,
    require_task,
)
from fairseq_aiayn.inference.engine import BATCH_TOKENS, Engine, Translation, pieces_of

__all__ = ["CTranslate2Translator"]


class CTranslate2Translator:
    """A model folder with CTranslate2's files: text in, text out, ranked as in section 6.1.
    CTranslate2 divides log P by |Y|^α, the paper by ((5 + |Y|)/6)^α. So CTranslate2 is asked for
    all outputs that its search finished, with plain log P, and they are ranked here."""

    def __init__(
        self,
        path: Path,
        device: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        threads: int | None = None,
        quantization: str | None = None,
    ):
        """Load a model; CTranslate2 chooses a device or a number of threads that is None, and
        weights are as in the file without a quantization; raises OSError or ValueError for what
        cannot be used."""
        self.config = read_config(path, CTRANSLATE2_FILES)
        require_task(self.config, "translation", path)
        text, self.V = self.config.text, len(read_vocabulary(path / TARGET))
        self.cut = text.cutter(self.config.source_lang, text.file_in(path))
        self.join = text.joiner(self.config.target_lang)
        self.batch_tokens = batch_tokens
        files = path / FOR_CTRANSLATE2
        if not files.is_dir():
            raise ValueError(
                f"{path}: expected CTranslate2's files in it, got none; a folder with them is"
                f" made by: aiayn export {quote(str(path))} --output NEW"
            )
        try:
            self.translator = ctranslate2.Translator(
                str(files),
                device or "auto",
                compute_type=quantization or "default",
                intra_threads=threads or 0,
            )
            if self.translator.device != "cpu":  # the first search loads the libraries of a GPU
                self.translator.translate_batch([[SPECIAL[END]]], max_decoding_length=1)
        except (RuntimeError, ValueError) as error:  # a damaged model is a RuntimeError
            raise ValueError(f"{files}: {error}") from error

    def engine(
        self, beam: int | None = None, alpha: float | None = None, nbest: int = 1
    ) -> Engine[str, list[str], list[Translation]]:
        """Return the engine of a search, with the outputs of `Translator.engine`."""
        options = self.config.search_options(self.V, beam, alpha, nbest)
        read = partial(pieces_of, cut=self.cut, longest=self.config.most_tokens[0])
        run = partial(self._search, options=options)
        return Engine(read, run, lambda: [Translation()], self.batch_tokens)

    def _search(
        self, sources: Sequence[Sequence[str]], options: Search
    ) -> Iterator[list[Translation]]:
        """Search sources of equal length together: CTranslate2 has one longest output per call.

        CTranslate2 excludes a token by a softmax over the others, which would change log P. So
        empty outputs and padding are left out afterwards, or excluded after all if nothing remains,
        with log P computed alone. So is that of an output of the maximum length, which has no end
        token.
        """
        for _, group in groupby(sources, key=len):
            sources = list(group)
            for source, outputs in zip(sources, self._outputs(sources, options.beam), strict=True):
                outputs = [output for output in outputs if SPECIAL[PADDING] not in output[0]]
                found = [output for output in outputs if SPECIAL[END] in output[0][1:]]
                unscored = [tokens for tokens, _ in outputs if SPECIAL[END] not in tokens]
                if not found and not unscored:
                    (restricted,) = self._outputs([source], options.beam, restricted=True)
                    unscored = [tokens for tokens, _ in restricted]
                found += self._scored(source, unscored)
                translations = [self._translation(*output, options.alpha) for output in found]
                translations.sort(key=lambda translation: translation.score, reverse=True)
                yield translations[: options.nbest]

    def _scored(
        self, source: Sequence[str], outputs: Sequence[Sequence[str]]
    ) -> list[tuple[Sequence[str], float]]:
        """Return outputs of a source with their log P, the end token included."""
        pieces = [_without_end(tokens) for tokens in outputs]
        results = self.translator.score_batch([source] * len(pieces), pieces, max_input_length=0)
        totals = [sum(result.log_probs) for result in results]
        return list(zip(pieces, totals, strict=True))

    def _outputs(
        self, sources: Sequence[Sequence[str]], beam: int, restricted: bool = False
    ) -> list[list[tuple[Sequence[str], float]]]:
        """Return all outputs of CTranslate2's search for sources of one length, with log P."""
        more = 2 if beam > 1 else 1  # outputs per beam; with one beam, it takes the best token
        results = self.translator.translate_batch(
            sources,
            beam_size=beam,
            patience=more,
            num_hypotheses=beam * more,
            length_penalty=0,
            suppress_sequences=[[SPECIAL[PADDING]]] if restricted else None,
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
            min_decoding_length=int(restricted),
            max_decoding_length=min(
                len(sources[0]) + self.config.search.extra_length, self.config.most_tokens[2]
            ),
        )
        return [list(zip(result.hypotheses, result.scores, strict=True)) for result in results]

    def _translation(self, tokens: Sequence[str], log_p: float, alpha: float) -> Translation:
        if math.isnan(log_p):
            raise ValueError("the model gives a probability that is not a number")
        score = log_p / length_penalty(len(_without_end(tokens)) + 1, alpha)
        pieces = [piece for piece in _without_end(tokens) if piece != SPECIAL[BEGIN]]
        return Translation(self.join(pieces), score, log_p, tuple(pieces))


def _without_end(tokens: Sequence[str]) -> list[str]:
    return [piece for piece in tokens if piece != SPECIAL[END]]
