"""The command that lists what the plugin replaces in fairseq."""

from __future__ import annotations

import argparse

PROGRAMS = {
    "": "",
    "command": ", in fairseq's commands",
    "search": ", in fairseq-generate, -interactive and -validate",
    "train": ", in fairseq-train",
}


def run_repairs(arguments: argparse.Namespace) -> None:
    """list what --user-dir replaces in fairseq and PyTorch, and why

    For each repair: whether it is on, the functions and classes that are replaced, the program if
    it is not every one, and the fault, with fairseq's versions that have it, and the number of
    fairseq's issue if there is one. A star says that fairseq could take the change as it is.

    A repair is off if AIAYN_REPAIRS names it, or if this fairseq or PyTorch has a function with
    other parameters than the one that was reviewed. The log of a training says which are on.

    examples:
      aiayn repairs
      AIAYN_REPAIRS=signals,log_file fairseq-train ...    all but these two
      AIAYN_REPAIRS=off fairseq-train ...                 none
    """
    from fairseq_aiayn.repairs.patches import PATCHES, VARIABLE, difference, unwanted

    out = unwanted()
    for name, patches in PATCHES.items():
        reason = VARIABLE if name in out else difference(patches)
        print(f"{name}: {f'off ({reason})' if reason else 'on'}")
        for patch in patches:
            issue = f", #{patch.issue}" if patch.issue else ""
            star = " *" if patch.for_fairseq else ""
            print(f"    {patch.target}{PROGRAMS[patch.programs]}")
            print(f"        {patch.fault} ({patch.versions}{issue}){star}")
