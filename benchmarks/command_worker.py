"""A worker that is one of fairseq's commands, with its time and memory at the end.

    python benchmarks/command_worker.py cpu fairseq-generate DATA OPTIONS...

The answer has its seconds and its peak memory; the command's output goes to the log.
"""

from __future__ import annotations

import importlib
import sys

from turn_taking import Channel, Watch, find_device

MODULES = {"fairseq-generate": "fairseq_cli.generate", "fairseq-train": "fairseq_cli.train"}


def main() -> None:
    channel = Channel()
    watch = Watch(find_device(sys.argv[1]))
    sys.argv = sys.argv[2:]
    importlib.import_module(MODULES[sys.argv[0]]).cli_main()
    sys.stdout.flush()
    channel.answer(watch.read())


if __name__ == "__main__":
    main()
