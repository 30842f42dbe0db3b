"""From raw parallel text to pieces (section 5.1); the recipes run these modules as scripts."""
