"""The paper's BLEU and sacreBLEU (section 6.1, Table 2).

The paper's BLEU is that of multi-bleu.perl: the geometric mean of the n-gram precisions up to
n = 4, unsmoothed, times the brevity penalty, on cased Moses tokens. For German, quotes are first
made ASCII and hyphenated compounds split, as in the authors' script. For French no script of theirs
is known: there, as for other languages, Moses tokens are scored as they are. Text whose words are
not separated has no paper's BLEU.

Packages that take long to import are imported by the functions that use them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from html import entities, unescape
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal

from fairseq_aiayn.corpus.pieces import MARK

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU
    from sacremoses import MosesPunctNormalizer

Quotes = Literal["ascii", "keep"]
HYPHEN = " @-@ "  # how the tokenizer of Moses writes a hyphen with its option -a
RESULT = re.compile(r"Generate (\S+) with beam=(\d+): ([^,\n]*)")  # fairseq-generate's last line
# One of its other lines: hypothesis, detokenized or in tokens, its scores, source or reference;
# number; text of a hypothesis
GENERATED = re.compile(r"^([DHPST])-(\d+)\t(?:[^\t\n]*\t(.*))?", re.MULTILINE)
TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}  # of sacreBLEU, by language
UNITS = {  # what sacreBLEU's tokenizers make of a text
    "zh": "Chinese characters and other words",
    "ja-mecab": "MeCab's words",
    "ko-mecab": "MeCab's words",
    "char": "characters",
    "13a": "words and punctuation",
}
# A language with its script, region or variant: pt, pt_BR, zho_Hans, sr@latin, de_DE.UTF-8
CODE = re.compile(r"([a-z]{2,3})(?:[-_.@]\w+)*", re.ASCII | re.IGNORECASE)
# &quot; &#39; &#x27;, also if & itself was escaped afterwards: &amp;quot;
ENTITY = re.compile(r"&(amp;)*(#\d+|#x[0-9a-f]+|[a-z]\w*);", re.ASCII | re.IGNORECASE)


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
    paper: Bleu | None = None  # where 13a's tokens are sacreBLEU's
    sacrebleu: Bleu
    chrf: Chrf | None = None  # files of earlier versions have none
    tokens: Bleu | None = None  # see token_bleu


def score(
    hypothesis: Sequence[str],
    reference: Sequence[str],
    target_lang: str,
    quotes: Quotes | None = None,
    tokenized: bool = False,
    *,
    others: Sequence[Sequence[str]] = (),
    lowercase: bool = False,
) -> Scores:
    """Score plain detokenized text, one sentence per item, or Moses tokens separated by spaces;
    `quotes` is only of the paper's BLEU, by default what `quotes_of` says; `others` are further
    references.

    Raises ValueError if `target_lang` is no code of a language, for no sentences, or for different
    numbers of them.
    """
    from sacremoses import MosesDetokenizer, MosesTokenizer

    language = language_of(target_lang)
    for side in (reference, *others):
        if not side or len(hypothesis) != len(side):
            raise ValueError(
                "expected the same number of sentences in hypothesis and reference, at least one, "
                f"got {len(hypothesis)} and {len(side)}"
            )
    quotes, tokenizer = quotes or quotes_of(language), tokenizer_of(language, reference)
    plain = [[undo_escapes(line) for line in side] for side in (hypothesis, reference, *others)]
    tokens = plain
    if quotes == "ascii":
        tokens = [[*map(replace_in_reference, side)] for side in plain]
        tokens[0] = [*map(replace_in_hypothesis, plain[0])]
    if tokenized:
        detokenize = MosesDetokenizer(language).detokenize
        plain = [[detokenize(sentence.split()) for sentence in side] for side in plain]
    paper = None
    if tokenizer == "13a":
        moses = MosesTokenizer(language)
        tokens_of = moses.escape_xml if tokenized else partial(moses.tokenize, return_str=True)
        tokens = [[tokens_of(sentence) for sentence in side] for side in tokens]
        paper = paper_bleu(*tokens, target_lang=language, quotes=quotes, lowercase=lowercase)
    return Scores(
        sentences=len(reference),
        paper=paper,
        sacrebleu=_corpus_bleu(sacrebleu_metric(tokenizer, lowercase), *plain),
        chrf=corpus_chrf(*plain, lowercase=lowercase),
    )


def require_sentence(name: str, line: str, file: str, kind: str) -> None:
    """Raise ValueError if a line of what the message calls `name` is one of fairseq-generate; it
    says how to extract those of a `kind` from the file, with --nbest the first of each sentence."""
    if RESULT.match(line):
        raise ValueError(f"{name}: expected sentences, got what fairseq-generate --quiet prints")
    if match := GENERATED.match(line):
        text = Path(file).read_text("utf-8", "replace") if os.path.isfile(file) else line
        pairs = [each[:2] for each in GENERATED.findall(text) if each[0] in kind.replace("D", "DH")]
        kind = min(pairs, default=(kind, ""))[0]  # H where none is detokenized
        steps = " awk '!seen[$1]++' |" * (pairs.count((kind, match[2])) > 1) + " sort -V | cut -f"
        command = f"grep ^{kind}- {quote(file)} |{steps} {2 if kind == 'T' else 3}-"
        line = f"{match[1]}-{match[2]} of fairseq-generate"
        raise ValueError(f"{name}: expected sentences, got {line}; try {command} > {name}.txt")


def language_of(target_lang: str) -> str:
    """Return the shortest code of a language, without region; raises ValueError for other text."""
    match = CODE.fullmatch(target_lang)
    if not match:
        expected = "expected a code such as de or pt_BR"
        raise ValueError(f"target language: {expected}, got {target_lang!r}")
    code = match[1].lower()
    if len(code) == 3:
        from nltk.langnames import iso639short  # takes more than a second

        return iso639short.get(code, code)
    return code


def tokenizer_of(language: str, reference: Sequence[str]) -> str:
    """Return the name of sacreBLEU's tokenizer for a language, "char" if it is not installed, or if
    most letters are of scripts without spaces between words: 13a finds no words there."""
    if language in TOKENIZERS:
        try:
            sacrebleu_metric(TOKENIZERS[language])
        except ValueError:
            return "char"
        return TOKENIZERS[language]
    return "char" if is_unspaced(Counter("\n".join(reference))) else "13a"


def is_unspaced(characters: Mapping[str, int]) -> bool:
    """Return whether most letters of a text, given by how often it has each character, are of
    scripts without spaces between words."""
    import regex

    # Unicode's classes of line breaks: SA needs a dictionary, ID and CJ break anywhere. Tibetan is
    # in neither, its syllables are separated, and not its words.
    unspaced = regex.compile(r"(?V1)[\p{L}\p{M}&&[\p{lb=SA}\p{lb=ID}\p{lb=CJ}\p{Tibetan}]]")
    letters = {c: count for c, count in characters.items() if regex.match(r"[\p{L}\p{M}]", c)}
    return 2 * sum(letters[c] for c in letters if unspaced.match(c)) > sum(letters.values())


def tokenizer_in(signature: str) -> str:
    """Return the name of sacreBLEU's tokenizer, which a signature gives with its version."""
    return next((name for name in UNITS if f"|tok:{name}" in signature), "13a")


def sacrebleu_metric(tokenizer: str, lowercase: bool = False) -> BLEU:
    """Return sacreBLEU with its defaults; ValueError says what to install for `tokenizer`."""
    from sacrebleu.metrics import BLEU

    try:  # force: `remarks` has the warning of tokens
        return BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
    except RuntimeError as error:
        command = f"pip install 'sacrebleu[{tokenizer[:2]}]'"
        raise ValueError(f"sacreBLEU's tokenizer {tokenizer} is missing: {command}") from error


def undo_escapes(sentence: str) -> str:
    """Write each entity of HTML, as Moses's tokenizer leaves them, as its character, and each
    hyphen of its option -a as a hyphen."""
    return ENTITY.sub(_character, sentence.replace(HYPHEN, "-"))


def _character(entity: re.Match[str]) -> str:
    once = f"&{entity[2]};"
    # html.unescape would also replace the beginning of a longer name
    return unescape(once) if entity[2][0] == "#" or once[1:] in entities.html5 else once


def remarks(
    names: Sequence[str], sides: Sequence[Sequence[str]], target_lang: str, tokenized: bool = False
) -> Iterator[str]:
    """Yield what makes the scores of some sides doubtful, or other than a reader expects; these are
    the hypothesis and the references."""
    from sacremoses.corpus import NonbreakingPrefixes

    language = language_of(target_lang)
    tokenizer = tokenizer_of(language, sides[1])
    if TOKENIZERS.get(language, tokenizer) != tokenizer:
        command = f"pip install 'sacrebleu[{language}]'"
        yield f"sacreBLEU is of characters: {TOKENIZERS[language]} is missing, {command}"
    if tokenizer == "13a" and language not in NonbreakingPrefixes().available_langs:
        yield f"Moses has no rules for {language!r} and falls back to its English abbreviations"
    if not tokenized:
        for name, side in zip(names, sides, strict=True):
            if count := sum(undo_escapes(line) != line.replace(HYPHEN, "-") for line in side):
                where = f"in {count:,} of {len(side):,} sentences"
                yield f"{name}: entities such as &quot; were undone {where}"
    if tokenizer != "13a":
        return  # which ignores spaces
    looks = [looks_tokenized(side, language) for side in sides]
    other = [name for name, look in zip(names, looks, strict=True) if look is (not tokenized)]
    these, moses = " and ".join(other), f"sacremoses -l {language}"
    if other and tokenized:
        yield f"{these}: not in Moses tokens, which --tokenized expects: {moses} tokenize"
    elif other and len(other) == len(names):
        yield f"{these} look tokenized; if these are Moses tokens, give --tokenized"
    elif other:
        yield f"only {these} looks tokenized; {moses} detokenize makes plain text of it"


def looks_tokenized(sentences: Sequence[str], language: str) -> bool | None:
    """Return whether punctuation stands alone more often than at the end of a word; None if it is
    nowhere or equally often, or if the text is in subwords."""
    import regex

    marks = r"\p{Terminal_Punctuation}"
    alone = rf"[{marks}--[:;!?]]" if language == "fr" else marks  # French has spaces before them
    elided = r"(?<!\S)\p{L}{1,2}['’] (?=\p{L})|(?<=\p{L}) ['’]\p{L}{1,2}(?!\S)"  # l' eau, it 's
    apart = regex.compile(rf"(?V1)(?<!\S)[{alone}\"'()](?!\S)|{elided}|{HYPHEN}")
    # A full stop inside a sentence may be of an abbreviation, which keeps it
    stops = rf"\w(?:[{marks}--.](?!\S)|\.$)|\p{{L}}['’](?=\p{{L}})"
    joined = regex.compile(rf"(?mV1){stops}|[\"(](?=\w)|(?<=\w)[\")]")
    text = "\n".join(ENTITY.sub(_character, sentence).strip() for sentence in sentences)
    found, others = len(apart.findall(text)), len(joined.findall(text))
    return None if found == others or MARK.search(text) else found > others


def paper_bleu(
    hypothesis: Sequence[str],
    *references: Sequence[str],
    target_lang: str,
    quotes: Quotes = "keep",
    lowercase: bool = False,
) -> Bleu:
    """Return the BLEU of Table 2, from Moses tokens separated by spaces. `quotes` says what was
    done with them before they were tokenized; the signature names it."""
    import sacremoses

    compounds = "kept"
    if target_lang == "de":
        compounds = "split"
        hypothesis = [split_compounds(sentence) for sentence in hypothesis]
        references = tuple([*map(split_compounds, side)] for side in references)
    tokens = f"sacremoses-{sacremoses.__version__}-{target_lang}|compounds:{compounds}"
    if quotes == "ascii":  # signatures from before there was this choice name no quotes
        tokens += "|quotes:ascii"
    return token_bleu(hypothesis, *references, name=tokens, lowercase=lowercase)


def token_bleu(*sides: Sequence[str], name: str = "as-given", lowercase: bool = False) -> Bleu:
    """Return BLEU of the tokens of a hypothesis and its references, whose signature calls them
    `name`; fairseq-generate prints it in its last line without --tokenizer, and many papers report
    it."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase, force=True, tokenize="none", smooth_method="none")
    if lowercase:
        sides = tuple([sentence.lower() for sentence in side] for side in sides)
    result = _corpus_bleu(metric, *([*map(_perl_words, side)] for side in sides))
    return replace(result, signature=result.signature.replace("tok:none", f"tok:{name}"))


def _perl_words(sentence: str) -> str:
    """Replace each word by its bytes in hexadecimal: multi-bleu.perl splits at ASCII white space
    only, sacrebleu also at no-break spaces within a word."""
    return " ".join(word.hex() for word in sentence.encode().split())


def _corpus_bleu(metric: BLEU, hypothesis: Sequence[str], *references: Sequence[str]) -> Bleu:
    result = metric.corpus_score(hypothesis, references)
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


def corpus_chrf(
    hypothesis: Sequence[str], *references: Sequence[str], lowercase: bool = False
) -> Chrf:
    """Return sacreBLEU's chrF of detokenized text."""
    from sacrebleu.metrics import CHRF

    metric = CHRF(lowercase=lowercase)
    return Chrf(metric.corpus_score(hypothesis, references).score, str(metric.get_signature()))


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


def quotes_of(target_lang: str) -> Quotes:
    """Return how the paper's BLEU treats quotes: only German's are replaced."""
    return "ascii" if target_lang == "de" else "keep"


def replace_in_hypothesis(sentence: str) -> str:
    """Replace what replace-unicode-punctuation does: “ and ” by ", ’ by ', … by three dots."""
    return _moses().replace_unicode_punct(sentence)


def replace_in_reference(sentence: str) -> str:
    """Replace the same as in a hypothesis, and every other Unicode quote by an ASCII one."""
    return replace_in_hypothesis(sentence).translate(AS_ASCII)


@cache
def _moses() -> MosesPunctNormalizer:
    from sacremoses import MosesPunctNormalizer

    return MosesPunctNormalizer()
