"""The entry point for fairseq: importing it registers the architectures, the criterion, the
learning-rate schedule, the optimizer and the tasks, and installs the repairs."""

from fairseq_aiayn.nn.kept_shapes import keep_few_shapes
from fairseq_aiayn.plugin import (
    model,  # noqa: F401
    parsing,  # noqa: F401
    peak_memory,
    training,  # noqa: F401
    translation,  # noqa: F401
)
from fairseq_aiayn.repairs.patches import install

keep_few_shapes()
peak_memory.log_at_the_end()
install()
