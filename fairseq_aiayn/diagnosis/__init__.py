"""In what a training differs from the paper's, what that costs, and what to change."""
