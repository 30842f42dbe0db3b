"""Print for each choice of a registry of fairseq how many of four went well, and the error of the
next: two updates, a third from their checkpoint, and what fairseq-generate and -validate build."""

import copy
import json
import logging
import sys
import tempfile
from argparse import Namespace
from dataclasses import fields

import fairseq_cli.train
from fairseq import checkpoint_utils, criterions, options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf, omegaconf_no_object_check
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf

import fairseq_aiayn
from fairseq_aiayn.repairs.program import given

CHOICES = {"task": (TASK_REGISTRY, TASK_DATACLASS_REGISTRY)}
for kind, parts in REGISTRIES.items():
    CHOICES[kind] = (parts["registry"], parts["dataclass_registry"])
DEFAULTS = {"--criterion": "label_smoothed_cross_entropy", "--task": "translation"}
DEFAULTS |= {"--optimizer": "adam", "--lr-scheduler": "fixed", "--lr": "0.001"}
# Options without which a choice does not start
NEEDED = {"polynomial_decay": "--total-num-update 9", "triangular": "--max-lr 1"}
SIZES = "--encoder-embed-dim 8 --encoder-ffn-embed-dim 8 --encoder-attention-heads 2"
TRAINING = "-s en -t de --cpu --num-workers 0 --max-tokens 999 --max-update 2 --disable-validation"


def parsed(data: str, arch: str, **choice: str) -> Namespace:
    chosen = DEFAULTS | {f"--{kind.replace('_', '-')}": name for kind, name in choice.items()}
    needed = " ".join(NEEDED.get(name, "") for name in choice.values())
    words = f"{data} --arch {arch} {SIZES} {TRAINING} --encoder-layers 1"
    words = [*f"{words} {needed}".split(), *(word for pair in chosen.items() for word in pair)]
    return options.parse_args_and_arch(options.get_training_parser(), words)


def put_in(cfg: DictConfig, kind: str, name: str, args: Namespace) -> None:
    """Put a choice into a configuration as fairseq does, without Hydra, which takes long."""
    dataclass = CHOICES[kind][1].get(name)
    chosen: object = Namespace(**vars(args), _name=name)
    if dataclass is not None:
        said = {field.name for field in fields(dataclass)} & {*vars(args)}
        defaults = OmegaConf.to_container(OmegaConf.structured(dataclass()), enum_to_str=True)
        chosen = defaults | {each: getattr(args, each) for each in said} | {"_name": name}
    OmegaConf.set_struct(cfg, False)
    with omegaconf_no_object_check():
        cfg[kind] = chosen


def attempt(cfg: DictConfig, directory: str) -> tuple[int, str]:
    """Return how many steps went well, and the error of the next."""
    cfg.checkpoint.save_dir = directory
    path = given["path"] = f"{directory}/checkpoint_last.pt"
    try:
        for done, updates in enumerate((2, 3)):
            cfg.optimization.max_update = updates
            fairseq_cli.train.main(copy.deepcopy(cfg))
        done = 2
        _, saved, task = checkpoint_utils.load_model_ensemble_and_task([path])
        done = 3
        criterions.build_criterion(saved.criterion, task)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (it is reported)
        return done, repr(error)
    return 4, ""


if __name__ == "__main__":
    data, arch, kind = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    fairseq_aiayn.register()
    default = convert_namespace_to_omegaconf(parsed(data, arch))
    for name in CHOICES[kind][0]:
        cfg = copy.deepcopy(default)
        try:
            put_in(cfg, kind, name, parsed(data, arch, **{kind: name}))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (it is reported)
            done, reason = 0, repr(error)
        else:
            with tempfile.TemporaryDirectory() as directory:
                done, reason = attempt(cfg, directory)
        print(json.dumps([name, done, reason]), flush=True)
