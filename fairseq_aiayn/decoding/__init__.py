"""Section 6.1 of the paper: beam search with a length penalty.

inference/ and plugin/ search with it. It imports nn, paper and torch; a model reaches it as
Continuations, which a tree's constraint wraps.
"""
