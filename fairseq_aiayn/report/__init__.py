"""Pages on runs of the recipes: tables, curves and texts, as HTML, Markdown and JSON."""
