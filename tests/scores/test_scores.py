"""The paper's BLEU against arithmetic done by hand; compounds; quotes as by Moses's script."""

import importlib.util
import math
import shutil
import subprocess
from pathlib import Path

import pytest
import regex
from sacrebleu.metrics import BLEU, CHRF
from sacremoses import MosesTokenizer

from fairseq_aiayn.scores import (
    Bleu,
    looks_tokenized,
    paper_bleu,
    remarks,
    replace_in_hypothesis,
    replace_in_reference,
    require_sentence,
    score,
    split_compounds,
)


def mean(*precisions: float) -> float:
    return 100 * math.prod(precisions) ** (1 / 4)


def english(hypothesis: str, reference: str) -> Bleu:
    return paper_bleu([hypothesis], [reference], target_lang="en")


def test_a_length_is_penalized_once() -> None:
    """A short hypothesis by the brevity penalty, a long one by its precisions, none of the same."""
    short = english("a b c d e", "a b c d e f g h")
    assert short.precisions == (100, 100, 100, 100)
    assert short.score == pytest.approx(100 * short.brevity_penalty)
    assert short.brevity_penalty == pytest.approx(math.exp(1 - 8 / 5))
    assert (short.hypothesis_length, short.reference_length) == (5, 8)
    long = english("a b c d e f g h", "a b c d e")
    assert (long.brevity_penalty, long.length_ratio) == (1, pytest.approx(8 / 5))
    assert long.score == pytest.approx(mean(5 / 8, 4 / 7, 3 / 6, 2 / 5))
    assert english("a b c d e", "a b c d e").score == pytest.approx(100)


def test_counts_are_summed_over_the_corpus_before_they_are_divided() -> None:
    """Case counts, too."""
    result = paper_bleu(["a b c d", "a b c D"], ["a b c d", "a b c d"], target_lang="en")
    assert result.score == pytest.approx(mean(7 / 8, 5 / 6, 3 / 4, 1 / 2))


def test_only_ascii_white_space_separates_tokens_as_in_perl() -> None:
    odd = "10\u00a0\u2028\x1c%"
    result = english(f"{odd} a b\tc d", f"{odd} a b\tc e")
    assert result.score == pytest.approx(mean(4 / 5, 3 / 4, 2 / 3, 1 / 2))
    assert (result.hypothesis_length, result.reference_length) == (5, 5)


def test_an_empty_hypothesis_still_counts_its_reference() -> None:
    result = paper_bleu(["a b c d", ""], ["a b c d", "e f g h"], target_lang="en")
    assert result.score == pytest.approx(100 * math.exp(1 - 8 / 4))
    assert score([""], ["Nichts da ."], "de").paper.score == 0


def test_compounds_are_split_for_german_and_not_for_french() -> None:
    hypothesis, reference = ["das ist rich-text hier"], ["das ist rich-editor hier"]
    german = paper_bleu(hypothesis, reference, target_lang="de")
    # das ist rich ##AT##-##AT## text hier | das ist rich ##AT##-##AT## editor hier
    assert german.score == pytest.approx(mean(5 / 6, 3 / 5, 2 / 4, 1 / 3))
    assert "|compounds:split|" in german.signature
    french = paper_bleu(hypothesis, reference, target_lang="fr")
    assert french.precisions == pytest.approx((75, 100 / 3, 0, 0))
    assert french.score == 0  # unsmoothed: one precision of zero is enough
    assert "|compounds:kept|" in french.signature


# A match takes the character on each side of a hyphen, and the next match starts after it. So in
# a-b-c the b is used up when the second hyphen comes, while in ab-cd-ef each hyphen has two
# characters of its own. perl reads bytes: of ü (two of them) the second is still there for the
# next hyphen, and white space beyond ASCII is no white space.
SPLITS = {
    "rich-text": "rich ##AT##-##AT## text",
    "ab-cd-ef": "ab ##AT##-##AT## cd ##AT##-##AT## ef",
    "a-b-c": "a ##AT##-##AT## b-c",
    "a-b-c-d": "a ##AT##-##AT## b-c ##AT##-##AT## d",
    "a-ü-c": "a ##AT##-##AT## ü ##AT##-##AT## c",
    "a--b": "a ##AT##-##AT## -b",
    "\u00a0-x": "\u00a0 ##AT##-##AT## x",
    "- a -b c- d": "- a -b c- d",
}


def test_compounds_are_split_as_in_earlier_work() -> None:
    """As by perl -ple 's{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g', which made the table."""
    assert {word: split_compounds(word) for word in SPLITS} == SPLITS


PLAIN = ["„Ein Rich-Text, z.B. dieser“ & mehr.", "Es sind: 1.000 Euro!"]
TOKENS = ["„ Ein Rich-Text , z.B. dieser “ &amp; mehr .", "Es sind : 1.000 Euro !"]


def test_tokens_and_plain_text_give_the_same_scores() -> None:
    reference = [line.replace("1", "2").replace("Ein", "Der") for line in PLAIN]
    reference_tokens = [line.replace("1", "2").replace("Ein", "Der") for line in TOKENS]
    for quotes in ("ascii", "keep"):
        plain = score(PLAIN, reference, "de", quotes)
        assert 0 < plain.paper.score < 100
        assert plain.paper.signature.startswith("nrefs:1|case:mixed|eff:no|tok:sacremoses-")
        assert "|tok:13a|smooth:exp|version:" in plain.sacrebleu.signature
        assert score(TOKENS, reference_tokens, "de", quotes, tokenized=True) == plain


AGGRESSIVE = (
    ["Der vier @-@ jährige Plan .", "Die Ost @-@ West @-@ Frage „ blieb “ ."],
    ["Der vier @-@ jährige Plan .", "Die Ost @-@ West @-@ Frage „ bleibt “ ."],
)


def test_hyphens_of_the_aggressive_tokenizer_change_no_score() -> None:
    """Breaks if one side keeps them, or if they are undone after compounds are split."""
    kept = [[line.replace(" @-@ ", "-") for line in side] for side in AGGRESSIVE]
    expected = score(*kept, "de", tokenized=True)
    assert 0 < expected.paper.score < 100
    assert score(*AGGRESSIVE, "de", tokenized=True) == expected
    assert score(AGGRESSIVE[0], kept[1], "de", tokenized=True) == expected
    assert score(*AGGRESSIVE, "de") == score(*kept, "de")


def test_an_empty_reference_is_scored_as_sacrebleu_scores_it() -> None:
    hypothesis = ["Ein Hund schläft hier im Haus.", "", "Die Katze sah den Vogel dort."]
    reference = [*hypothesis[:2], "Die Katze sieht den Vogel dort."]
    found = score(hypothesis, reference, "de")
    assert found.sentences == 3
    assert found.sacrebleu.score == BLEU().corpus_score(hypothesis, [reference]).score
    assert found.paper.reference_length == 7 + 7
    added = score(["Nein .", *hypothesis], ["", *reference], "de")
    assert added.paper.hypothesis_length == found.paper.hypothesis_length + 2
    assert added.paper.score < found.paper.score


# A sentence and its beginning; sacreBLEU's tokens, those of 13a where it finds words
SCRIPTS = {
    "zh": ("他很喜欢看书。", "zh"),
    "de": ("Der Hund schläft im Haus.", "13a"),
    "tr": ("Köpek Ali'nin evinde uyuyor.", "13a"),
    "hi": ("कुत्ता बड़े घर में सोता है।", "13a"),
    "ur": ("کتا بڑے گھر میں ہے۔", "13a"),
    "uk": ("Сім'я спить у великому домі.", "13a"),
    "xx": ("Hund 中文 im großen Haus", "13a"),
    "th": ("สุนัขนอนหลับอยู่ในบ้านหลังใหญ่", "char"),
    "lo": ("ໝານອນຢູ່ໃນເຮືອນ", "char"),
    "km": ("ឆ្កែកំពុងដេកនៅក្នុងផ្ទះ។", "char"),
    "my": ("ခွေးသည် အိမ်ထဲတွင် အိပ်နေသည်။", "char"),
    "dz": ("ཁྱི་འདི་ཁྱིམ་ནང་ཉལ་དོ།", "char"),
    "yue": ("隻狗喺屋企瞓覺。", "char"),
}


@pytest.mark.parametrize("language", SCRIPTS)
def test_text_without_words_is_scored_by_its_characters(language: str) -> None:
    """Or by its language's own tokens, as by sacrebleu's own command; other text also by Moses's
    tokens, if need be by English rules."""
    text, tokenizer = SCRIPTS[language]
    found = score([text[:-4], text], [text, text], f"{language}_XX")
    metric = BLEU(tokenize=tokenizer)
    sides = [text[:-4], text], [[text, text]]
    assert found.sacrebleu.score == metric.corpus_score(*sides).score
    assert 0 < found.sacrebleu.score < 100
    assert found.sacrebleu.signature == str(metric.get_signature())
    assert found.chrf.score == CHRF().corpus_score(*sides).score
    assert (found.paper is None) == (tokenizer != "13a")
    assert score([text[:-4], text], [text, text], language) == found
    if tokenizer == "13a":
        assert f"-{language}|" in found.paper.signature
        fallback = any("English" in line for line in remarks("hr", [[text]] * 2, language))
        assert fallback == (language in ("tr", "ur", "uk", "xx"))
    else:
        assert score(sides[0], sides[1][0], language, tokenized=True) == found


@pytest.mark.parametrize("language", ["zh", "ja", "ko"])
def test_tokens_are_sacrebleus_for_the_language_or_characters(language: str) -> None:
    lines = [*remarks("hr", [["a"], ["a"]], f"{language}-CN")]
    try:
        tokenizer = BLEU(trg_lang=language).tokenizer.signature()
        assert not lines
    except RuntimeError:
        tokenizer = "char"
        assert f"pip install 'sacrebleu[{language}]'" in lines[0]
    found = score(["a"], ["a"], language)
    assert f"|tok:{tokenizer}|" in found.sacrebleu.signature and found.paper is None


QUOTED = ['Er sagte: "Das ist <wahr>" & [ging].', "Müller|Söhne: d'accord, l'homme."]
ENTITIES = str.maketrans({"&": "&amp;", '"': "&#34;", "'": "&#x27;", "<": "&lt;", "|": "&#124;"})


@pytest.mark.parametrize("language", ["de", "fr", "en", "tr"])
@pytest.mark.parametrize("quotes", ["ascii", "keep"])
@pytest.mark.parametrize("tokenized", [False, True])
def test_entities_are_undone_on_each_side(language, quotes, tokenized) -> None:
    """Breaks if one kind stays, or if tokens with and without entities differ. What is no entity
    stays."""
    plain = [*QUOTED, "R&D; ?a=1&copy=2 &notit;"]
    if tokenized:
        tokenize = MosesTokenizer(language).tokenize
        plain = [tokenize(line, return_str=True, escape=False) for line in plain]
    escaped = [line.translate(ENTITIES) for line in plain[:2]] + plain[2:]
    twice = [line.replace("&", "&amp;") for line in escaped[:2]] + plain[2:]
    changed = [line.replace("ging", "kam") for line in plain]
    expected = score(plain, changed, language, quotes, tokenized)
    assert 0 < expected.paper.score < 100
    for side in (escaped, twice):
        assert score(side, changed, language, quotes, tokenized) == expected
        assert score(side, escaped, language, quotes, tokenized).paper.score == pytest.approx(100)
        lines = " ".join(remarks(["hyp", "ref"], [side, plain], language, tokenized))
        assert (
            "hyp: entities such as &quot; were undone in 2 of 3 sentences" in lines
        ) != tokenized
        assert "ref: entities" not in lines


# In each language, text with a mark that its tokens set apart
LOOKS = {
    "de": "Am 5. Mai sagte er, z.B. am 7. Juni, ja.",
    "en": "It's the boys' house.",
    "fr": "L'homme n'est pas là : « ça va ? »",
    "it": "L'acqua",
    "tr": "Ali'nin (1987)",
    "pt": "Não?",
    "ar": "هذا بيت، وهو كبير",
    "hi": "यह घर है।",
    "ur": "کتا ہے۔",
    "uk": '"Сім\'я"',
}


@pytest.mark.parametrize("language", LOOKS)
def test_tokens_are_told_from_plain_text(language: str) -> None:
    tokens = MosesTokenizer(language).tokenize(LOOKS[language], return_str=True)
    plain, tokens = [LOOKS[language], "und"], [tokens, "und"]
    assert looks_tokenized(plain, language) is False
    assert looks_tokenized(tokens, language) is True

    def said(*sides: list[str], tokenized: bool = False) -> str:
        lines = remarks(["h", "r"], sides, language, tokenized)
        return " ".join(line for line in lines if "oken" in line)

    assert said(plain, plain) == said(tokens, tokens, tokenized=True) == ""
    assert said(["und"], ["und"]) == said(["und"], ["und"], tokenized=True) == ""
    assert said(tokens, plain).startswith("only h looks tokenized")
    assert said(plain, tokens).startswith("only r looks tokenized")
    assert said(tokens, tokens).startswith("h and r look tokenized")
    assert said(tokens, plain, tokenized=True).startswith("r: not in Moses tokens")
    assert said(plain, plain, tokenized=True).startswith("h and r: not in Moses tokens")


@pytest.mark.parametrize("pieces", ["I t @@' s , a b@@ c .", "▁It ' s , ▁a b c ."])
def test_text_in_subwords_is_not_said_to_become_plain_by_detokenizing(pieces: str) -> None:
    assert not [*remarks(["h", "r"], [[pieces], ["It's, a bc."]], "en")]


@pytest.mark.parametrize(
    ("kinds", "asked", "first", "command"),
    [
        ("STHDP", "D", "S", "grep ^D- {} | sort -V | cut -f 3-"),
        ("STHP", "D", "S", "grep ^H- {} | sort -V | cut -f 3-"),  # detokenized only by --tokenizer
        ("HD", "D", "H", "grep ^D- {} | sort -V | cut -f 3-"),
        ("STHDP", "H", "S", "grep ^H- {} | sort -V | cut -f 3-"),
        ("STHP", "T", "S", "grep ^T- {} | sort -V | cut -f 2-"),
        ("SHH", "D", "S", "grep ^H- {} | awk '!seen[$1]++' | sort -V | cut -f 3-"),
    ],
)
def test_what_is_extracted_is_in_the_file(tmp_path, kinds, asked, first, command) -> None:
    """Breaks if the command that is advised writes an empty file."""
    path = tmp_path / "out"
    path.write_text("".join(f"{kind}-0\t-1\ta\n" for kind in kinds), encoding="utf-8")
    with pytest.raises(ValueError, match=f"got {first}-0 of fairseq-generate") as refused:
        require_sentence("hypothesis", f"{first}-0\t-1\ta", str(path), asked)
    assert command.format(path) + " > hypothesis.txt" in str(refused.value)


def test_several_references_are_scored_as_multi_bleu_does() -> None:
    """The closest length counts, of equally close ones the shorter, and an n-gram as often as in
    the reference that has it most often."""
    others = [["a b c d x y", "k"], ["a a q r s", "k"]]
    found = paper_bleu(["a a b c d", "k"], *others, target_lang="en")
    # a (twice), b, c, d, k of 6; a a, a b, b c, c d of 4; a b c, b c d of 3; a b c d of 2
    assert found.score == pytest.approx(mean(6 / 6, 4 / 4, 2 / 3, 1 / 2))
    assert (found.hypothesis_length, found.reference_length) == (6, 6)
    assert paper_bleu(["a b c"], ["a b"], ["a b c d"], target_lang="en").reference_length == 2
    hypothesis, first, second = ["Ein Hund schläft."], ["Der Hund schläft."], ["Ein Hund ruht."]
    both = score(hypothesis, first, "de", others=[second])
    assert both.sacrebleu.score == BLEU().corpus_score(hypothesis, [first, second]).score
    assert both.chrf.score == CHRF().corpus_score(hypothesis, [first, second]).score
    assert all("nrefs:2" in each.signature for each in (both.paper, both.sacrebleu, both.chrf))
    assert score(hypothesis, first, "de").paper.score == 0 < both.paper.precisions[2]


def test_lower_case_is_of_all_measures() -> None:
    sides = ["ÄRGER im haus Der Stadt"], ["ärger Im Haus der Stadt"]
    found = score(*sides, "de", lowercase=True)
    for each in (found.paper, found.sacrebleu, found.chrf):
        assert each.score == pytest.approx(100) and "case:lc" in each.signature
    mixed = score(*sides, "de")
    for each in (mixed.paper, mixed.sacrebleu, mixed.chrf):
        assert each.score < 100 and "case:mixed" in each.signature


def test_a_german_reference_is_scored_with_ascii_quotes() -> None:
    """Breaks if „ stays in the reference, or if what Moses leaves in a hypothesis is replaced."""
    reference = ["Er sagt „ja“, sie nein"]  # er sagt &quot; ja &quot; , sie nein: 8 tokens
    ascii_quotes = score(['Er sagt "ja", sie nein'], reference, "de")
    assert ascii_quotes.paper.score == pytest.approx(100)
    assert "|compounds:split|quotes:ascii|smooth:none|" in ascii_quotes.paper.signature
    low = score(["Er sagt „ja“, sie nein"], reference, "de")  # the third token is wrong
    assert low.paper.score == pytest.approx(mean(7 / 8, 5 / 7, 3 / 6, 2 / 5))
    assert low.sacrebleu.score == pytest.approx(100)  # of the text as it is


def test_french_quotes_are_kept_unless_ascii_is_asked_for() -> None:
    hypothesis, reference = ['il dit "oui" à tous'], ["il dit « oui » à tous"]
    assert score(hypothesis, reference, "fr") == score(hypothesis, reference, "fr", "keep")
    assert "quotes" not in score(hypothesis, reference, "fr").paper.signature
    assert score(hypothesis, reference, "fr").paper.precisions[0] == pytest.approx(100 * 5 / 7)
    replaced = score(hypothesis, reference, "fr", "ascii").paper
    assert replaced.score == pytest.approx(100)
    assert "|compounds:kept|quotes:ascii|" in replaced.signature


def test_what_cannot_be_scored_is_refused() -> None:
    for name in ("deutsch", "german", "", "d", "de_", "_de", "x-klingon", "de fr", "日本"):
        with pytest.raises(ValueError, match="expected a code such as de or pt_BR, got"):
            score(["a"], ["a"], name)
    for code in ("pt_BR", "PT", "por_Latn", "pt@latin", "pt_BR.UTF-8"):
        assert score(["a b"], ["a c"], code) == score(["a b"], ["a c"], "pt")
    for reference in (["a", "b"], []):
        with pytest.raises(ValueError, match="same number of sentences .* at least one"):
            score(["a"] * min(1, len(reference)), reference, "de")


# fairseq ships Moses's script, as it is since October 2019. Until then １ became a quote.
SCRIPT = "examples/wmt21/scripts/replace-unicode-punctuation.perl"
BLOCKS = (0x80, 0x2000, 0x2200, 0x2500, 0x3000, 0xFF00)  # of Unicode, that have punctuation

QUOTES = regex.findall(r"\p{Quotation_Mark}", "".join(map(chr, range(0x10000))))


@pytest.mark.skipif(shutil.which("perl") is None, reason="needs perl")
def test_perl_replaces_the_same_in_a_hypothesis():
    fairseq = importlib.util.find_spec("fairseq").origin
    lines = [f"a {chr(first + place)} b" for first in BLOCKS for place in range(128)]
    command = ["perl", Path(fairseq).parent / SCRIPT]
    printed = subprocess.check_output(command, input="\n".join(lines).encode())
    replaced = [replace_in_hypothesis(line) for line in lines]
    assert printed.decode().split("\n") == replaced
    assert sum(new != old for new, old in zip(replaced, lines, strict=True)) > 30


@pytest.mark.parametrize(
    ("plain", "hypothesis", "reference"),
    [
        ("„Ja“, sagt er.", '„Ja", sagt er.', '"Ja", sagt er.'),  # no mark changes places
        ("»Ja« und «Ja»", "»Ja« und «Ja»", '"Ja" und "Ja"'),
        ("Andreas’ Hund geht’s gut…", "Andreas' Hund geht's gut...", "Andreas' Hund geht's gut..."),
    ],
)
def test_the_reference_loses_the_quotes_that_the_script_leaves(plain, hypothesis, reference):
    assert replace_in_hypothesis(plain) == hypothesis
    assert replace_in_reference(plain) == reference


def test_no_quote_of_unicode_stays_in_the_reference():
    for quote in QUOTES:
        assert replace_in_reference(f"a{quote}b") == ("a'b" if quote in "'’" else 'a"b')
