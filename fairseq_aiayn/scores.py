"""The paper's BLEU and sacreBLEU (section 6.1, Table 2).

The paper's BLEU is that of multi-bleu.perl: the geometric mean of the n-gram precisions up to
n = 4, unsmoothed, times the brevity penalty, on cased Moses tokens. For German, quotes are first
made ASCII and hyphenated compounds split, as in the authors' script. For French no script of theirs
is known: there, as for other languages, Moses tokens are scored as they are.

Packages that take long to import are imported by the functions that use them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU
    from sacremoses import MosesPunctNormalizer

Quotes = Literal["ascii", "keep"]
HYPHEN = " @-@ "  # how the tokenizer of Moses writes a hyphen with its option -a
RESULT = re.compile(r"Generate (\S+) with beam=(\d+): ([^,\n]*)")  # fairseq-generate's last line
# One of its other lines: hypothesis, detokenized or in tokens, its scores, source or reference;
# number; text of a hypothesis
GENERATED = re.compile(r"^([DHPST])-(\d+)\t(?:[^\t\n]*\t(.*))?", re.MULTILINE)
# Of sacreBLEU; otherwise 13a
TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# Where Moses finds no words, so that there is no paper's BLEU
UNSPACED = (*TOKENIZERS, "yue", "th")


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
class Chrf:
    """A corpus score of character n-grams (Popović, 2015)."""

    score: float  # 0 to 100
    signature: str


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of one set of sentences."""

    sentences: int
    paper: Bleu | None = None  # of languages in UNSPACED
    sacrebleu: Bleu
    tokens: Bleu | None = None  # see token_bleu


def score(
    hypothesis: Sequence[str],
    reference: Sequence[str],
    target_lang: str,
    quotes: Quotes | None = None,
    tokenized: bool = False,
) -> Scores:
    """Score plain detokenized text, one sentence per item, or Moses tokens separated by spaces;
    `quotes` is only of the paper's BLEU, by default what `quotes_of` says.

    Raises ValueError if there are no rules for `target_lang`, no sentences, or different numbers of
    them.
    """
    from sacremoses import MosesDetokenizer, MosesTokenizer

    check_language(target_lang)
    if not reference or len(hypothesis) != len(reference):
        raise ValueError(
            "expected the same number of sentences in hypothesis and reference, at least one, "
            f"got {len(hypothesis)} and {len(reference)}"
        )
    quotes, unspaced = quotes or quotes_of(target_lang), target_lang in UNSPACED
    plain = [[line.replace(HYPHEN, "-") for line in side] for side in (hypothesis, reference)]
    tokens = plain
    if quotes == "ascii":
        tokens = [
            [replace_in_hypothesis(sentence) for sentence in plain[0]],
            [replace_in_reference(sentence) for sentence in plain[1]],
        ]
    if tokenized:
        detokenize = MosesDetokenizer(target_lang).detokenize
        plain = [[detokenize(sentence.split()) for sentence in side] for side in plain]
        if quotes == "ascii":
            tokens = [[escape(sentence) for sentence in side] for side in tokens]
    elif not unspaced:
        tokenize = MosesTokenizer(target_lang).tokenize
        tokens = [[tokenize(sentence, return_str=True) for sentence in side] for side in tokens]
    return Scores(
        sentences=len(reference),
        paper=None if unspaced else paper_bleu(tokens[0], tokens[1], target_lang, quotes),
        sacrebleu=_corpus_bleu(sacrebleu_metric(TOKENIZERS.get(target_lang, "13a")), *plain),
    )


def require_sentence(name: str, line: str, file: str, kind: str) -> None:
    """Raise ValueError if a line of what the message calls `name` is one of fairseq-generate; it
    says how to extract those of a `kind` from the file, with --nbest the first of each sentence."""
    if RESULT.match(line):
        raise ValueError(f"{name}: expected sentences, got what fairseq-generate --quiet prints")
    if match := GENERATED.match(line):
        kind = "H" if kind + match[1] == "DH" else kind  # they were extracted already
        same = re.compile(rf"^{kind}-{match[2]}\t".encode(), re.MULTILINE)
        several = os.path.isfile(file) and len(same.findall(Path(file).read_bytes())) > 1
        steps = " awk '!seen[$1]++' |" * several + " sort -V | cut -f"
        command = f"grep ^{kind}- {quote(file)} |{steps} {2 if kind == 'T' else 3}-"
        line = f"{match[1]}-{match[2]} of fairseq-generate"
        raise ValueError(f"{name}: expected sentences, got {line}; try {command} > {name}.txt")


def check_language(target_lang: str) -> None:
    """Raise ValueError if neither Moses nor sacreBLEU has rules for `target_lang`."""
    from sacremoses.corpus import NonbreakingPrefixes

    languages = sorted({*NonbreakingPrefixes().available_langs.values(), *UNSPACED})
    if target_lang not in languages:
        raise ValueError(
            f"target language: Moses has no rules for {target_lang!r}, only for "
            f"{', '.join(languages)}"
        )


def sacrebleu_metric(tokenizer: str) -> BLEU:
    """Return sacreBLEU with its defaults; ValueError says what to install for `tokenizer`."""
    from sacrebleu.metrics import BLEU

    try:
        return BLEU(tokenize=tokenizer)
    except RuntimeError as error:
        command = f"pip install 'sacrebleu[{tokenizer[:2]}]'"
        raise ValueError(f"sacreBLEU's tokenizer {tokenizer} is missing: {command}") from error


def paper_bleu(
    hypothesis: Sequence[str], reference: Sequence[str], target_lang: str, quotes: Quotes = "keep"
) -> Bleu:
    """Return the BLEU of Table 2, from Moses tokens separated by spaces. `quotes` says what was
    done with them before they were tokenized; the signature names it."""
    import sacremoses

    compounds = "kept"
    if target_lang == "de":
        compounds = "split"
        hypothesis = [split_compounds(sentence) for sentence in hypothesis]
        reference = [split_compounds(sentence) for sentence in reference]
    tokens = f"sacremoses-{sacremoses.__version__}-{target_lang}|compounds:{compounds}"
    if quotes == "ascii":  # signatures from before there was this choice name no quotes
        tokens += "|quotes:ascii"
    return token_bleu(hypothesis, reference, tokens)


def token_bleu(hypothesis: Sequence[str], reference: Sequence[str], name: str = "as-given") -> Bleu:
    """Return BLEU of the given tokens, whose signature calls them `name`; fairseq-generate prints
    it in its last line without --tokenizer, and many papers report it."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none", smooth_method="none", force=True)  # force: no warning of tokens
    sides = ([_perl_words(sentence) for sentence in side] for side in (hypothesis, reference))
    result = _corpus_bleu(metric, *sides)
    return replace(result, signature=result.signature.replace("tok:none", f"tok:{name}"))


def _perl_words(sentence: str) -> str:
    """Replace each word by its bytes in hexadecimal: multi-bleu.perl splits at ASCII white space
    only, sacrebleu also at no-break spaces within a word."""
    return " ".join(word.hex() for word in sentence.encode().split())


def _corpus_bleu(metric: BLEU, hypothesis: Sequence[str], reference: Sequence[str]) -> Bleu:
    result = metric.corpus_score(hypothesis, [reference])
    if not result.ref_len:
        raise ValueError("expected at least one token in the reference, got none")
    return Bleu(
        score=result.score,
        precisions=tuple(result.precisions),
        brevity_penalty=result.bp,
        length_ratio=result.sys_len / result.ref_len,
        hypothesis_length=result.sys_len,
        reference_length=result.ref_len,
        signature=str(metric.get_signature()),
    )


def corpus_chrf(hypothesis: Sequence[str], reference: Sequence[str]) -> Chrf:
    """Return sacreBLEU's chrF of detokenized text."""
    from sacrebleu.metrics import CHRF

    metric = CHRF()
    score = metric.corpus_score(hypothesis, [reference]).score
    return Chrf(score, str(metric.get_signature()))


# On bytes, as perl reads files by default
COMPOUND = re.compile(rb"(\S)-(\S)")
SPLIT_COMPOUND = rb"\1 ##AT##-##AT## \2"


def split_compounds(sentence: str) -> str:
    """Split hyphenated words as perl's s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g, which made the paper's
    scores: a match consumes the byte after its hyphen, so that `a-b-c` is split once."""
    return COMPOUND.sub(SPLIT_COMPOUND, sentence.encode()).decode()


# --- quotes as ASCII, as the authors had them when they computed the English-German BLEU ---------

# Their script passes a translation through Moses's replace-unicode-punctuation, which knows “, ”
# and ’ but not the low „. Their reference, newstest2014.tok.de, has no Unicode quote at all.
# What has Unicode's property Quotation_Mark and is not replaced by replace-unicode-punctuation.
OTHER_QUOTES = "„‟‘‚‛«»‹›⹂『』〝〞〟﹁﹂﹃﹄＂＇｢｣"
AS_ASCII = str.maketrans(dict.fromkeys(OTHER_QUOTES, '"'))
# Moses tokens escape what the replacements write; "&" is not among it, so nothing is escaped twice.
ESCAPED_MARKS = str.maketrans(
    {'"': "&quot;", "'": "&apos;", "<": "&lt;", ">": "&gt;", "[": "&#91;", "]": "&#93;"}
)


def quotes_of(target_lang: str) -> Quotes:
    """Return how the paper's BLEU treats quotes: only German's are replaced."""
    return "ascii" if target_lang == "de" else "keep"


def replace_in_hypothesis(sentence: str) -> str:
    """Replace what replace-unicode-punctuation does: “ and ” by ", ’ by ', … by three dots."""
    return _moses().replace_unicode_punct(sentence)


def replace_in_reference(sentence: str) -> str:
    """Replace the same as in a hypothesis, and every other Unicode quote by an ASCII one."""
    return replace_in_hypothesis(sentence).translate(AS_ASCII)


def escape(tokens: str) -> str:
    """Write quotes and brackets in Moses tokens as Moses's tokenizer does: " as &quot;, for one."""
    return tokens.translate(ESCAPED_MARKS)


@cache
def _moses() -> MosesPunctNormalizer:
    from sacremoses import MosesPunctNormalizer

    return MosesPunctNormalizer()
