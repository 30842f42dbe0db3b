"""A row's regime (section 5) as options of fairseq's commands; nothing here imports fairseq."""
