"""From raw parallel text to subword pieces (section 5.1); recipes run these modules as scripts.

inference/, attention_maps/, diagnosis/, plugin/ and cli/ use its tokenizers, manifests and marks of
pieces. It imports files and console, and neither torch nor fairseq.
"""
