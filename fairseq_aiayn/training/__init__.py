"""Section 5 of the paper: the loss and the learning rate."""
