"""What config.json says of a model, beside its weights."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fairseq_aiayn.decoding.beam_search import SearchOptions
from fairseq_aiayn.decoding.maximum_length import MaximumLength
from fairseq_aiayn.files.json_fields import dataclass_of
from fairseq_aiayn.model_folder.text import TextProcessing
from fairseq_aiayn.nn.dimensions import Dimensions
from fairseq_aiayn.paper import Decoding
from fairseq_aiayn.regime.names import SHARING

FORMAT = 1  # of the folder; a reader refuses any other
OF_CTRANSLATE2 = "aiayn.json"  # the file's name in a directory for CTranslate2
PRECISIONS = ("float32", "float16", "bfloat16")
TASKS = ("translation", "parsing")
LANGUAGE = re.compile(r"[\w-]+")  # it becomes part of file names in Moses' packages


@dataclass(frozen=True)
class Config:
    """A trained model: what it is, how its text is made, how it searches."""

    format: int
    task: str
    row: str  # of aiayn rows, without aiayn_
    source_lang: str
    target_lang: str
    sizes: Dimensions
    sharing: str  # see nn/transformer.py
    search: Decoding
    text: TextProcessing
    precision: str = "float32"  # of the weights in the file
    learned_lengths: list | None = None  # longest source and target; None: sinusoids
    sha256: dict[str, str] = field(default_factory=dict)  # of every text file and pieces file
    versions: dict = field(default_factory=dict)  # of the packages that wrote the folder
    options: dict = field(default_factory=dict)  # of the training, under fairseq's names
    told: dict = field(default_factory=dict)  # data, scores, licence: for the model card

    def __post_init__(self) -> None:
        """Raise ValueError for a value that this version does not know."""
        if self.format != FORMAT:
            raise ValueError(
                f"'format' must be {FORMAT}, is {self.format}: another version's folder"
            )
        for name, known in (
            ("task", TASKS),
            ("sharing", SHARING.values()),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name!r} must be one of {', '.join(known)}, is {getattr(self, name)!r}"
                )
        for language in (self.source_lang, self.target_lang):
            if not LANGUAGE.fullmatch(language):
                raise ValueError(f"a language must be letters, digits, - or _, is {language!r}")
        SearchOptions(self.search.beam, self.search.alpha)
        MaximumLength(1, self.search.extra_length)
        lengths = self.learned_lengths
        if lengths is not None and ([*map(type, lengths)] != [int, int] or min(lengths) < 1):
            raise ValueError(f"'learned_lengths' must be two numbers from 1 on, is {lengths!r}")


def config_from_json(content: object, where: object) -> Config:
    """Make a Config of a JSON object; raises ValueError, with the place, for any other content."""
    try:
        return dataclass_of(content, Config, where)
    except ValueError as error:
        message = str(error)
        raise ValueError(message if str(where) in message else f"{where}: {message}") from None
