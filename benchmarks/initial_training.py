"""fairseq-train, the plugin's feed-forward matrices drawn as they are or by torch.nn.Linear.

    python benchmarks/initial_training.py as_it_is|linear DATA OPTIONS...    (initialization.py)

torch.nn.Linear, and with it stock fairseq, draws uniformly within ±1/√fan_in, biases too.
"""

from __future__ import annotations

import sys

import fairseq  # noqa: F401  the plugin registers only where fairseq is there before it
from torch import nn

from fairseq_aiayn.nn import transformer
from fairseq_aiayn.nn.feed_forward import FeedForward

drawn_by_plugin = transformer.initialize


def drawn_by_linear(module: nn.Module) -> None:
    """What the plugin draws, but for the feed-forward networks; `apply` comes to them last."""
    drawn_by_plugin(module)
    if isinstance(module, FeedForward):
        module.W_1.reset_parameters()
        module.W_2.reset_parameters()


def main() -> None:
    kind, *options = sys.argv[1:]
    if kind == "linear":
        transformer.initialize = drawn_by_linear
    sys.argv = ["fairseq-train", *options]
    from fairseq_cli.train import cli_main

    cli_main()


if __name__ == "__main__":
    main()
