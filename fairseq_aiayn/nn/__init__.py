"""Section 3 of the paper, file by file in its order: attention, feed-forward, embeddings,
positions, residual, stacks.

Legend of the shape letters, batch first everywhere:

    B   sentences in a batch            V   types of a vocabulary
    L   length of a sequence; S of a source, T of a target sequence
    Q   number of queries, M number of keys of an attention
    N, d_model, d_ff, h, d_k, d_v, P_drop: as in the paper

Masks are boolean and True where attention is allowed.
"""
