"""A worker that trains and decodes batches of any size with fairseq's own trainer and tasks.

    python benchmarks/scaling_worker.py cpu OPTIONS...    (of fairseq-train; started by scaling.py)

An order is a Work of scaling_curves.py. The answer has the seconds of one step or one batch. The
model has its initial weights. Decoded outputs have exactly "length" tokens, so that both systems
write the same amount.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable

import torch
from fairseq import options, tasks, utils
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.trainer import Trainer
from omegaconf import DictConfig
from scaling_curves import Work
from turn_taking import Channel, Device, find_device, mean_seconds

from fairseq_aiayn.paper import TRANSLATION

SECONDS = 0.2  # a turn repeats the work for
SEED = 1


class System:
    """A model, which is built anew for another vocabulary or kind of work."""

    def __init__(self, device: Device, flags: list[str]):
        self._device = device
        self._flags = flags
        self._built: tuple[int, bool] | None = None

    def action(self, work: Work) -> Callable[[], object]:
        """Return a function that does a piece of work once."""
        training = work.beam is None
        if self._built != (work.vocabulary, training):
            self._build(work.vocabulary, training)
        batch = self._batch(work)
        if training:
            return lambda: self._trainer.train_step([batch])
        return self._search(batch, work)

    def _build(self, types: int, training: bool) -> None:
        sys.argv = ["fairseq-train", "no data", *self._flags]
        parser = options.get_training_parser()
        config = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser))
        utils.set_torch_seed(SEED)
        words = dictionary(types)
        self._task = tasks.TASK_REGISTRY[config.task._name](config.task, words, words)
        self._model = self._task.build_model(config.model)
        self._built = types, training
        if training:
            criterion = self._task.build_criterion(config.criterion)
            self._trainer = Trainer(config, self._task, self._model, criterion)
        else:
            self._trainer = None
            prepare_to_decode(self._model, config, self._device)

    def _batch(self, work: Work) -> dict:
        """A batch as fairseq's collater makes it, without padding; lengths have the end in them."""
        random = torch.Generator().manual_seed(SEED)
        words = self._task.target_dictionary
        size = (work.sentences, work.length)
        source, target = (
            torch.randint(words.nspecial, len(words), size, generator=random) for _ in range(2)
        )
        source[:, -1] = target[:, -1] = words.eos()
        batch = {
            "id": torch.arange(work.sentences),
            "nsentences": work.sentences,
            "ntokens": target.numel(),
            "target": target,
            "net_input": {
                "src_tokens": source,
                "src_lengths": torch.full((work.sentences,), work.length),
                "prev_output_tokens": target.roll(1, dims=1),
            },
        }
        return utils.move_to_cuda(batch) if self._device.name == "cuda" else batch

    def _search(self, batch: dict, work: Work) -> Callable[[], object]:
        exactly = {"min_len": work.length, "max_len_a": 0, "max_len_b": work.length}
        search = Namespace(beam=work.beam, lenpen=TRANSLATION.alpha, **exactly)
        generator = self._task.build_generator([self._model], search)

        def decode() -> None:
            found = self._task.inference_step(generator, [self._model], batch)
            lengths = {len(hypotheses[0]["tokens"]) - 1 for hypotheses in found}
            if lengths != {work.length}:
                raise SystemExit(f"outputs must have {work.length} tokens, have {sorted(lengths)}")

        return decode


def dictionary(types: int) -> Dictionary:
    """Return a dictionary with so many types, fairseq's special ones included."""
    words = Dictionary()
    for number in range(types - words.nspecial):
        words.add_symbol(f"w{number}")
    return words


def prepare_to_decode(
    model: FairseqEncoderDecoderModel, config: DictConfig, device: Device
) -> None:
    """Do what fairseq-generate does with a model that it loaded."""
    if config.common.fp16:
        model.half()
    model.to(device.name)
    model.prepare_for_inference_(config)
    model.eval()


def main() -> None:
    channel = Channel()
    device = find_device(sys.argv[1])
    system = System(device, sys.argv[2:])
    while True:
        action = system.action(Work(**channel.order()))
        channel.answer({"seconds": mean_seconds(device, action, SECONDS)})


if __name__ == "__main__":
    main()
