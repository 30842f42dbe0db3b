"""The vocabularies beside an exported model, and the Python code of its model card that makes plain
text numbers and back."""

from __future__ import annotations

import json
from pathlib import Path

from fairseq_aiayn.model_folder.config import Config
from fairseq_aiayn.model_folder.folder import Model
from fairseq_aiayn.model_folder.text import PIECES_FILES
from fairseq_aiayn.model_folder.vocabulary import END, PADDING, UNKNOWN

SOURCE, TARGET = "vocab.json", "target_vocab.json"

TEXT_CODE = """    import json

    from fairseq_aiayn.model_folder.text import TextProcessing

    text = {text!r}
    cut = text.cutter({source!r}, folder / "{pieces}")
    join = text.joiner({target!r})
    source = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    target = json.loads((folder / "target_vocab.json").read_text(encoding="utf-8"))
    types = {{number: one for one, number in target.items() if number not in ({end}, {padding})}}
"""


def text_values(config: Config) -> dict[str, object]:
    """Return what TEXT_CODE, and code that follows it, has in braces."""
    return {
        "text": config.text,
        "source": config.source_lang,
        "target": config.target_lang,
        "pieces": PIECES_FILES[config.text.pieces],
        "end": END,
        "padding": PADDING,
        "unknown": UNKNOWN,
        "extra": config.search.extra_length,
    }


def write_vocabularies(model: Model, folder: Path) -> None:
    """Write the number of each type of the two vocabularies."""
    for name, vocabulary in ((SOURCE, model.source), (TARGET, model.target)):
        content = json.dumps(vocabulary.number, ensure_ascii=False)
        (folder / name).write_text(f"{content}\n", encoding="utf-8")
