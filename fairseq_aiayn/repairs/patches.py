"""All functions and classes of fairseq and PyTorch that are replaced. AIAYN_REPAIRS=off leaves all
repairs out, and a list of names, with commas between them, leaves these out."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from inspect import signature
from typing import Any, Literal

from fairseq_aiayn.checkpoints import only_safe_globals
from fairseq_aiayn.repairs import (
    agreement,
    copies,
    direction,
    empty_batches,
    epoch_ends,
    errors,
    finished,
    float32_weights,
    hydra,
    launches,
    left_out,
    loading,
    log_file,
    lost_processes,
    memory,
    options,
    place,
    prefetching,
    signals,
)
from fairseq_aiayn.repairs.program import (
    SEARCHING,
    TRAIN,
    TRAINING,
    command_name,
    training_program,
)

__all__ = ["PATCHES", "VARIABLE", "difference", "install", "unwanted"]

VARIABLE = "AIAYN_REPAIRS"
HALF_PRECISION = "fairseq.optim.fp16_optimizer:_FP16OptimizerMixin"
AFTER_UPDATE = "cfg trainer task epoch_itr valid_subsets end_of_epoch"
LOAD_MODELS = "filenames arg_overrides task strict suffix num_shards state"
EVALUATING = {"eval_str_list": "x type", "eval_str_dict": "x type", "eval_bool": "x default"}


@dataclass(frozen=True)
class Patch:
    """One function or class that is replaced. A repair is left out unless all its targets have the
    parameters that were reviewed, in all `versions`; a star stands for others, which the wrapper
    passes on."""

    target: str  # module:name, or module:class.name
    parameters: str
    wrapper: Callable[[Any], Any]  # from what is there to what replaces it
    programs: Literal["", "command", "search", "train"]  # that have it: of fairseq, or all
    fault: str
    issue: int | None = None  # of fairseq
    for_fairseq: bool = False  # whether fairseq could take the change as it is
    versions: str = "0.12.2 and 0.12.3"  # of fairseq, where the fault was seen in the code

    def where(self) -> tuple[Any, str]:
        """Return the module or class, and the name in it; raises ImportError or AttributeError."""
        module, path = self.target.split(":")
        *owners, name = path.split(".")
        here = training_program() if module == TRAIN else None
        return reduce(getattr, owners, here or importlib.import_module(module)), name

    def change(self) -> str:
        """Return what is not as it was reviewed; empty if nothing is."""
        try:
            owner, name = self.where()
            found = [*signature(getattr(owner, name)).parameters]
        except (ImportError, AttributeError, ValueError) as error:
            return f"{self.target}: {error}"
        expected = self.parameters.split()
        if found == expected or ("*" in expected and {*expected} <= {*found, "*"}):
            return ""
        return f"{self.target}: expected ({', '.join(expected)}), got ({', '.join(found)})"

    def applies(self) -> bool:
        """Return whether the running program has it."""
        if self.programs == "train":
            return training_program() is not None
        command = command_name(sys.argv[0])
        if self.programs == "search":
            return command in SEARCHING
        return self.programs == "" or command is not None

    def put(self) -> None:
        """Replace the target."""
        owner, name = self.where()
        setattr(owner, name, self.wrapper(getattr(owner, name)))


def around(replacement: Callable[..., Any]) -> Callable[[Callable], Callable]:
    """Return the wrapper of a function that is called in place of one of fairseq's, which it gets
    before the arguments of the call."""

    def wrapper(original: Callable) -> Callable:
        @wraps(original)
        def wrapped(*arguments: object, **named: object) -> object:
            return replacement(original, *arguments, **named)

        return wrapped

    return wrapper


# Where two patches have the same target, the later one is the outer one
# fmt: off
PATCHES: dict[str, tuple[Patch, ...]] = {
    "loading": (
        Patch("fairseq.checkpoint_utils:load_checkpoint_to_cpu",
              "path arg_overrides load_on_all_ranks", around(loading.checked), "",
              "PyTorch 2.6 and later refuse every checkpoint, earlier ones run its code",
              issue=5610),
        Patch("fairseq.models:build_model", "cfg task from_checkpoint", around(loading.bounded), "",
              "a model of any size is built if a checkpoint says so"),
        Patch("fairseq.checkpoint_utils:load_model_ensemble_and_task", LOAD_MODELS,
              around(loading.building_nothing_unasked), "",
              "evaluates strings of a checkpoint, and opens files that it names"),
        Patch("fairseq.criterions:build_criterion", "cfg task from_checkpoint",
              around(loading.criterion_of_a_checkpoint), "search", "so does a criterion"),
        *(Patch(f"fairseq.utils:{name}", parameters, around(loading.literal), "",
                "evaluates strings of a checkpoint as Python", for_fairseq=True)
          for name, parameters in EVALUATING.items()),
        Patch("fairseq.distributed.utils:broadcast_object", "obj src_rank group dist_device",
              only_safe_globals(*loading.SENT_BETWEEN_PROCESSES), "",
              "PyTorch 2.6 and later refuse what processes send one another when they resume"),
    ),
    "copies": (
        Patch("fairseq.file_io:PathManager.copy", "src_path dst_path overwrite",
              around(copies.copied_whole), "train", "a kill leaves half a checkpoint_last.pt",
              for_fairseq=True),
        Patch("fairseq.checkpoint_utils:torch_persistent_save", "obj filename async_write",
              around(copies.into_new_file), "train",
              "--write-checkpoints-asynchronously writes into the file that is there"),
    ),
    "float32_weights": (
        Patch(f"{HALF_PRECISION}.state_dict", "self", around(float32_weights.with_weights), "train",
              "--fp16 and --bf16 store weights in 16 bits, from which a training cannot go on",
              for_fairseq=True),
        Patch(f"{HALF_PRECISION}.load_state_dict", "self state_dict optimizer_overrides",
              around(float32_weights.loading_weights), "train", "and load them", for_fairseq=True),
    ),
    "launches": (
        Patch(f"{HALF_PRECISION}._sync_fp16_grads_to_fp32", "self",
              around(launches.copying_gradients), "train",
              "--fp16 and --bf16 launch a kernel per parameter", for_fairseq=True),
        Patch(f"{HALF_PRECISION}._sync_fp32_params_to_fp16", "self",
              around(launches.copying_weights), "train", "twice", for_fairseq=True),
        Patch("fairseq.utils:multi_tensor_total_norm", "grads chunk_size", launches.norm_of_lists,
              "train", "so does the norm of the gradient without apex", for_fairseq=True),
        Patch("fairseq.utils:clip_grad_norm_", "params max_norm aggregate_norm_fn",
              around(launches.read_once), "train", "each look at it waits for the GPU",
              for_fairseq=True),
        Patch("fairseq.trainer:Trainer._reduce_and_log_stats",
              "self logging_outputs sample_size grad_norm", around(launches.reading_figures),
              "train", "and each figure that is logged", for_fairseq=True),
    ),
    "empty_batches": (
        Patch("fairseq.trainer:Trainer.train_step", "self samples raise_oom",
              around(empty_batches.without_empty_batches), "train",
              "divides the gradient by too little if the last batch of a process is empty",
              for_fairseq=True),
    ),
    "place": (
        Patch("fairseq.data.iterators:EpochBatchIterator",
              "dataset collate_fn batch_sampler seed num_shards shard_id *",
              lambda iterator: place.Epochs, "train",
              "with other processes, a resumed epoch has batches twice or not at all; --patience"
              " counts anew", issue=3531),
        Patch("fairseq.data.iterators:GroupedIterator", "iterable chunk_size skip_remainder_batch",
              lambda iterator: place.Groups, "train",
              "with --update-freq, a resumed epoch may have an update too few", for_fairseq=True),
    ),
    "finished": (
        Patch(f"{TRAIN}:train", "cfg trainer task epoch_itr", around(finished.unless_done), "train",
              "a finished training that is resumed does one more update", for_fairseq=True),
    ),
    "epoch_ends": (
        Patch(f"{TRAIN}:validate_and_save", AFTER_UPDATE, epoch_ends.at_intervals, "train",
              "--save-interval-updates has no checkpoint where an epoch ends", issue=2230,
              for_fairseq=True),
    ),
    "signals": (
        Patch(f"{TRAIN}:validate_and_save", AFTER_UPDATE, signals.ending_by_signal, "train",
              "a signal loses what was done since the last checkpoint"),
        Patch("torch.utils.data:DataLoader.__init__", "worker_init_fn *",
              around(signals.keeping_workers), "train",
              "a signal ends the readers of data before their training"),
        Patch("torch.multiprocessing:spawn", "*", around(signals.passing_signals_on), "train",
              "the parent of a process per GPU dies of a signal, and they with it"),
    ),
    "lost_processes": (
        Patch("torch.distributed:init_process_group", "timeout *",
              lost_processes.ending_with_torchrun, "train",
              "waits 30 minutes for a process that is lost, and for ever without its torchrun"),
        Patch("torch.distributed:new_group", "timeout *", lost_processes.waiting_less, "train",
              "waits 30 minutes for a process that is lost"),
    ),
    "agreement": (
        Patch("fairseq.checkpoint_utils:load_checkpoint", "cfg trainer passthrough_args",
              around(agreement.agreeing), "train",
              "processes of other options or text train on together"),
    ),
    "prefetching": (
        Patch("fairseq.data.iterators:BackgroundConsumer", "queue source max_len cuda_device",
              prefetching.ending_in_time, "", "a thread that reads ahead may abort the process"),
    ),
    "log_file": (
        Patch("fairseq.logging.progress_bar:progress_bar",
              "iterator log_format log_interval log_file epoch prefix aim_repo aim_run_hash"
              " aim_param_checkpoint_dir tensorboard_logdir default_log_format wandb_project"
              " wandb_run_name azureml_logging", around(log_file.opening_log_once), "",
              "a line of epoch 80 stands in --log-file 80 times", for_fairseq=True),
    ),
    "left_out": (
        Patch("fairseq.tasks:FairseqTask.get_batch_iterator",
              "self dataset max_tokens max_sentences max_positions ignore_invalid_inputs"
              " required_batch_size_multiple seed num_shards shard_id num_workers epoch"
              " data_buffer_size disable_iterator_cache skip_remainder_batch grouped_shuffling"
              " update_epoch_batch_itr", around(left_out.counting_pairs), "",
              "leaves pairs out of a data set without saying which option asks for it"),
    ),
    "options": (
        Patch("fairseq.options:parse_args_and_arch",
              "parser input_args parse_known suppress_defaults modify_parser",
              around(options.checking_options), "",
              "options that need one another fail late or never"),
    ),
    "hydra": (
        Patch(f"{TRAIN}:add_defaults", "cfg", around(hydra.completing_early), "train",
              "fairseq-hydra-train shows wrong options as tracebacks, and logs none of an arch"),
    ),
    "direction": (
        Patch("fairseq.checkpoint_utils:load_model_ensemble_and_task",
              LOAD_MODELS, around(direction.checking_direction), "search",
              "a model of the other direction translates into nonsense"),
    ),
    "memory": (
        Patch("fairseq.trainer:Trainer._log_oom", "self exc", memory.counting_lost_batches, "",
              "a training that has no memory for its batches does not end", for_fairseq=True),
    ),
    "errors": (
        Patch("sys:excepthook", "*", errors.of_this_command, "command",
              "wrong options and files are tracebacks, and no error says what to change"),
    ),
}
# fmt: on


def unwanted() -> list[str]:
    """Return the repairs that AIAYN_REPAIRS leaves out; raises ValueError if there is no such."""
    names = os.environ.get(VARIABLE, "").replace(",", " ").split()
    if names == ["off"]:
        return [*PATCHES]
    for name in names:
        if name not in PATCHES:
            raise ValueError(f"{VARIABLE}: expected off or {', '.join(PATCHES)}, got {name!r}")
    return names


def difference(patches: Sequence[Patch]) -> str:
    """Return how targets differ from those that were reviewed; empty if they do not."""
    return "; ".join(filter(None, map(Patch.change, patches)))


def install() -> None:
    """Put the repairs of the running program in place, and warn of those that do not fit."""
    try:
        out = unwanted()
    except ValueError:  # of which `errors` makes one line
        for patch in filter(Patch.applies, PATCHES["errors"]):
            patch.put()
        raise
    for name, patches in PATCHES.items():
        of_this = [patch for patch in patches if patch.applies()]
        if name not in out and (reason := difference(of_this)):
            logging.getLogger(__name__).warning("the repair %s is left out: %s", name, reason)
            out.append(name)
        if name not in out:
            for patch in of_this:
                patch.put()
    if command_name(sys.argv[0]) in TRAINING:
        announce([name for name in PATCHES if name not in out], out)


def announce(on: Sequence[str], out: Sequence[str]) -> None:
    """Have the log of a training, which fairseq opens later, say which repairs are on."""
    logger = logging.getLogger(TRAIN)

    def before_its_first_line(record: logging.LogRecord) -> bool:
        logger.removeFilter(before_its_first_line)
        names = [", ".join(names) or "none" for names in (on, out)]
        logger.info("repairs of fairseq that are on: %s; left out: %s", *names)
        return True

    logger.addFilter(before_its_first_line)
