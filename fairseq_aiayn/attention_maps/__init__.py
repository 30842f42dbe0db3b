"""Attention weights, as a page and a picture (Figures 3-5), and positional encodings (section 3.5).

cli/, inference/pytorch.py and plugin/ call it: the weights' hooks know no model but nn's, and what
is drawn knows no engine. Its files import one another in this order: weights, then page and picture
(which needs matplotlib, an extra). Of the other rooms, it may import nn and corpus.
"""
