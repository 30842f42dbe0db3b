"""Trained models on plain text: their folder, their export, and two engines that search with them.

cli/, plugin/stock_models.py and fairseq_aiayn.load call it; fairseq has no place in it. Its files
import one another in this order: description, engine, pytorch and ctranslate2 (which needs no
torch), folder, export. Of the other rooms, it may import nn, decoding, treebank, corpus,
checkpoints, runs and attention_maps.weights.
"""
