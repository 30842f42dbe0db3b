"""A trained model in one folder, with all that plain text needs; nothing here imports fairseq."""
