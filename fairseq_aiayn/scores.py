"""What `aiayn bleu` measures, apart from how: without the packages that compute it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import sacremoses
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest, Result
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from fairseq_aiayn.treebank.evalb import Constituents


@dataclass(frozen=True)
class Bleu:
    """A corpus score with its parts."""

    score: float  # 0 to 100
    precisions: tuple[float, ...]  # per cent, of 1-grams to 4-grams
    brevity_penalty: float  # exp(1 - reference_length / hypothesis_length), at most 1
    length_ratio: float  # hypothesis_length / reference_length
    hypothesis_length: int  # tokens
    reference_length: int  # tokens
    signature: str


@dataclass(frozen=True)
class Scores:
    """The scores of one set of sentences."""

    sentences: int
    paper: Bleu
    sacrebleu: Bleu
    tokens: Bleu | None = None  # see token_bleu


# Quotes as ASCII, as the authors had them when they computed the English-German BLEU of Table 2.
#
# The authors' script passes a translation through Moses's replace-unicode-punctuation, which knows
# “, ” and ’ but not the low „. Their reference, newstest2014.tok.de, has no Unicode quote at all.


# What has Unicode's property Quotation_Mark and is not replaced by replace-unicode-punctuation.
OTHER_QUOTES = "„‟‘‚‛«»‹›⹂『』〝〞〟﹁﹂﹃﹄＂＇｢｣"
AS_ASCII = str.maketrans(dict.fromkeys(OTHER_QUOTES, '"'))

# Moses tokens escape what the replacements write; "&" is not among it, so nothing is escaped twice.
ESCAPED = str.maketrans(
    {'"': "&quot;", "'": "&apos;", "<": "&lt;", ">": "&gt;", "[": "&#91;", "]": "&#93;"}
)

MOSES = MosesPunctNormalizer()


def replace_in_hypothesis(sentence: str) -> str:
    """Replace what replace-unicode-punctuation does: “ and ” by ", ’ by ', … by three dots."""
    return MOSES.replace_unicode_punct(sentence)


def replace_in_reference(sentence: str) -> str:
    """Replace the same as in a hypothesis, and every other Unicode quote by an ASCII one."""
    return MOSES.replace_unicode_punct(sentence).translate(AS_ASCII)


def escape(tokens: str) -> str:
    """Write quotes and brackets in Moses tokens as Moses's tokenizer does: " as &quot;, for one."""
    return tokens.translate(ESCAPED)


# BLEU as Table 2 reports it, and sacreBLEU (section 6.1).
#
# The paper's BLEU is that of multi-bleu.perl: the geometric mean of the n-gram precisions up to
# n = 4, unsmoothed, times the brevity penalty, on cased Moses tokens. For German, quotes are first
# made ASCII (quotes.py) and hyphenated compounds split, as in the authors' script. For French no
# script of theirs is known: there, as for other languages, Moses tokens are scored as they are.


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


# BLEU by sentence length.


CLASSES = 5


@dataclass(frozen=True)
class LengthClass:
    """Sentences of similar length."""

    shortest: int  # words of the source
    longest: int
    sentences: int
    bleu: dict[str, float]  # sacreBLEU by the name of the system


def bleu_by_length(
    source: Sequence[str], reference: Sequence[str], translations: Mapping[str, Sequence[str]]
) -> list[LengthClass]:
    """Score at most CLASSES classes of source lengths, with similar numbers of sentences.

    Lengths are in words separated by white space. Sentences of the same length are in one class, so
    that classes differ in size if many sentences have the same length.
    """
    metric = BLEU()
    found = []
    for members in _classes([len(line.split()) for line in source]):
        scores = {
            name: metric.corpus_score(
                [lines[k] for k in members], [[reference[k] for k in members]]
            ).score
            for name, lines in translations.items()
        }
        lengths = [len(source[k].split()) for k in members]
        found.append(LengthClass(min(lengths), max(lengths), len(members), scores))
    return found


def _classes(lengths: Sequence[int]) -> list[list[int]]:
    """Return the indices of sentences by increasing length, cut into nearly equal shares."""
    order = sorted(range(len(lengths)), key=lambda k: lengths[k])
    classes: list[list[int]] = [[]]
    for done, k in enumerate(order):
        # Those that are left are shared by the classes that are left, this one included
        begun = len(classes[-1])
        share = (len(order) - done + begun) / (CLASSES - len(classes) + 1)
        if begun >= share and lengths[k] != lengths[classes[-1][-1]]:
            classes.append([])
        classes[-1].append(k)
    return [members for members in classes if members]


# Test whether a difference between translations is significant or chance.


SAMPLES = 1_000  # of the test set; sacrebleu's default
LEVEL = 0.05
FEWEST = 100  # sentences; resampling fewer says little about the difference


@dataclass(frozen=True)
class Tested:
    """One system's sacreBLEU over resampled test sets; p_value is None for the first system."""

    score: float
    mean: float
    interval: float  # 95% of the samples lie within mean ± interval
    p_value: float | None  # of the difference from the first system


@dataclass(frozen=True)
class Significance:
    """Systems tested against the first of them."""

    signature: str
    systems: dict[str, Tested]  # by name


def paired_bootstrap(
    translations: Mapping[str, Sequence[str]], reference: Sequence[str], samples: int = SAMPLES
) -> Significance:
    """Test systems against the first by sacreBLEU's paired bootstrap (Koehn, 2004).

    Samples are drawn with sacrebleu's seed (12345 unless SACREBLEU_SEED is set), so that the same
    texts give the same result. Raises ValueError for fewer than two systems.
    """
    if len(translations) < 2:
        raise ValueError(f"a test needs two systems, got {len(translations)}")
    named = [(name, list(lines)) for name, lines in translations.items()]
    test = PairedTest(named, {"BLEU": BLEU()}, [list(reference)], "bs", n_samples=samples)
    signatures, scores = test()
    results = dict(zip(scores["System"], scores["BLEU"], strict=True))
    first, *_ = results.values()
    return Significance(
        signature=str(signatures["BLEU"]),
        systems={name: _tested(found, first) for name, found in results.items()},
    )


def _tested(found: Result, first: Result) -> Tested:
    p_value = None if found.p_value is None else float(found.p_value)
    if p_value is not None and found.score == first.score:
        p_value = 1.0  # for equal scores, sacrebleu returns the smallest possible p
    return Tested(float(found.score), float(found.mean), float(found.ci), p_value)


# A difference between two systems, and how sure it is.


CONFIDENCE = 0.95  # of intervals
SAMPLES_OF_DIFFERENCE = 10_000  # of the test set
SEED = 12345  # of the samples; sacrebleu's
AT_A_TIME = 100  # samples that are in memory together


@dataclass(frozen=True)
class EstimatedDifference:
    """A difference with its confidence interval, and how often chance alone makes one as large."""

    difference: float
    low: float  # of the interval
    high: float
    p_value: float


def f1_difference(
    first: Sequence[Constituents], other: Sequence[Constituents]
) -> EstimatedDifference:
    """Return F1 of `other` minus F1 of `first`, in per cent, by the paired bootstrap (Koehn, 2004).

    Each parser has the counts of the same sentences, in the same order. The interval has the middle
    95% of the differences over resampled sentences, and p is the share of them that are at least as
    far from their mean as the difference is from 0. Raises ValueError for different numbers of
    sentences and for fewer than two.
    """
    from scipy.stats import bootstrap  # here: it takes a second, and most commands need no test

    if len(first) != len(other) or len(first) < 2:
        raise ValueError(
            f"a test needs the same two sentences or more, got {len(first):,} and {len(other):,}"
        )
    counts = [*np.array(first, dtype=float).T, *np.array(other, dtype=float).T]
    found = bootstrap(
        counts,
        _f1_difference,
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=SAMPLES_OF_DIFFERENCE,
        batch=AT_A_TIME,
        confidence_level=CONFIDENCE,
        rng=np.random.default_rng(SEED),
    )
    difference = float(_f1_difference(*counts))
    samples = found.bootstrap_distribution
    extreme = np.abs(samples - samples.mean()) >= abs(difference)
    return EstimatedDifference(
        difference=difference,
        low=float(found.confidence_interval.low),
        high=float(found.confidence_interval.high),
        p_value=(int(extreme.sum()) + 1) / (SAMPLES_OF_DIFFERENCE + 1),  # as sacrebleu estimates it
    )


def _f1_difference(*counts: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the difference of F1; counts are matched, gold and predicted of each system."""
    matched, gold, predicted, *of_other = (count.sum(axis=axis) for count in counts)
    return _f1(*of_other) - _f1(matched, gold, predicted)


def _f1(matched: np.ndarray, gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return F1 in per cent; it is 0 where there are no constituents."""
    return 200 * matched / np.maximum(gold + predicted, 1)


# The sentences whose translations differ most between systems.


EVEN = 0.005  # chrF points; a smaller difference is invisible in the two digits shown


@dataclass(frozen=True)
class Disagreement:
    """One sentence, with the score of each system's translation."""

    index: int  # of the sentence, from 0
    chrf: dict[str, float]  # by the name of the system


@dataclass(frozen=True)
class Contrast:
    """A system compared with the first one, sentence by sentence."""

    better: int  # sentences
    worse: int
    even: int  # equally good, often identical


def sentence_chrf(
    translations: Mapping[str, Sequence[str]], reference: Sequence[str]
) -> dict[str, list[float]]:
    """Return chrF of every sentence, by system; unlike BLEU, it is meaningful for one sentence."""
    metric = CHRF()
    return {
        name: [
            metric.sentence_score(line, [right]).score
            for line, right in zip(lines, reference, strict=True)
        ]
        for name, lines in translations.items()
    }


def largest_disagreements(chrf: Mapping[str, Sequence[float]], count: int) -> list[Disagreement]:
    """Return the `count` sentences with the largest gap between best and worst chrF.

    Sentences on which all systems are even are left out.
    """
    by_sentence = list(zip(*chrf.values(), strict=True))
    spread = [max(scores) - min(scores) for scores in by_sentence]
    order = sorted(range(len(spread)), key=lambda k: (-spread[k], k))
    return [
        Disagreement(k, dict(zip(chrf, by_sentence[k], strict=True)))
        for k in order[:count]
        if spread[k] >= EVEN
    ]


def contrasts(chrf: Mapping[str, Sequence[float]]) -> dict[str, Contrast]:
    """Compare every other system with the first; return the contrasts by name."""
    first, *others = chrf
    found = {}
    for name in others:
        gains = [own - other for own, other in zip(chrf[name], chrf[first], strict=True)]
        better = sum(gain >= EVEN for gain in gains)
        worse = sum(gain <= -EVEN for gain in gains)
        found[name] = Contrast(better, worse, len(gains) - better - worse)
    return found
