"""Pictures of attention weights (Figures 3-5) and positional encodings (section 3.5)."""
