"""What a trained model is, as data: configuration, text processing and vocabularies; and the files
of its folder. Nothing here imports torch.

model.safetensors   the parameters; a matrix that several parts share is stored once
config.json         a Config
source.txt          the vocabularies, as fairseq-preprocess writes them
target.txt
codes               byte pairs of subword-nmt, or
pieces.model        word pieces of sentencepiece; neither if the text is in pieces already
README.md           the model card
ctranslate2/        the model for CTranslate2, if it was installed
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from fairseq_aiayn.corpus.pieces import BEGINS, GOES_ON
from fairseq_aiayn.decoding.search import Search
from fairseq_aiayn.files import read_dataclass, require_plain, stream_lines
from fairseq_aiayn.nn.dimensions import LONGEST_SINUSOIDS, Dimensions, Sharing
from fairseq_aiayn.paper import Decoding

if TYPE_CHECKING:
    from fairseq_aiayn.nn.transformer import Transformer

__all__ = [
    "END",
    "FOR_CTRANSLATE2",
    "IN_HAND",
    "LONGEST",
    "SPECIAL",
    "Model",
    "Precision",
    "TextProcessing",
    "Vocabulary",
    "read_config",
]

IN_HAND = Path(__file__).parents[1] / "help_en_de"  # the model of the package; make model wrote it
WEIGHTS, CONFIG, SOURCE, TARGET = "model.safetensors", "config.json", "source.txt", "target.txt"
LONGEST = 1_024  # tokens of a sentence; attention and the search take far more time for more
FOR_CTRANSLATE2 = "ctranslate2"  # the part of a folder that CTranslate2 reads
Precision = Literal["float32", "float16", "bfloat16"]
Task = Literal["translation", "parsing"]

PIECES_FILES = {"byte_pairs": "codes", "word_pieces": "pieces.model"}
TEXT_FILES = (SOURCE, TARGET, *PIECES_FILES.values())
VOCABULARIES = tuple(f"{kind}_vocabulary.json" for kind in ("shared", "source", "target"))
CTRANSLATE2_FILES = (  # what it reads
    *TEXT_FILES,
    *(f"{FOR_CTRANSLATE2}/{name}" for name in ("config.json", "model.bin", *VOCABULARIES)),
)

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # the first types of every dictionary of fairseq
BEGIN, PADDING, END, UNKNOWN = range(4)
# A type, its count, and whether the type may already be there
VOCABULARY_LINE = re.compile(r"(.+) [0-9]+( #fairseq:overwrite)?\s*")


@dataclass(frozen=True)
class Config:
    """A trained model: what it is, how its text is made, how it searches."""

    format: Literal[1]  # another version's folder has another
    task: Task
    row: str  # of aiayn rows, without aiayn_
    source_lang: str
    target_lang: str
    sizes: Dimensions
    sharing: Sharing
    search: Decoding
    text: TextProcessing
    precision: Precision = "float32"  # of the weights in the file
    learned_lengths: tuple[int, int] | None = None  # longest source and target; None: sinusoids
    sha256: dict[str, str] = field(default_factory=dict)  # of every file; in old folders, of texts
    versions: dict = field(default_factory=dict)  # of the packages that wrote the folder
    options: dict = field(default_factory=dict)  # of the training, under fairseq's names
    told: dict = field(default_factory=dict)  # data, scores, licence, use: for the model card

    @property
    def most_tokens(self) -> tuple[int, int, int]:
        """How many tokens a source, a given target and an output may have before the end token,
        which takes a position, too."""
        if self.learned_lengths is None:
            return LONGEST, LONGEST, LONGEST_SINUSOIDS - 1
        source, target = self.learned_lengths
        return source - 1, target - 1, target - 1

    def search_options(
        self, V: int, beam: int | None, alpha: float | None = None, nbest: int = 1
    ) -> Search:
        """Return the options of a search over a target vocabulary of V entries; None is the default
        of the model's task. Raises ValueError for a value that is out of range."""
        beam = self.search.beam if beam is None else beam
        alpha = self.search.alpha if alpha is None else alpha
        return Search(beam, alpha, self.search.extra_length, nbest=nbest).over(V)


def read_config(folder: Path, unchanged: Sequence[str] = ()) -> Config:
    """Read the configuration of a folder; raises OSError, or ValueError if it is unusable or if the
    SHA-256 of an `unchanged` file is not the one in it; half of the byte pairs, for example, would
    silently cut text wrongly."""
    config = read_dataclass(Config, folder / CONFIG)
    for name in unchanged:
        is_known = name in config.sha256 or name != WEIGHTS  # old folders have no SHA-256 of these
        if is_known and sha256_of(folder / name) != config.sha256.get(name, ""):
            raise ValueError(
                f"{folder / name}: changed since the export, its SHA-256 is another: use a copy, or"
                " export the model again"
            )
    return config


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits, empty if there is no file."""
    require_plain(file)
    if not file.exists():
        return ""
    digest = sha256()
    with file.open("rb") as content:
        for part in iter(partial(content.read, 2**20), b""):
            digest.update(part)
    return digest.hexdigest()


def require_task(config: Config, task: Task, name: object) -> None:
    """Raise ValueError, with the name of a model, unless it is for a task."""
    kinds = {"translation": "a translation model", "parsing": "a parser"}
    if config.task != task:
        raise ValueError(f"{name}: expected {kinds[task]}, got {kinds[config.task]}")


Cut = Callable[[str], list[str]]  # from a sentence to its pieces
Join = Callable[[list[str]], str]  # from pieces to plain text


@dataclass(frozen=True)
class TextProcessing:
    """How a model's text is cut: `pieces` are byte pairs after Moses tokens, sentencepiece's of
    plain text, or none, where the text is in pieces; the other two are done before Moses tokens."""

    pieces: Literal["byte_pairs", "word_pieces", "none"]
    normalize: bool = False
    lowercase: bool = False

    def file_in(self, folder: Path) -> Path | None:
        """Return the path in a folder of the file that cuts text; None if text is in pieces."""
        return folder / PIECES_FILES[self.pieces] if self.pieces != "none" else None

    def cutter(self, language: str, file: Path | None) -> Cut:
        """Return the function that cuts a sentence; `file` has the byte pairs or the word pieces.
        Raises OSError or ValueError if it cannot be read."""
        if self.pieces == "none":
            return str.split
        from fairseq_aiayn.corpus.subwords import byte_pairs, sentence_pieces

        if self.pieces == "word_pieces":
            cut = sentence_pieces(cast(Path, file))
            return lambda sentence: cut(sentence).split()
        from fairseq_aiayn.corpus.moses import moses_tokenizer

        tokenize = moses_tokenizer(language, self.normalize, self.lowercase)
        segment = byte_pairs(cast(Path, file))
        return lambda sentence: segment(tokenize(sentence)).split()

    def joiner(self, language: str) -> Join:
        """Return the function that makes plain text of pieces of a language."""
        if self.pieces == "none":
            return " ".join
        if self.pieces == "word_pieces":
            return lambda pieces: "".join(pieces).replace(BEGINS, " ").strip()
        from sacremoses import MosesDetokenizer

        detokenize = MosesDetokenizer(lang=language).detokenize
        return lambda pieces: detokenize(f"{' '.join(pieces)} ".replace(f"{GOES_ON} ", "").split())


@dataclass(frozen=True)
class Vocabulary:
    """The types of one language, in the order of their numbers."""

    types: tuple[str, ...]
    file: Path = field(default=Path(), compare=False)  # that it was read from

    def __len__(self) -> int:
        return len(self.types)

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each type; of a type that a later line replaces, the later one."""
        return {piece: number for number, piece in enumerate(self.types)}

    def numbers(self, pieces: Sequence[str]) -> list[int]:
        """Return the numbers of pieces and of the end token, nothing without pieces; unknown pieces
        are <unk>."""
        return [*(self.number.get(piece, UNKNOWN) for piece in pieces), END] if pieces else []

    def pieces(self, numbers: Sequence[int]) -> list[str]:
        """Return the types of these numbers without <s> and </s>."""
        return [self.types[number] for number in numbers if number not in (BEGIN, END)]


def read_vocabulary(path: Path) -> Vocabulary:
    """Read lines of a type and its count, after the special types; raises OSError, or ValueError
    with the file and the line for another line, and for a type that was there before."""
    types = list(SPECIAL)
    seen = set(types)
    for number, line in enumerate(stream_lines(path), start=1):
        match = VOCABULARY_LINE.fullmatch(line)
        if not match:
            raise ValueError(f"{path}:{number}: expected a word and its count, got {line[:60]!r}")
        if match[1] in seen and not match[2]:
            raise ValueError(f"{path}:{number}: {match[1]!r} is in the file or special already")
        seen.add(match[1])
        types.append(match[1])
    return Vocabulary(tuple(types), path)


@dataclass(frozen=True)
class Model:
    """A trained model with its vocabularies and the file that cuts its text, if there is one."""

    config: Config
    transformer: Transformer
    source: Vocabulary
    target: Vocabulary
    pieces_file: Path | None
    name: str = "the model"  # in messages
