"""From raw parallel text to subword pieces (section 5.1); recipes run these modules as scripts."""
