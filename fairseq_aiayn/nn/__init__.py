"""Section 3 of the paper, one file per part: attention, layers, the stacks and their assembly, the
decoder's state, initial values, and what depends on the device.

The shape letters; the batch dimension always comes first:

    B   sentences in a batch            V   size of a vocabulary
    L   length of a sequence; S of a source sequence, T of a target sequence
    Q   number of queries of an attention; M number of its keys
    N, d_model, d_ff, h, d_k, d_v, P_drop: as in the paper

Masks are boolean and True where attention is allowed; what a stack's layers get is made of them
once, `barred`: 0 where it is allowed, −∞ elsewhere. Every room with a model uses nn, which
imports nothing but torch.
"""
