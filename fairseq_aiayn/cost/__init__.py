"""The cost of a row: parameters, FLOPs, memory, GPUs; rows as tables."""
