"""fairseq's own defaults of the options that change an update, as its parser says them.

`python tests/diagnosis/fairseq_defaults.py` writes those that no aspect judges to the file by which
`aiayn diagnose` knows, without importing fairseq, which options of a training are not default.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from contextlib import redirect_stderr, suppress
from dataclasses import fields
from io import StringIO
from pathlib import Path

from fairseq import options
from fairseq.dataclass.configs import FairseqConfig
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

import fairseq_aiayn.plugin  # noqa: F401  (registers its own parts)
from fairseq_aiayn.diagnosis import aspects, evidence
from fairseq_aiayn.diagnosis.aspects import LEARNED, NORMS
from fairseq_aiayn.diagnosis.diagnosis import DEFAULTS
from fairseq_aiayn.settings import SIZE_ARGUMENTS, option

TRANSLATIONS = re.compile(r"(\w+_)?translation\w*|aiayn_\w+")
PARTS = {
    "task": [name for name in TASK_REGISTRY if TRANSLATIONS.fullmatch(name)],
    "arch": ("aiayn_base", "transformer"),
    **{name: REGISTRIES[name]["registry"] for name in ("criterion", "optimizer", "lr_scheduler")},
}
# What aspects read, by the words in their code
JUDGED = {*SIZE_ARGUMENTS, "d_model", "decoder_input_dim", "decoder_output_dim", *NORMS, *LEARNED}
for module in (aspects, evidence):
    JUDGED |= set(re.findall(r'"(\w+)"', Path(module.__file__).read_text(encoding="utf-8")))
# Machines, logs, checkpoints, order of reading and other commands change no update
WITHOUT_INFLUENCE = (
    *("common", "common_eval", "distributed_training", "dataset", "checkpoint"),
    *("generation", "eval_lm", "interactive"),
)


def fairseq_defaults() -> dict[str, list[str]]:
    """All values, as text, that an option has by default with any of the parts."""
    ignored = JUDGED | {*PARTS, "data", "source_lang", "target_lang"}
    for group in WITHOUT_INFLUENCE:
        ignored |= {each.name for each in fields(getattr(FairseqConfig(), group))}
    found: dict[str, set[str]] = defaultdict(set)
    for part, names in PARTS.items():
        for name in names:
            words = ["data", "--arch", "transformer", option(part), name]
            with redirect_stderr(StringIO()), suppress(SystemExit):  # an option without a default
                parsed = options.parse_args_and_arch(options.get_training_parser(), words)
                for key, value in vars(parsed).items():
                    if key not in ignored and not key.startswith("eval_"):
                        found[key].add(str(value))
    return {key: sorted(found[key]) for key in sorted(found)}


def as_text() -> str:
    """The content of the file: one option a line."""
    lines = (json.dumps({key: values})[1:-1] for key, values in fairseq_defaults().items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    DEFAULTS.write_text(as_text(), encoding="utf-8")
