"""How long tests wait for what should happen soon: longer than the busiest machine needs."""

PATIENCE = 300  # seconds
