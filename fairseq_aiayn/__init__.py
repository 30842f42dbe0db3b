"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017) as a plugin of fairseq."""

import sys

# --user-dir imports this package from within fairseq: then everything registers. Outside fairseq
# (the aiayn command) nothing is loaded that is not needed: fairseq alone takes
# seconds to import.
if "fairseq" in sys.modules:
    from fairseq_aiayn import plugin  # noqa: F401
