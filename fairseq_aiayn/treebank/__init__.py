"""Constituency trees for section 6.3: reading, linearising, scoring. No torch, no fairseq."""
