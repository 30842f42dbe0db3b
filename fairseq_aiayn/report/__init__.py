"""Pages on runs of the recipes: tables, curves and texts, as HTML, Markdown and JSON.

cli/ and recipes/table3 write them. It imports runs, diagnosis, scores, treebank, settings and
paper; no training and no model is needed for a page.
"""
