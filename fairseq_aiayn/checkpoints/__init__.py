"""fairseq's checkpoints: reading them safely, averaging them (section 6.1)."""
