"""fairseq's checkpoints: read safely, averaged (section 6.1)."""
