"""What ended a process, by the last that it and its launcher wrote."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.runs.logs import Line, Log

TRACEBACK = re.compile(r"^(.*?)Traceback \(most recent call last\):\s*$")
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:: .*|:?\s*$)")  # how the last line of a traceback begins
CHAINED = ("During handling of the above", "The above exception was the direct cause")
# What stands above a traceback of which the process did not end: a thread's, a logged one
SURVIVED = re.compile(
    r"--- Logging error|Exception (?:ignored )?in|never retrieved"
    r"|\| (?:WARNING|ERROR) \| (?!.*irrecoverable)"
)
# What launchers, shells and the interpreter itself write of an end
SIGNALLED = (
    r"(?:[Kk]illed|Terminated|Hangup|Aborted|Bus error|Segmentation fault|Illegal instruction)"
)
REPORT = re.compile(
    r"(?:\[\w+\]: ?|\d+: )?(?:(?:slurmstepd|srun)\S*: error: .*|[\w.-]+: error: .*"
    r"|Fatal Python error: .*|terminate called after .*)|\s*traceback : (Signal \d+ .*)"
    rf"|((?:\S+: line \d+: +\d+ |zsh: |\[\d+\][+-]? +(?:\d+ )?|\[\w+\]: ?|\d+: )?{SIGNALLED}"
    r"(?: \(core dumped\))?)(?:  .*)?|Process finished with exit code -?[1-9]\d*.*"
    r"|=>> PBS: .*|TERM_\w+: .*|make: \*\*\* .*Error \d+|Command terminated by signal \d+"
)
# Of another process that ended, not of the cause; and what follows when another one is gone
OF_ANOTHER = re.compile(
    r"\S*(?:ChildFailedError|ProcessRaisedException|ProcessExitedException|CalledProcessError)"
    r"|Exception:(?: process \d+ terminated.*|\s*$)|Exception\s*$"
    r"|\S*: error: .*(?:Exited with exit code|Terminating|task \d+: Killed)"
)
GONE = re.compile(r"NCCL|gloo|Connection (?:reset|closed)|Broken ?pipe", re.IGNORECASE)
ROOT_RANK = re.compile(r"^\s*rank +: (\d+)")  # the first of torchrun's report is its root cause
RANK = re.compile(r"\[(?:rank|default)?(\d+)\]:|^(\d+): ")
# Of a living process; its peak of memory is said at any end
ALIVE = re.compile(r"(?:\| INFO \||^INFO:|\]\[INFO\] - )(?!.*peak memory: )")
LOST_BATCH = re.compile(r"recover from OOM in forward|memory, skipping|^ ?Skipping batch")
LACKED_MEMORY = re.compile(rf"CUDA out of memory|OutOfMemoryError|{LOST_BATCH.pattern}")
OF_USER = re.compile(r"KeyboardInterrupt|.*error: interrupted$")  # who interrupted it


@dataclass(frozen=True)
class End:
    """What ended a process."""

    line: int
    text: str
    rank: int | None = None  # of the process, where its lines name it


def ending(log: Log) -> End | None:
    """Return the first cause of the first process that failed; None where the last line is one of
    a living process, for whatever was written before did not end it."""
    rest = log.lines[max(log.statistics, default=-1) + 1 :]
    alive = max((line.number for line in rest if ALIVE.search(line.text)), default=0)
    found = ((line.number, REPORT.fullmatch(line.text.rstrip())) for line in rest)
    reports = [End(line, each[1] or each[2] or each[0].strip()) for line, each in found if each]
    ends = [*_exceptions(rest), *reports]
    if not any(end.line > alive for end in ends):
        return None
    root = next((int(rank[1]) for line in rest if (rank := ROOT_RANK.match(line.text))), None)

    def order(end: End) -> tuple[bool, bool, bool, int]:
        is_others, is_gone = OF_ANOTHER.match(end.text), GONE.search(end.text)
        is_root = root is None or end.rank in (None, root)
        return bool(is_others), bool(is_gone), not is_root, end.line

    return min(ends, key=order)


def _exceptions(lines: Sequence[Line]) -> Iterator[End]:
    """Yield the last line of each traceback; of chained ones, that of the first."""
    prefix, is_open, is_chained, has_cause, before = "", False, False, False, ""
    for line in lines:
        found = TRACEBACK.match(line.text)
        text = line.text.removeprefix(prefix)
        if found:
            prefix, is_open = found[1], not SURVIVED.search(before + found[1])
        elif is_open and line.text.startswith(prefix) and EXCEPTION.match(text):
            if not is_chained:
                rank = RANK.search(prefix)
                yield End(line.number, text.strip(), int(rank[1] or rank[2]) if rank else None)
            is_open, is_chained, has_cause = False, False, True
        elif text.startswith(CHAINED):
            is_chained = has_cause
        before = line.text


def main() -> None:
    """Print what ended the processes that wrote the lines on standard input, if they say it."""
    lines = [Line(number, text.rstrip()) for number, text in enumerate(sys.stdin, start=1)]
    if end := ending(Log(Path(), lines)):
        print(end.text)


if __name__ == "__main__":
    main()
