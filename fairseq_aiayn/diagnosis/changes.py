"""What to type so that a training is as the paper's.

A change is a command, or options for the end of fairseq-train's, where `without` names those that
are left out of it; "fairseq-generate ... " begins options for the end of that command.
"""

from __future__ import annotations

from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.paper import Row
from fairseq_aiayn.settings import task_of

PLUGIN = "--user-dir $(aiayn user-dir)"
SEARCH = "fairseq-generate ... "
BFLOAT16 = f"{PLUGIN} --bf16, without --fp16"
# Of the number of checkpoints, and --save-dir
AVERAGE = "aiayn average --last {0} --dir {1} --output {1}/average.pt"
# Of both languages, and the number of byte pairs, or the option that shares matrices
MERGES = "cat train.{} train.{} | subword-nmt learn-bpe --total-symbols -s {} > codes"
JOINED = (
    "fairseq-preprocess --source-lang {} --target-lang {} --joined-dictionary --trainpref train"
    " --validpref valid --destdir joined; fairseq-train joined ... --save-dir joined {}"
)


def whole(run: Evidence, row: Row, system: str = "aiayn") -> str:
    """Return the whole command of a training as a row's, by this plugin, or by stock fairseq where
    its models can have the row's heads."""
    if {row.h * row.d_k, row.h * row.d_v} != {row.d_model}:
        system = "aiayn"
    task = f"{PLUGIN} --task {task_of(row)}" if system == "aiayn" else "--task translation"
    flags = f"{row.name} --gpus {run.devices}{' --system stock' * (system == 'stock')}"
    device = " --cpu" * run.is_on("cpu") + " --fp16" * run.is_on("fp16")
    data, directory = run.text("data") or "DATA", f"checkpoints/{system}-{row.name}"
    return f"fairseq-train {data} {task} $(aiayn flags {flags}){device} --save-dir {directory}"


def commands(run: Evidence, row: Row) -> dict[str, str]:
    """Return the whole commands of a row: of this plugin, and for stock's models the nearest."""
    ours = {"all as the row has it": whole(run, row)}
    if run.is_ours("arch") is not False:
        return ours
    return {"the nearest of stock fairseq": whole(run, row, "stock")} | ours
