"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017) as a plugin of fairseq."""

import sys

# With --user-dir, fairseq imports this package, and everything must be registered. Outside fairseq
# (the aiayn command) the plugin is not loaded, because importing fairseq alone takes seconds.
if "fairseq" in sys.modules:
    from fairseq_aiayn import plugin  # noqa: F401
