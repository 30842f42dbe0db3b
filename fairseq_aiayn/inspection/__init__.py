"""To look at: attention weights and positional encodings as pictures (section 3.5, Figures 3-5)."""
