"""Table 1, measured: what layers cost, and how far a signal travels in one."""
