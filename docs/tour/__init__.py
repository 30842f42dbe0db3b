"""The experiments of docs/tour.md, one module per part of the paper; `make tour` runs them all.

They use the model, the loss and the search directly, with PyTorch and without fairseq.
"""
