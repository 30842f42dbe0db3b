"""Quotes as the authors' script has them: against Moses's Perl script, and Unicode's own list."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest
import regex

from fairseq_aiayn.scores import escape, replace_in_hypothesis, replace_in_reference

# fairseq ships Moses's script, as it is since October 2019. Until then １ became a quote.
SCRIPT = "examples/wmt21/scripts/replace-unicode-punctuation.perl"
BLOCKS = (0x80, 0x2000, 0x2200, 0x2500, 0x3000, 0xFF00)  # of Unicode, that have punctuation

QUOTES = regex.findall(r"\p{Quotation_Mark}", "".join(map(chr, range(0x10000))))


@pytest.mark.skipif(shutil.which("perl") is None, reason="needs perl")
def test_perl_replaces_the_same_in_a_hypothesis():
    fairseq = importlib.util.find_spec("fairseq").origin
    lines = [f"a {chr(first + place)} b" for first in BLOCKS for place in range(128)]
    done = subprocess.run(
        ["perl", Path(fairseq).parent / SCRIPT],
        input="\n".join(lines).encode(),
        capture_output=True,
        check=True,
    )
    replaced = [replace_in_hypothesis(line) for line in lines]
    assert done.stdout.decode().split("\n") == replaced
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


def test_tokens_are_escaped_once():
    assert escape("\" ' < > [ ] &amp; &quot;") == (
        "&quot; &apos; &lt; &gt; &#91; &#93; &amp; &quot;"
    )
