"""What a row costs: parameters, FLOPs, memory, GPUs; rows as tables."""
