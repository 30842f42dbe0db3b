"""Section 6.1 of the paper: beam search with a length penalty."""
