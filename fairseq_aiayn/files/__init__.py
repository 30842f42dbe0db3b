"""Reading text and JSON, formatting tables, and writing files whole or not at all."""
