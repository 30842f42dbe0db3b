"""Show the progress of a fairseq command and keep all that it says in a log.

Reads the command's output from standard input and appends it to the log. The terminal sees a bar
with loss, perplexity, speed and time left for fairseq-train's JSON lines, the plugin's warnings,
and other programs' progress bars as they are.

    fairseq-train ... --log-format json 2>&1 | python -m fairseq_aiayn.runs.progress --log train.log
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable

from tqdm import tqdm

from fairseq_aiayn.text import script

# fairseq prints its whole configuration first.
MAX_UPDATE = re.compile(r"'max_update': (\d+)")
# 2026-01-31 12:00:00 | INFO | train_inner | {"epoch": 1, ...}
STATISTICS = re.compile(r"\| INFO \| (train_inner|valid) \| (\{.*\})")
# 2026-01-31 12:00:00 | WARNING | fairseq_aiayn.nn.cpu_kernels | bfloat16 is ...
WARNING = re.compile(r"\| WARNING \| fairseq_aiayn[\w.]* \| (.*)")


def show(lines: Iterable[str]) -> None:
    """Move a bar with each line of training statistics; pass on what other bars print."""
    bar, total = None, None
    for line in lines:
        if match := MAX_UPDATE.search(line):
            total = int(match[1])
        elif match := STATISTICS.search(line):
            values = json.loads(match[2])
            bar = bar or updates_bar(total, values)
            show_statistics(bar, match[1], values)
        elif match := WARNING.search(line):
            tqdm.write(f"  warning: {match[1]}", file=sys.stderr)
        elif line.endswith("\r"):
            print(line, end="", file=sys.stderr, flush=True)
    if bar:
        bar.close()


def updates_bar(total: int | None, values: dict[str, str]) -> tqdm:
    """Make the bar of a training; where one is resumed, the time left counts from there."""
    done = int(values.get("num_updates", values.get("valid_num_updates", 0)))
    return tqdm(total=total, initial=done, unit=" updates", dynamic_ncols=True, leave=False)


def show_statistics(bar: tqdm, tag: str, values: dict[str, str]) -> None:
    if tag == "valid":
        bar.write(
            f"  update {values['valid_num_updates']:>6}: development perplexity "
            f"{values['valid_ppl']}",
            file=sys.stderr,
        )
        return
    bar.set_postfix_str(
        f"loss {values['loss']}, perplexity {values['ppl']}, {values['wps']} tokens/s",
        refresh=False,
    )
    bar.update(int(values["num_updates"]) - bar.n)


def copy_to_log(stream: Iterable[str], path: str) -> Iterable[str]:
    """Yield what is read, chunk by chunk, after appending it to the log without redrawn bars."""
    with open(path, "a", encoding="utf-8") as log:
        for line in stream:
            if not line.endswith("\r"):
                log.write(line)
                log.flush()
            yield line


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--log", required=True)
        arguments = parser.parse_args()
        # "\r" ends a line of a redrawn bar; it is kept, so that the bar is redrawn here too.
        sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline="")
        show(copy_to_log(sys.stdin, arguments.log))


if __name__ == "__main__":
    main()
