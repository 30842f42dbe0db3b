"""Plain text cut into the tokens and pieces that models read (section 5.1)."""
