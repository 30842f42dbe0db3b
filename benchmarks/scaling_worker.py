"""A system that trains and decodes batches of any size with fairseq's own trainer and tasks.

    python benchmarks/scaling_worker.py cpu OPTIONS...    (of fairseq-train; started by scaling.py)

An order has "sentences", "length", "beam" (null: a training step) and "data", a directory with
dictionaries. The answer has the seconds of one step or one batch. The model has its initial
weights. Decoded outputs have exactly "length" tokens, so that all systems write the same amount.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable

import torch
from fairseq import options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.trainer import Trainer
from omegaconf import DictConfig
from turn_taking import Channel, Device, find_device_or_exit

from fairseq_aiayn.paper import TRANSLATION

SECONDS = 0.2  # a turn repeats the work for
SEED = 1


class System:
    """The model of the latest order's vocabulary: built anew when that or the work changes."""

    def __init__(self, device: Device, flags: list[str]):
        self._device = device
        self._flags = flags
        self._built: tuple[str, bool] | None = None

    def work(self, order: dict) -> Callable[[], object]:
        """Return a function that does an order's work once."""
        training = order["beam"] is None
        if self._built != (order["data"], training):
            self._build(order["data"], training)
        batch = self._batch(order["sentences"], order["length"])
        if training:
            return lambda: self._trainer.train_step([batch])
        return self._search(batch, order["length"], order["beam"])

    def _build(self, data: str, training: bool) -> None:
        sys.argv = ["fairseq-train", data, *self._flags]
        parser = options.get_training_parser()
        config = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser))
        utils.set_torch_seed(SEED)
        self._task = tasks.setup_task(config.task)
        self._model = self._task.build_model(config.model)
        self._built = data, training
        if training:
            criterion = self._task.build_criterion(config.criterion)
            self._trainer = Trainer(config, self._task, self._model, criterion)
        else:
            self._trainer = None
            prepare_to_decode(self._model, config, self._device)

    def _batch(self, sentences: int, length: int) -> dict:
        """A batch as fairseq's collater makes it, without padding; lengths have the end in them."""
        random = torch.Generator().manual_seed(SEED)
        words = self._task.target_dictionary
        size = (sentences, length)
        source, target = (
            torch.randint(words.nspecial, len(words), size, generator=random) for _ in range(2)
        )
        source[:, -1] = target[:, -1] = words.eos()
        batch = {
            "id": torch.arange(sentences),
            "nsentences": sentences,
            "ntokens": target.numel(),
            "target": target,
            "net_input": {
                "src_tokens": source,
                "src_lengths": torch.full((sentences,), length),
                "prev_output_tokens": target.roll(1, dims=1),
            },
        }
        return utils.move_to_cuda(batch) if self._device.name == "cuda" else batch

    def _search(self, batch: dict, length: int, beam: int) -> Callable[[], object]:
        exactly = {"min_len": length, "max_len_a": 0, "max_len_b": length}
        search = Namespace(beam=beam, lenpen=TRANSLATION.alpha, **exactly)
        generator = self._task.build_generator([self._model], search)

        def decode() -> None:
            found = self._task.inference_step(generator, [self._model], batch)
            lengths = {len(hypotheses[0]["tokens"]) - 1 for hypotheses in found}
            if lengths != {length}:
                raise SystemExit(f"outputs must have {length} tokens, have {sorted(lengths)}")

        return decode


def prepare_to_decode(
    model: FairseqEncoderDecoderModel, config: DictConfig, device: Device
) -> None:
    """Do what fairseq-generate does with a model that it loaded."""
    if config.common.fp16:
        model.half()
    model.to(device.name)
    model.prepare_for_inference_(config)
    model.eval()


def seconds(device: Device, work: Callable[[], object]) -> float:
    """Return how long the work takes, by as many repetitions as SECONDS have."""
    device.finish()
    started, times = time.monotonic(), 0
    while (elapsed := time.monotonic() - started) < SECONDS:
        work()
        device.finish()
        times += 1
    return elapsed / times


def main() -> None:
    channel = Channel()
    device = find_device_or_exit(sys.argv[1])
    system = System(device, sys.argv[2:])
    while True:
        work = system.work(channel.order())
        channel.answer({"seconds": seconds(device, work)})


if __name__ == "__main__":
    main()
