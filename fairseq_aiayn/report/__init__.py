"""Pages on runs of the recipes: tables, curves and texts, as HTML, Markdown and JSON.

cli/ and recipes/table3 write them. It imports runs, diagnosis, scores, treebank, settings and
paper; a page needs no training and no model.
"""
