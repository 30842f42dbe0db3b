"""BLEU as Table 2 reports it, and sacreBLEU (section 6.1).

The paper's BLEU is that of multi-bleu.perl: the geometric mean of the n-gram precisions up to
n = 4, unsmoothed, times the brevity penalty, on cased Moses tokens. For German, quotes are first
made ASCII (quotes.py) and hyphenated compounds split, as in the authors' script. For French no
script of theirs is known: there, as for other languages, Moses tokens are scored as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import sacremoses
from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from fairseq_aiayn.scores.bleu_score import Bleu, Scores
from fairseq_aiayn.scores.quotes import escape, replace_in_hypothesis, replace_in_reference

Quotes = Literal["ascii", "keep"]

# On bytes, as perl reads files by default; see split_compounds.
COMPOUND = re.compile(rb"(\S)-(\S)")
SPLIT_COMPOUND = rb"\1 ##AT##-##AT## \2"

# sacrebleu's signature says "none" for text that comes in tokens; here these are Moses tokens.
UNTOKENIZED = "tok:none"


def score(
    hypothesis: Sequence[str],
    reference: Sequence[str],
    target_lang: str,
    quotes: Quotes | None = None,
) -> Scores:
    """Score plain detokenized text, one sentence per item.

    `quotes` is only of the paper's BLEU; None is what `quotes_of` says of the language.

    Raises ValueError if Moses has no rules for `target_lang`, if there is no sentence, or if the
    numbers of sentences differ.
    """
    _check(hypothesis, reference, target_lang)
    quotes = quotes or quotes_of(target_lang)
    sides = _replace_quotes(hypothesis, reference, quotes)
    moses = MosesTokenizer(target_lang)
    tokens = [[moses.tokenize(sentence, return_str=True) for sentence in side] for side in sides]
    return Scores(
        sentences=len(reference),
        paper=paper_bleu(*tokens, target_lang, quotes),
        sacrebleu=sacre_bleu(hypothesis, reference),
    )


def score_tokenized(
    hypothesis: Sequence[str],
    reference: Sequence[str],
    target_lang: str,
    quotes: Quotes | None = None,
) -> Scores:
    """Score Moses tokens separated by spaces; they are detokenized for sacreBLEU.

    Quotes are replaced within the tokens. Raises ValueError as `score` does.
    """
    _check(hypothesis, reference, target_lang)
    quotes = quotes or quotes_of(target_lang)
    tokens = _replace_quotes(hypothesis, reference, quotes)
    if quotes == "ascii":
        tokens = [[escape(sentence) for sentence in side] for side in tokens]
    moses = MosesDetokenizer(target_lang)
    return Scores(
        sentences=len(reference),
        paper=paper_bleu(*tokens, target_lang, quotes),
        sacrebleu=sacre_bleu(
            [moses.detokenize(sentence.split()) for sentence in hypothesis],
            [moses.detokenize(sentence.split()) for sentence in reference],
        ),
    )


def quotes_of(target_lang: str) -> Quotes:
    """Return what the paper's BLEU does with quotes: only of German do we know that it did."""
    return "ascii" if target_lang == "de" else "keep"


def _replace_quotes(
    hypothesis: Sequence[str], reference: Sequence[str], quotes: Quotes
) -> list[Sequence[str]]:
    if quotes == "keep":
        return [hypothesis, reference]
    return [
        [replace_in_hypothesis(sentence) for sentence in hypothesis],
        [replace_in_reference(sentence) for sentence in reference],
    ]


def sacre_bleu(hypothesis: Sequence[str], reference: Sequence[str]) -> Bleu:
    """Return sacreBLEU of plain detokenized text, with sacreBLEU's defaults."""
    return _corpus_bleu(BLEU(), hypothesis, reference)


def paper_bleu(
    hypothesis: Sequence[str], reference: Sequence[str], target_lang: str, quotes: Quotes = "keep"
) -> Bleu:
    """Return the BLEU of Table 2, from Moses tokens separated by spaces.

    `quotes` says what was done with them before they were tokenized; the signature names it.
    """
    compounds = "kept"
    if target_lang == "de":
        compounds = "split"
        hypothesis = [split_compounds(sentence) for sentence in hypothesis]
        reference = [split_compounds(sentence) for sentence in reference]
    metric = BLEU(
        tokenize="none", smooth_method="none", force=True
    )  # force: no warning about tokens
    result = _corpus_bleu(
        metric,
        [_perl_words(sentence) for sentence in hypothesis],
        [_perl_words(sentence) for sentence in reference],
    )
    tokens = f"tok:sacremoses-{sacremoses.__version__}-{target_lang}|compounds:{compounds}"
    if quotes == "ascii":  # signatures from before there was this choice name no quotes
        tokens += "|quotes:ascii"
    return replace(result, signature=result.signature.replace(UNTOKENIZED, tokens))


def token_bleu(hypothesis: Sequence[str], reference: Sequence[str]) -> Bleu:
    """Return BLEU of the given tokens, which depends on how the reference was tokenized.

    fairseq-generate prints it in its last line without --tokenizer, and many papers report it.
    """
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    sides = ([_perl_words(sentence) for sentence in side] for side in (hypothesis, reference))
    result = _corpus_bleu(metric, *sides)
    return replace(result, signature=result.signature.replace(UNTOKENIZED, "tok:as-given"))


def split_compounds(sentence: str) -> str:
    """Split hyphenated words as earlier work did: `rich-text` to `rich ##AT##-##AT## text`.

    The published scores come from perl's s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g on bytes. A match
    consumes the byte after its hyphen. So `a-b-c` becomes `a ##AT##-##AT## b-c`, but `a-ü-c` is
    split twice, because `ü` has two bytes.
    """
    return COMPOUND.sub(SPLIT_COMPOUND, sentence.encode()).decode()


def _perl_words(sentence: str) -> str:
    """Replace each word by its bytes in hexadecimal.

    multi-bleu.perl splits bytes at ASCII white space only. sacrebleu also splits at no-break
    spaces, which a tokenizer may leave inside a word.
    """
    return " ".join(word.hex() for word in sentence.encode().split())


def _corpus_bleu(metric: BLEU, hypothesis: Sequence[str], reference: Sequence[str]) -> Bleu:
    result = metric.corpus_score(hypothesis, [reference])
    if not result.ref_len:
        raise ValueError("the reference must have at least one token, has none")
    return Bleu(
        score=result.score,
        precisions=tuple(result.precisions),
        brevity_penalty=result.bp,
        length_ratio=result.sys_len / result.ref_len,
        hypothesis_length=result.sys_len,
        reference_length=result.ref_len,
        signature=str(metric.get_signature()),
    )


def check_language(target_lang: str) -> None:
    """Raise ValueError if Moses has no rules for `target_lang`."""
    languages = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if target_lang not in languages:
        raise ValueError(
            f"target language: Moses has no rules for {target_lang!r}, only for "
            f"{', '.join(languages)}"
        )


def _check(hypothesis: Sequence[str], reference: Sequence[str], target_lang: str) -> None:
    check_language(target_lang)
    if not reference or len(hypothesis) != len(reference):
        raise ValueError(
            "hypothesis and reference must have the same number of sentences, at least one, "
            f"got {len(hypothesis)} and {len(reference)}"
        )
