"""A worker that is fairseq-train in turns: a turn includes all that it does between two updates.

    python benchmarks/training_worker.py cpu DATA OPTIONS...    (started by training_turns.py)

It waits before an update for the order {"updates": N}, and answers when the next update would
begin. So a turn has N times all that fairseq does for an update, including data, logging and
schedule. The first answer comes after the first update.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter

from turn_taking import Channel, Device, Watch, find_device


class Turns:
    """Counts updates, and stops before those that nobody has ordered yet."""

    def __init__(self, channel: Channel, device: Device):
        self._channel = channel
        self._device = device
        self._watch: Watch | None = None  # None before the first order
        self._left = 1
        self._counted: Counter[str] = Counter()
        self._held_before = 0.0  # MiB, before the model was built

    def before_model(self) -> None:
        """The model is about to be built."""
        self._held_before = self._device.memory()["held_mib"]

    def before_update(self) -> None:
        """Answer a turn that is over, and wait for the next one."""
        if self._left == 0:
            if self._watch:
                self._channel.answer({**self._watch.read(), **self._counted})
            self._left = self._channel.order()["updates"]
            self._counted.clear()
            self._watch = Watch(self._device)
        self._left -= 1

    def after_update(self, samples: list[dict], vocabulary: int) -> None:
        """Count what the update was made of; after the very first one, say so."""
        if self._watch is None:
            self._device.finish()
            ready = {"vocabulary": vocabulary, "held_before_mib": self._held_before}
            self._channel.answer(ready)
        for sample in filter(None, samples):
            self._counted += Counter(sizes(sample))
        self._counted["updates"] += 1


def sizes(sample: dict) -> dict[str, int]:
    """Return sentences, tokens, and positions with padding, of a batch on either side."""
    source = sample["net_input"]["src_tokens"]
    return {
        "sentences": int(sample["nsentences"]),
        "source_tokens": int(sample["net_input"]["src_lengths"].sum()),
        "target_tokens": int(sample["ntokens"]),
        "positions": source.numel() + sample["target"].numel(),
    }


def install(turns: Turns) -> None:
    """Let fairseq's trainer take turns."""
    from fairseq.tasks.fairseq_task import FairseqTask
    from fairseq.trainer import Trainer

    build_model, train_step = FairseqTask.build_model, Trainer.train_step

    @functools.wraps(build_model)
    def build(task, *arguments, **options):
        turns.before_model()
        return build_model(task, *arguments, **options)

    @functools.wraps(train_step)
    def step(trainer, samples, *arguments, **options):
        turns.before_update()
        logged = train_step(trainer, samples, *arguments, **options)
        turns.after_update(samples, len(trainer.task.target_dictionary))
        return logged

    FairseqTask.build_model, Trainer.train_step = build, step


def main() -> None:
    channel = Channel()
    install(Turns(channel, find_device(sys.argv[1])))
    sys.argv = ["fairseq-train", *sys.argv[2:]]
    from fairseq_cli.train import cli_main

    cli_main()


if __name__ == "__main__":
    main()
