"""BLEU as Table 2 reports it, and sacreBLEU beside it (section 6.1).

The paper's BLEU is that of multi-bleu.perl: the geometric mean of the n-gram precisions up to
n = 4, unsmoothed, times the brevity penalty, on cased text in Moses tokens; for German the
hyphenated compounds of both sides are split first, as earlier work did.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import sacremoses
from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

# Bytes, as perl reads a file unless told otherwise; see split_compounds.
COMPOUND = re.compile(rb"(\S)-(\S)")
SPLIT_COMPOUND = rb"\1 ##AT##-##AT## \2"

# What sacrebleu calls "none" in its signature is Moses tokens here.
UNTOKENIZED = "tok:none"


@dataclass(frozen=True)
class Bleu:
    """One corpus score with all it is made of."""

    score: float  # 0 to 100
    precisions: tuple[float, ...]  # per cent, of 1-grams to 4-grams
    brevity_penalty: float  # exp(1 - reference_length / hypothesis_length), at most 1
    length_ratio: float  # hypothesis_length / reference_length
    hypothesis_length: int  # tokens
    reference_length: int  # tokens
    signature: str


@dataclass(frozen=True)
class Scores:
    """The same sentences scored both ways."""

    sentences: int
    paper: Bleu
    sacrebleu: Bleu
    tokens: Bleu | None = None  # see token_bleu


def score(hypothesis: Sequence[str], reference: Sequence[str], target_lang: str) -> Scores:
    """Score plain detokenized text, one sentence an item.

    Raises ValueError if Moses has no rules for `target_lang`, there is no sentence or the numbers
    of sentences differ.
    """
    _check(hypothesis, reference, target_lang)
    moses = MosesTokenizer(target_lang)
    return Scores(
        sentences=len(reference),
        paper=paper_bleu(
            [moses.tokenize(sentence, return_str=True) for sentence in hypothesis],
            [moses.tokenize(sentence, return_str=True) for sentence in reference],
            target_lang,
        ),
        sacrebleu=sacre_bleu(hypothesis, reference),
    )


def score_tokenized(
    hypothesis: Sequence[str], reference: Sequence[str], target_lang: str
) -> Scores:
    """Score Moses tokens separated by spaces; sacreBLEU is given them detokenized.

    Raises ValueError as `score` does.
    """
    _check(hypothesis, reference, target_lang)
    moses = MosesDetokenizer(target_lang)
    return Scores(
        sentences=len(reference),
        paper=paper_bleu(hypothesis, reference, target_lang),
        sacrebleu=sacre_bleu(
            [moses.detokenize(sentence.split()) for sentence in hypothesis],
            [moses.detokenize(sentence.split()) for sentence in reference],
        ),
    )


def sacre_bleu(hypothesis: Sequence[str], reference: Sequence[str]) -> Bleu:
    """Return sacreBLEU with its defaults, for plain detokenized text."""
    return _corpus_bleu(BLEU(), hypothesis, reference)


def paper_bleu(hypothesis: Sequence[str], reference: Sequence[str], target_lang: str) -> Bleu:
    """Return the BLEU of Table 2 for Moses tokens separated by spaces."""
    compounds = "kept"
    if target_lang == "de":
        compounds = "split"
        hypothesis = [split_compounds(sentence) for sentence in hypothesis]
        reference = [split_compounds(sentence) for sentence in reference]
    metric = BLEU(tokenize="none", smooth_method="none", force=True)  # force: tokens are meant
    result = _corpus_bleu(
        metric,
        [_perl_words(sentence) for sentence in hypothesis],
        [_perl_words(sentence) for sentence in reference],
    )
    tokens = f"tok:sacremoses-{sacremoses.__version__}-{target_lang}|compounds:{compounds}"
    return replace(result, signature=result.signature.replace(UNTOKENIZED, tokens))


def token_bleu(hypothesis: Sequence[str], reference: Sequence[str]) -> Bleu:
    """Return BLEU of tokens as they are: what fairseq-generate prints in its last line without
    --tokenizer, and many papers report. It depends on how the reference was tokenized."""
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    sides = ([_perl_words(sentence) for sentence in side] for side in (hypothesis, reference))
    result = _corpus_bleu(metric, *sides)
    return replace(result, signature=result.signature.replace(UNTOKENIZED, "tok:as-given"))


def split_compounds(sentence: str) -> str:
    """Split hyphenated words as earlier work did: `rich-text` to `rich ##AT##-##AT## text`.

    The published scores come from perl's s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g on bytes. A match
    uses up the character after its hyphen, so that `a-b-c` becomes `a ##AT##-##AT## b-c`; but of a
    character of several bytes only the first is used up, and `a-ü-c` is split twice.
    """
    return COMPOUND.sub(SPLIT_COMPOUND, sentence.encode()).decode()


def _perl_words(sentence: str) -> str:
    """Name each word by its bytes in hexadecimal, one name a word.

    multi-bleu.perl splits bytes at ASCII white space; sacrebleu would split at a no-break space,
    too, wherever a tokenizer left one inside a word.
    """
    return " ".join(word.hex() for word in sentence.encode().split())


def _corpus_bleu(metric: BLEU, hypothesis: Sequence[str], reference: Sequence[str]) -> Bleu:
    result = metric.corpus_score(hypothesis, [reference])
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
    """Raise ValueError if Moses has no rules for a language."""
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
