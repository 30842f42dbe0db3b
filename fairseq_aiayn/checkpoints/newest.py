"""Print the newest whole checkpoint of a directory, and remove the broken ones.

fairseq copies a checkpoint to checkpoint_last.pt in place, so that a kill can leave half a file
there. A checkpoint is a zip archive, whose directory stands at its end: half a file has none.

With --below a training's --max-update, checkpoints of that many updates are removed, too. fairseq
looks at --max-update only after a step, so that a training started again from its final checkpoint
would have one update too many; going on from the one before repeats the last interval and ends as
it should.

    python -m fairseq_aiayn.checkpoints.newest exp/demo/aiayn-tiny-1/checkpoints --below 1450
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from pathlib import Path

LAST = "checkpoint_last.pt"
UPDATES = re.compile(r"checkpoint_\d+_(\d+)\.pt$")


def newest_whole_checkpoint(directory: Path, below: int | None = None) -> Path | None:
    """Return the whole checkpoint to go on from; delete those that are not whole or, with `below`,
    final.

    That is the checkpoint_EPOCH_UPDATES.pt of most updates. fairseq writes none at the end of an
    epoch, so where there is none at all it is checkpoint_last.pt.
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
    return max(whole)[1] if whole else last


def remove_final(directory: Path, updates: int) -> None:
    """Delete the checkpoints of so many updates or more, and the copy of the newest of them."""
    found = [path for path in directory.glob("checkpoint*.pt") if updates_of(path) is not None]
    final = [path for path in found if updates_of(path) >= updates]
    copy = [directory / LAST] if final and (directory / LAST).exists() else []
    # The copy first: who is stopped between the two, or comes then, still sees that it is final.
    for path in copy + sorted(final):
        remove(path, f"has {updates:,} updates or more")


def updates_of(path: Path) -> int | None:
    """Return the updates in a checkpoint's name; None where the name has none."""
    match = UPDATES.search(path.name)
    return int(match[1]) if match else None


def remove(path: Path, why: str) -> None:
    """Delete a checkpoint, which another node may have done already, and say so."""
    path.unlink(missing_ok=True)
    print(f"{path} {why}: removed", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--below", type=int, metavar="UPDATES", help="remove those of so many")
    arguments = parser.parse_args()
    if newest := newest_whole_checkpoint(arguments.directory, arguments.below):
        print(newest)


if __name__ == "__main__":
    main()
