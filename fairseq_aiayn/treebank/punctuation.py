"""The tags of punctuation, by which EVALB leaves punctuation out of a predicted tree.

EVALB deletes the words tagged , : `` '' and . from both trees. If different words are left in the
two trees, the sentence is an error and does not count. So the most important thing is to delete a
form exactly where the treebank's tag deletes it. Which of the five tags it gets matters only for
tagging accuracy.

These forms are doubtful. Their tags were counted in a part of the WSJ (3,396 sentences) and in all
of GUM (13,263 sentences):

"  opens and closes equally often; both of its tags are deleted
'  has no tag here: it is a possessive six times in seven in the WSJ, and a quotation mark three
   times in four in GUM. So one sentence in 380 of the WSJ and one in 240 of GUM is an error; with
   the tag of a quotation mark it would be one in 60 and one in 290
’  has no tag here, because it is more often a possessive
-  has no tag here: in GUM it joins the parts of a compound (HYPH) in 1,040 of 1,204 places, and in
   the WSJ it hardly ever occurs by itself
-- and the dashes – and — are ":", as always in the WSJ; GUM tags 62 of 982 as HYPH or SYM
(  and the other brackets have no tag here: EVALB does not delete -LRB- and -RRB-
%  has no tag here, nor have $ & # / and @: neither treebank ever deletes them
"""

from __future__ import annotations

FORMS = {
    ",": (",",),
    ".": (".", "?", "!"),
    ":": (":", ";", "--", "–", "—", "––", "..", "...", "…", "[...]", "•"),
    "``": ("``", "`", "“", "‘"),
    "''": ("''", '"', "”"),
}
TAG_OF = {form: tag for tag, forms in FORMS.items() for form in forms}
# Treebanks delete these in some sentences and count them in others, so the model's tag decides.
EITHER = frozenset(("'", "’", "-", "--", "–", "—"))
NOT_OF_WORDS = frozenset(("-NONE-", "TOP"))  # of traces and the root: EVALB deletes these, too
COUNTED = "XX"


def punctuation_tag(form: str) -> str | None:
    """Return the tag that makes EVALB delete a punctuation mark; None for any other word."""
    return TAG_OF.get(form)


def fitting_tag(tag: str, form: str) -> str:
    """Return the tag of a word, or a different tag if EVALB would count a punctuation mark or
    delete a word because of it.

    One tag too many or too few in a sequence shifts all tags that follow. If EVALB then deletes
    words that it keeps in the gold tree, or keeps words that it deletes there, the sentence is an
    error and its brackets do not count. In gold trees this function changes the tags of 5 of
    233,926 words in GUM and of 1 of 81,793 words in the part of the WSJ; no two of them are in the
    same sentence.
    """
    if form in EITHER:
        return COUNTED if tag in NOT_OF_WORDS else tag
    if form in TAG_OF:
        return tag if tag in FORMS else TAG_OF[form]
    return COUNTED if tag in FORMS or tag in NOT_OF_WORDS else tag
