"""Print the newest whole checkpoint of a directory, and remove the broken ones.

fairseq copies a checkpoint to checkpoint_last.pt in place, so that a kill can leave half a file
there. A checkpoint is a zip archive, whose directory stands at its end: half a file has none.

    python newest_checkpoint.py exp/demo/aiayn/checkpoints
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

UPDATES = re.compile(r"checkpoint_\d+_(\d+)\.pt$")


def newest_whole_checkpoint(directory: Path) -> Path | None:
    """Return the whole checkpoint to go on from; delete those that are not whole.

    That is the checkpoint_EPOCH_UPDATES.pt of most updates. fairseq writes none at the end of an
    epoch, so where there is none at all it is checkpoint_last.pt.
    """
    whole = []
    last = None
    for path in directory.glob("checkpoint*.pt"):
        if not zipfile.is_zipfile(path):
            print(f"{path} is cut short: removed", file=sys.stderr)
            path.unlink()
        elif match := UPDATES.search(path.name):
            whole.append((int(match[1]), path))
        elif path.name == "checkpoint_last.pt":
            last = path
    return max(whole)[1] if whole else last


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("newest_checkpoint: must be given one directory")
    if newest := newest_whole_checkpoint(Path(sys.argv[1])):
        print(newest)


if __name__ == "__main__":
    main()
