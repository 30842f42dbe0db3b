"""Show the progress of a fairseq command and keep all that it says in a log.

Reads the command's output from standard input and appends it to the log. The terminal sees a bar
with loss, perplexity, speed and time left for fairseq-train's JSON lines, the plugin's warnings,
and other programs' progress bars as they are.

    fairseq-train ... --log-format json 2>&1 | python -m fairseq_aiayn.runs.progress --log train.log
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from tqdm import tqdm

from fairseq_aiayn.console import script
from fairseq_aiayn.runs.logs import statistics_of

# fairseq prints its whole configuration first.
MAX_UPDATE = re.compile(r"'max_update': (\d+)")
# 2026-01-31 12:00:00 | WARNING | fairseq_aiayn.nn.cpu_kernels | bfloat16 is ...
WARNING = re.compile(r"\| WARNING \| fairseq_aiayn[\w.]* \| (.*)")


class Display:
    """The bar of a training, which appears with its first statistics."""

    bar: tqdm | None = None
    total: int | None = None

    def show(self, line: str) -> None:
        """Show what a line says; raises any error for other statistics than fairseq's."""
        values = statistics_of(line.rstrip())
        is_valid = "valid_num_updates" in values
        if match := MAX_UPDATE.search(line):
            self.total = int(match[1])
        elif is_valid or "num_updates" in values:
            done = int(values["valid_num_updates" if is_valid else "num_updates"])
            if self.bar is None:  # where a training is resumed, the time left counts from there
                self.bar = tqdm(
                    total=self.total, initial=done, unit=" updates", dynamic_ncols=True, leave=False
                )
            if is_valid:
                text = f"  update {done:>6}: development perplexity {values['valid_ppl']}"
                self.bar.write(text, file=sys.stderr)
                return
            text = (
                f"loss {values['loss']}, perplexity {values['ppl']}, {values['wps']:.0f} tokens/s"
            )
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update(done - self.bar.n)
        elif match := WARNING.search(line):
            tqdm.write(f"  warning: {match[1]}", file=sys.stderr)
        elif line.endswith("\r"):
            print(line, end="", file=sys.stderr, flush=True)


def show(lines: Iterable[str]) -> None:
    """Move a bar with each line of training statistics; pass on what other bars print. Whatever
    cannot be read or shown is passed over, so that a display never ends the training that it
    shows."""
    display = Display()
    for line in lines:
        with suppress(Exception):
            display.show(line)
    with suppress(Exception):
        if display.bar is not None:
            display.bar.close()
    try:
        sys.stderr.flush()
    except OSError:  # without a terminal Python would end with status 120
        sys.stderr = io.StringIO()


def copy_to_log(stream: Iterable[str], path: str) -> Iterator[str]:
    """Yield what is read, chunk by chunk, after appending it to the log without redrawn bars. A log
    that cannot be written to any more is named once, and what is read goes on. Raises OSError for
    one that cannot be opened."""
    with open(path, "ab", buffering=0) as log:
        is_complete = True
        for line in stream:
            try:
                if not line.endswith("\r"):
                    log.write(line.encode())
            except OSError as error:
                if is_complete:
                    yield f"| WARNING | fairseq_aiayn | {path} lacks lines: {error}"
                is_complete = False
            yield line


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--log", required=True)
        arguments = parser.parse_args()
        # "\r" ends a line of a redrawn bar; it is kept, so that the bar is redrawn here too.
        stream = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace", newline="")
        show(copy_to_log(stream, arguments.log))


if __name__ == "__main__":
    main()
