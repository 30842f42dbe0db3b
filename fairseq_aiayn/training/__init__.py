"""Section 5 of the paper: what is minimised and at which rate."""
