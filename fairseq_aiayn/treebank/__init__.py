"""Constituency trees for section 6.3: reading, linearizing, scoring. No torch, no fairseq."""
