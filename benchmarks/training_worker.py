"""A worker that is fairseq-train and then repeats the updates of its first batches.

    python benchmarks/training_worker.py cpu BATCHES THREADS DATA OPTIONS...     (of bench.py)

The first answer comes after the first update: {"held_mib"}, the memory before the model was built.
Then fairseq trains on its first BATCHES batches. Each order {"batch": k} repeats the update of one
of them, with all that fairseq does for an update but loading the batch, which it does in another
process; the answer has its seconds, peak memory, and source and target tokens without padding, and
the seconds of its matrix products alone.
"""

from __future__ import annotations

import functools
import sys

import torch
from matrix_products import Products
from turn_taking import Channel, Device, Watch, find_device


class Turns:
    """Keeps the first batches, then trains on them as ordered."""

    def __init__(self, channel: Channel, device: Device, batches: int):
        self._channel = channel
        self._device = device
        self._wanted = batches
        self._batches: list[list[dict]] = []
        self._held = 0.0  # MiB

    def install(self) -> None:
        """Let fairseq's trainer take turns."""
        from fairseq.tasks.fairseq_task import FairseqTask
        from fairseq.trainer import Trainer

        build_model, train_step = FairseqTask.build_model, Trainer.train_step

        @functools.wraps(build_model)
        def build(task, *arguments, **options):
            self._held = self._device.memory()["held_mib"]
            return build_model(task, *arguments, **options)

        @functools.wraps(train_step)
        def step(trainer, samples, *arguments, **options):
            if len(self._batches) == self._wanted:
                self._obey(functools.partial(train_step, trainer))
            logged = train_step(trainer, samples, *arguments, **options)
            if not self._batches:
                self._device.finish()
                self._channel.answer({"held_mib": self._held})
            self._batches.append(samples)
            return logged

        FairseqTask.build_model, Trainer.train_step = build, step

    def _obey(self, update) -> None:
        """Do the updates that are ordered, until the process is ended."""
        products: dict[int, Products] = {}
        while True:
            k = self._channel.order()["batch"]
            samples = self._batches[k]
            if k not in products:
                with Products() as products[k]:
                    update(samples)
            watch = Watch(self._device)
            update(samples)
            answer = {**watch.read(), "tokens": sum(map(tokens, samples))}
            with torch.no_grad():
                calls = products[k].made(self._device.name)
                watch = Watch(self._device)
                for call in calls:
                    call()
            del calls  # their tensors are no memory of an update
            self._channel.answer({**answer, "products": watch.read()["seconds"]})


def tokens(sample: dict) -> int:
    """Return the source and target tokens of a batch, without padding."""
    return int(sample["net_input"]["src_lengths"].sum()) + int(sample["ntokens"])


def main() -> None:
    channel = Channel()
    device, batches, threads, *words = sys.argv[1:]
    if int(threads):
        torch.set_num_threads(int(threads))
    Turns(channel, find_device(device), int(batches)).install()
    sys.argv = ["fairseq-train", *words]
    from fairseq_cli.train import cli_main

    cli_main()


if __name__ == "__main__":
    main()
