"""How good translations are: BLEU, its significance, where two systems disagree."""
