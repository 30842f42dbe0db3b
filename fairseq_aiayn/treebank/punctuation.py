"""The tags of punctuation, without which EVALB could not leave it out of a predicted tree.

EVALB deletes the words tagged , : `` '' and . from both trees; if other words are left then, the
sentence is an error and does not count. So it matters most that a form is deleted where the
treebank's is; which of the five tags it gets matters only for tagging accuracy.

Doubtful forms, as their tags were counted in a part of the WSJ (3,396 sentences) and in all of GUM
(13,263):

"  opens and closes equally often; both of its tags are deleted
'  has none: in the WSJ it is a possessive six times in seven, in GUM a quote three times in four.
   So one sentence in 380 of the WSJ and one in 240 of GUM is an error; as a quote it would be one
   in 60 and one in 290
’  has none, as it is more often a possessive
-  has none: GUM has it between the parts of a compound (HYPH) in 1,040 of 1,204 places, the WSJ
   hardly ever by itself
-- and the dashes – and — are ":", as in all of the WSJ; GUM has HYPH or SYM for 62 of 982
(  and the other brackets have none: EVALB does not delete -LRB- and -RRB-
"""

from __future__ import annotations

FORMS = {
    ",": (",",),
    ".": (".", "?", "!"),
    ":": (":", ";", "--", "–", "—", "––", "..", "...", "…", "•"),
    "``": ("``", "`", "“", "‘"),
    "''": ("''", '"', "”"),
}
TAG_OF = {form: tag for tag, forms in FORMS.items() for form in forms}
# Deleted in some sentences and counted in others: here the tag that a model gives decides.
EITHER = frozenset(("'", "’", "-", "--", "–", "—"))
COUNTED = "XX"


def punctuation_tag(form: str) -> str | None:
    """Return the tag under which EVALB deletes a word that is punctuation, None for any other."""
    return TAG_OF.get(form)


def fitting_tag(tag: str, form: str) -> str:
    """Return a word's tag, or another if EVALB would count punctuation or delete a word for it.

    One tag of a sequence too many or too few shifts all that follow, and a sentence in which other
    words are deleted than in gold is an error for EVALB: its brackets would not count at all. Of
    gold's own words it changes 3 of 233,926 in GUM and 1 of 81,793 in that part of the WSJ, each in
    a sentence of its own.
    """
    if form in EITHER:
        return tag
    punctuation = TAG_OF.get(form)
    if punctuation is not None:
        return tag if tag in FORMS else punctuation
    return COUNTED if tag in FORMS and any(map(str.isalnum, form)) else tag
