"""Print the newest complete checkpoint in a directory, and remove the truncated ones.

fairseq copies a checkpoint to checkpoint_last.pt in place, so that a kill can leave half a file
there. A checkpoint is a zip archive with its directory at the end, which half a file does not have.

--below N also removes checkpoints of N updates or more; give it the training's --max-update.
fairseq compares with --max-update only after a step, so that a training resumed from its final
checkpoint would do one update too many. Resuming from the one before repeats the last interval and
ends at the right update. Where no whole checkpoint is left before them, they stay, and the newest
is taken all the same: one update too many is better than all of them lost.

    python -m fairseq_aiayn.checkpoints.newest exp/demo/aiayn-tiny-1/checkpoints --below 1450
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

from fairseq_aiayn.messages import script

LAST = "checkpoint_last.pt"
UPDATES = re.compile(r"checkpoint_\d+_(\d+)\.pt$")


def newest_whole_checkpoint(directory: Path, below: int | None = None) -> Path | None:
    """Return the checkpoint to resume from; delete truncated and, with `below`, final ones.

    This is the checkpoint_EPOCH_UPDATES.pt with the most updates; if there is none, it is
    checkpoint_last.pt. Final ones are kept if no whole one is left before them.
    """
    if below is not None:
        remove_final(directory, below)
    whole = []
    last = None
    for path in directory.glob("checkpoint*.pt"):
        if not zipfile.is_zipfile(path):
            remove(path, "is cut short")
        elif (updates := updates_of(path)) is not None:
            whole.append((updates, path))
        elif path.name == LAST:
            last = path
    if not whole:
        return last
    updates, newest = max(whole)
    if below is not None and updates >= below:
        why = f"has {below:,} updates or more, but none before it is left"
        print(f"{newest} {why}: the training does one more", file=sys.stderr)
    return newest


def remove_final(directory: Path, updates: int) -> None:
    """Delete the checkpoints with `updates` or more, and the copy of the newest of them.

    Nothing goes if no whole checkpoint before them would remain.
    """
    found = [path for path in directory.glob("checkpoint*.pt") if updates_of(path) is not None]
    final = [path for path in found if updates_of(path) >= updates]
    if not any(zipfile.is_zipfile(path) for path in set(found) - set(final)):
        return
    copy = [directory / LAST] if final and (directory / LAST).exists() else []
    # The copy first: if this is interrupted, the next call still sees that the training is final.
    for path in copy + sorted(final):
        remove(path, f"has {updates:,} updates or more")


def updates_of(path: Path) -> int | None:
    """Return the number of updates in a checkpoint's name, or None if there is none."""
    match = UPDATES.search(path.name)
    return int(match[1]) if match else None


def remove(path: Path, why: str) -> None:
    """Delete a checkpoint, unless another node already has, and print why."""
    path.unlink(missing_ok=True)
    print(f"{path} {why}: removed", file=sys.stderr)


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("directory", type=Path)
        parser.add_argument(
            "--below", type=int, metavar="UPDATES", help="remove those from there on"
        )
        arguments = parser.parse_args()
        if newest := newest_whole_checkpoint(arguments.directory, arguments.below):
            print(newest)


if __name__ == "__main__":
    main()
