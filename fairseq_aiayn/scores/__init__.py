"""Scores of translations: BLEU, its significance, and where systems disagree."""
