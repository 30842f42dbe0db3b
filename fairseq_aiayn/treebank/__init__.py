"""Constituency trees for section 6.3: reading, linearizing, scoring.

plugin/, inference/, runs/, report/ and cli/ use it. It imports files, neither torch nor fairseq.
"""
