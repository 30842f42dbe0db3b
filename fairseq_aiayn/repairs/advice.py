"""What to change where a command of fairseq has not enough memory, or gradients are not finite."""

from __future__ import annotations

import re
from collections.abc import Mapping
from traceback import format_exception, format_exception_only
from typing import Any

from fairseq_aiayn.settings import OURS, option

# The last line of a traceback, also of one that fairseq quotes from a process that it started
NO_MEMORY = re.compile(
    r"^[\w.]*(?:MemoryError\b|OSError: \[Errno 12\]|(?:Runtime|Accelerator|Backend)Error: .*"
    r"(?:out of memory|allocate memory|ALLOC_FAILED))",
    re.MULTILINE,
)
NOT_FINITE = re.compile(r"^FloatingPointError: .*(?:Minimum loss scale|Nan/Inf)", re.MULTILINE)
NO_ROOM = re.compile(r"^OSError: \[Errno (?:28|122)\]", re.MULTILINE)  # the disk, or a quota
TOKENS_OF_GENERATE = 12_000  # of a batch, if no size is given
Changes = dict[str, str]  # words of a command line, by the words that they replace


def advice(command: str, error: BaseException, given: Mapping[str, Any]) -> str | None:
    """Return what to change of the options that were given; None for errors of other kinds."""
    kind, trace = ("".join(form(error)) for form in (format_exception_only, format_exception))
    if NO_MEMORY.search(kind):
        return out_of_memory(smaller_batches(command, trace, given))
    if NO_ROOM.search(trace):  # fairseq may fail again while it handles this or the next
        return "no space left on the disk: make room, and give the same command again"
    if NOT_FINITE.search(trace) and (changes := calmer(given)):
        return f"the gradients are not finite: {instead(changes)}, from an earlier checkpoint"
    return None


def out_of_memory(changes: Changes) -> str:
    """Return the line that says so."""
    return f"out of memory: {instead(changes) if changes else 'expected more, or a smaller model'}"


def instead(changes: Changes) -> str:
    """Return changes as words to type."""
    return f"try {' '.join(changes.values())} instead of {' '.join(changes)}"


def smaller_batches(command: str, trace: str, given: Mapping[str, Any]) -> Changes:
    """Return batches of half the size, in a training with twice as many for an update; nothing if
    the memory was not that of a batch, or if it cannot be smaller."""
    is_training = command == "fairseq-train"
    of_step = [
        step for step in ("train", "valid") if is_training and f", in {step}_step\n" in trace
    ]
    if is_training and not of_step:
        return {}
    suffix = "_valid" * (of_step == ["valid"])
    sizes = {
        option(name + suffix): given.get(name + suffix) for name in ("max_tokens", "batch_size")
    }
    if command == "fairseq-generate" and not any(sizes.values()):
        sizes["--max-tokens"] = TOKENS_OF_GENERATE
    changes = halved(sizes)
    if "train" in of_step and changes:
        every = given["update_freq"]
        both = (",".join(str(n * times) for n in every) for times in (1, 2))
        before, after = (f"--update-freq {numbers}" for numbers in both)
        changes[before] = after
    return changes or halved({"--beam": given.get("beam")})


def halved(numbers: Mapping[str, Any]) -> Changes:
    """Return half of every number that can be smaller, by options."""
    return {
        f"{name} {number}": f"{name} {(int(number) + 1) // 2}"
        for name, number in numbers.items()
        if int(number or 1) > 1
    }


def calmer(given: Mapping[str, Any]) -> Changes:
    """Return a lower learning rate, a longer warm-up, and bfloat16 in place of float16."""
    if given.get("lr_scheduler") == OURS + "inverse_sqrt":
        factor = given.get("lr_factor") or 1.0
        changes = {f"--lr-factor {factor:g}": f"--lr-factor {factor / 2:g}"}
    else:
        changes = {f"--lr {rate:g}": f"--lr {rate / 2:g}" for rate in given.get("lr", [])[-1:]}
    if warmup := int(given.get("warmup_updates") or 0):
        changes[f"--warmup-updates {warmup}"] = f"--warmup-updates {2 * warmup}"
    if given.get("fp16"):
        ours = str(given.get("arch")).startswith(OURS)
        changes["--fp16"] = "--autocast bfloat16" if ours else "--bf16"
    return changes
