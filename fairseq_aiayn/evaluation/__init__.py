"""Scores and costs, as sections 5 and 6 report them."""
