"""What fairseq gets wrong, and a training, a search or a user must be protected from: a file per
fault, and PATCHES, which says what is replaced by what, and why.

plugin/ installs them, `aiayn repairs` lists them, and AIAYN_REPAIRS leaves them out. What is here
works for stock models, too, and may import anything but plugin/, report/ and cli/.
"""
