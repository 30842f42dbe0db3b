"""Plain text to a model's pieces and back, as the model's training text was made."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fairseq_aiayn.corpus.subwords import byte_pairs, sentence_pieces
from fairseq_aiayn.decoding.beam_search import Search
from fairseq_aiayn.nn.layers import (
    Dimensions,
    LearnedPositions,
    Positions,
    SinusoidalPositions,
)
from fairseq_aiayn.nn.transformer import Transformer, create_transformer
from fairseq_aiayn.paper import Decoding
from fairseq_aiayn.settings import SHARING, require_whole_attention
from fairseq_aiayn.text import (
    dataclass_of,
    optional,
    read_json,
    read_lines,
    require_plain_file,
    whole_folder,
)

BYTE_PAIRS, WORD_PIECES, NONE = "byte_pairs", "word_pieces", "none"
PIECES_FILES = {BYTE_PAIRS: "codes", WORD_PIECES: "pieces.model", NONE: None}
NOTE = "text.json"  # beside the binaries of a recipe: how their text was made
WORD_BEGINS = "▁"  # how sentencepiece marks the beginning of a word
CONTINUED = "@@ "  # how subword-nmt marks that a word goes on


@dataclass(frozen=True)
class TextProcessing:
    """How a model's text is cut.

    pieces: byte pairs after Moses tokens, sentencepiece's pieces of plain text, or none, where the
    text is in pieces already; normalize and lowercase: what is done before Moses tokens.
    """

    pieces: str
    normalize: bool = False
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.pieces not in PIECES_FILES:
            raise ValueError(
                f"'pieces' must be one of {', '.join(PIECES_FILES)}, is {self.pieces!r}"
            )

    def cutter(self, language: str, file: Path | None) -> Callable[[str], list[str]]:
        """Return the function that cuts a sentence; `file` has the byte pairs or the word pieces.

        Raises OSError or ValueError if the file cannot be read, and ValueError if a package is
        missing.
        """
        if self.pieces == NONE:
            return str.split
        if self.pieces == WORD_PIECES:
            cut = sentence_pieces(file)
            return lambda sentence: cut(sentence).split()
        with optional("sacremoses"):
            from fairseq_aiayn.corpus.moses import moses_tokenizer
        tokenize = moses_tokenizer(language, self.normalize, self.lowercase)
        segment = byte_pairs(file)
        return lambda sentence: segment(tokenize(sentence)).split()

    def joiner(self, language: str) -> Callable[[list[str]], str]:
        """Return the function that makes plain text of pieces of a language."""
        if self.pieces == NONE:
            return " ".join
        if self.pieces == WORD_PIECES:
            return lambda pieces: "".join(pieces).replace(WORD_BEGINS, " ").strip()
        with optional("sacremoses"):
            from sacremoses import MosesDetokenizer
        detokenize = MosesDetokenizer(lang=language).detokenize
        return lambda pieces: detokenize(f"{' '.join(pieces)} ".replace(CONTINUED, "").split())


def text_of_files(
    codes: Path | None, model: Path | None, normalize: bool = False, lowercase: bool = False
) -> tuple[TextProcessing, Path | None]:
    """Return how text is cut by byte pairs (codes), by word pieces (model), or by neither, and the
    file that cuts it."""
    kind = BYTE_PAIRS if codes else WORD_PIECES if model else NONE
    return TextProcessing(kind, normalize, lowercase), codes or model


def text_of_data(data: Path) -> tuple[TextProcessing, Path | None]:
    """Return how the text of a recipe's data directory was made, and the file that cut it.

    Without the recipe's note, a parser's pieces.model is recognized, and other text is taken to be
    in pieces already. Raises OSError or ValueError for a note that cannot be read.
    """
    note = data / NOTE
    if note.exists():
        text = dataclass_of(read_json(note), TextProcessing, note)
    else:
        has_model = (data / PIECES_FILES[WORD_PIECES]).exists()
        text = TextProcessing(WORD_PIECES if has_model else NONE)
    name = PIECES_FILES[text.pieces]
    return text, data / name if name else None


# A vocabulary with fairseq's numbers, read from a dictionary file of fairseq-preprocess.


SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # the first types of every dictionary of fairseq
BEGIN, PADDING, END, UNKNOWN = range(4)
REPLACES = "#fairseq:overwrite"  # at the end of a line whose type may already be there


@dataclass(frozen=True)
class Vocabulary:
    """The types of one language, in the order of their numbers."""

    types: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.types)

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each type; of a type that a later line replaces, the later one."""
        return {one: number for number, one in enumerate(self.types)}

    def numbers(self, pieces: Iterable[str]) -> list[int]:
        """Return the numbers of pieces and of the end token; unknown pieces are <unk>."""
        return [*(self.number.get(piece, UNKNOWN) for piece in pieces), END]

    def pieces(self, numbers: Sequence[int]) -> list[str]:
        """Return the types of these numbers without <s> and </s>."""
        return [self.types[number] for number in numbers if number not in (BEGIN, END)]


def read_vocabulary(path: Path, special: Iterable[str] = SPECIAL) -> Vocabulary:
    """Read lines of a type and its count; the special types come first.

    Raises OSError, or ValueError with the file and the line for another line or a type that is
    there already.
    """
    require_plain_file(path)
    lines = read_lines(path)
    if not lines:
        raise ValueError(f"{path}: must have one word per line, is empty")
    types = list(special)
    known = set(types)
    for number, line in enumerate(lines, start=1):
        word, replaces = _word(line, f"{path}:{number}")
        if word in known and not replaces:
            raise ValueError(f"{path}:{number}: must be a new word, {word[:60]!r} is there already")
        types.append(word)
        known.add(word)
    return Vocabulary(tuple(types))


def _word(line: str, where: str) -> tuple[str, bool]:
    """Return the type of a line, and whether it may replace another."""
    word, _, count = line.rstrip().rpartition(" ")
    replaces = count == REPLACES
    if replaces:
        word, _, count = word.rpartition(" ")
    if not word.strip() or not (count.isascii() and count.isdigit() and len(count) < 19):
        raise ValueError(f"{where}: must be a word and how often it occurs, is {line[:60]!r}")
    return word, replaces


# What config.json says of a model, beside its weights.


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
        Search(self.search.beam, self.search.alpha, self.search.extra_length)
        lengths = self.learned_lengths
        if lengths is not None and ([*map(type, lengths)] != [int, int] or min(lengths) < 1):
            raise ValueError(f"'learned_lengths' must be two numbers from 1 on, is {lengths!r}")


def config_from_json(content: object, where: object) -> Config:
    """Make a Config of a JSON object; raises ValueError, with the place, for any other content."""
    try:
        config = dataclass_of(content, Config, where)
        require_whole_attention(content["sizes"])
        return config
    except ValueError as error:
        message = str(error)
        raise ValueError(message if str(where) in message else f"{where}: {message}") from None


# A model's parameters in a safetensors file; a matrix that several parts share is stored once.


TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class NoInitialValues(TorchFunctionMode):
    """Draws no initial values: on the meta device, PyTorch imports its compiler for each kind of
    draw, which takes longer than everything else that reads a folder."""

    def __torch_function__(
        self, function: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        kwargs = kwargs or {}
        module = getattr(function, "__module__", None)  # functions in C have none
        if module == "torch.nn.init" or function.__name__ == "uniform_":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


def empty_transformer(config: Config, V_source: int, V_target: int, padding: int) -> Transformer:
    """Build the model that a Config describes, without memory for its weights and without
    sinusoids, which `fill` computes when the weights have shown that their size is real.

    Raises ValueError for sizes that no Transformer can have.
    """
    lengths = tuple(config.learned_lengths) if config.learned_lengths else (1, 1)
    try:
        with torch.device("meta"), NoInitialValues():
            transformer = create_transformer(
                config.sizes, V_source, V_target, padding, config.sharing, learned_lengths=lengths
            )
    except (RuntimeError, TypeError):  # how PyTorch refuses numbers beyond 64 bits
        raise ValueError("its sizes must fit into 64 bits, do not") from None
    if config.learned_lengths is None:
        transformer.encoder.position = transformer.decoder.position = Positions()
    return transformer.eval()


def save_weights(transformer: Transformer, precision: str, path: Path) -> None:
    """Write a model's parameters in a precision; raises ValueError for one that is not finite, and
    OSError if the file cannot be written."""
    with optional("safetensors"):
        from safetensors.torch import save_file
    converted = {  # a shared matrix has one name
        name: one.detach().to(TYPES[precision]).contiguous()
        for name, one in transformer.named_parameters()
    }
    for name, tensor in converted.items():
        require_finite(f"{name} in {precision}", tensor)
    with safetensors_writes(path):
        save_file(converted, path)


@contextmanager
def safetensors_writes(path: Path) -> Iterator[None]:
    """Turn the error that safetensors raises for a full disk into an OSError with the path."""
    with optional("safetensors"):
        from safetensors import SafetensorError
    try:
        yield
    except SafetensorError as error:
        raise OSError(f"{path}: {error}") from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file; raises OSError, or ValueError for a damaged one."""
    with optional("safetensors"):
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    try:
        return load_file(path)
    except SafetensorError:
        raise ValueError(f"{path}: must be a safetensors file, is not or is cut short") from None


def fill(transformer: Transformer, found: Mapping[str, Tensor], where: object) -> None:
    """Give a model of `empty_transformer` these parameters, as float32.

    Raises ValueError, with the place that they are from, for other parameters or shapes than the
    model's, for another type than a folder's, and for a value that is not finite.
    """
    names = dict(transformer.named_parameters())
    if odd := sorted(names.keys() ^ found.keys()):
        has = "lacks" if odd[0] in names else "has"
        raise ValueError(f"{where}: must have the parameters of its configuration, {has} {odd[0]}")
    for name, own in names.items():
        if found[name].shape != own.shape:
            raise ValueError(
                f"{where}: does not fit its configuration and vocabularies, {name} is "
                f"{list(found[name].shape)} there and {list(own.shape)} by them"
            )
        if found[name].dtype not in TYPES.values():
            kind = str(found[name].dtype).removeprefix("torch.")
            raise ValueError(f"{where}: {name} must be one of {', '.join(TYPES)}, is {kind}")
        require_finite(f"{where}: {name}", found[name])
    for name, tensor in found.items():
        module, _, attribute = name.rpartition(".")
        parameter = torch.nn.Parameter(tensor.float(), requires_grad=False)
        setattr(transformer.get_submodule(module), attribute, parameter)
    if not isinstance(transformer.encoder.position, LearnedPositions):
        sinusoids = SinusoidalPositions(transformer.encoder.embedding.weight.size(1))
        transformer.encoder.position = transformer.decoder.position = sinusoids


def require_finite(name: str, tensor: Tensor) -> None:
    """Raise ValueError, with the name, unless all values are numbers."""
    if not tensor.isfinite().all():
        raise ValueError(f"{name} must have finite values, has infinite ones or NaN")


# The README.md of a model folder: what the model is, how it was trained, how to use it.


NOT_TOLD = "not recorded"


def model_card(config: Config, parameters: int, use: str = "") -> str:
    """Return the text of the card; `use` says how to use the model, by default with `aiayn`."""
    options = config.options
    sizes = ", ".join(f"{name} {value:g}" for name, value in vars(config.sizes).items() if value)
    search = (
        f"beam {config.search.beam}, α {config.search.alpha:g}, output at most "
        f"{config.search.extra_length} tokens longer than the input"
    )
    training = {
        "--max-tokens": options.get("max_tokens", NOT_TOLD),
        "--update-freq": str(options.get("update_freq", NOT_TOLD)).strip("[]"),
        "processes": options.get("distributed_world_size", NOT_TOLD),
        "updates": f"at most {options.get('max_update', NOT_TOLD)}",
        "seed": options.get("seed", NOT_TOLD),
        "initial values": options.get("initialization", NOT_TOLD),
    }
    told = {name: config.told.get(name, NOT_TOLD) for name in ("data", "scores", "licence")}
    command = "translate" if config.task == "translation" else "parse --model"
    use = use or f"    aiayn {command} THIS_FOLDER < text\n"
    return f"""# {config.source_lang} to {config.target_lang}, row {config.row}

A Transformer as in [Attention Is All You Need](https://arxiv.org/abs/1706.03762), for
{config.task}: {sizes}; {parameters:,} parameters, stored in {config.precision}.

{use}
{_listed(told)}
## Training

{_listed(training)}
## Search and text

{_listed({"search": search, "text": config.text.pieces.replace("_", " ")})}"""


def _listed(facts: Mapping[str, object]) -> str:
    return "".join(f"- {name}: {value}\n" for name, value in facts.items())


# A model folder as it lies on the disk: written whole or not at all, read strictly.
#
# model.safetensors   the parameters, a shared matrix once
# config.json         see config.py
# source.txt          the vocabularies, as fairseq-preprocess writes them
# target.txt
# codes               byte pairs of subword-nmt, or
# pieces.model        word pieces of sentencepiece; neither if the text is in pieces already
# README.md           the model card


WEIGHTS, CONFIG, SOURCE, TARGET = "model.safetensors", "config.json", "source.txt", "target.txt"


@dataclass(frozen=True)
class Model:
    """A trained model with its vocabularies and the file that cuts its text, if there is one."""

    config: Config
    transformer: Transformer
    source: Vocabulary
    target: Vocabulary
    pieces_file: Path | None


@dataclass(frozen=True)
class Files:
    """The files that a folder gets copies of."""

    source: Path  # dictionaries of fairseq-preprocess
    target: Path
    pieces: Path | None


def write_folder(config: Config, transformer: Transformer, files: Files, path: Path) -> None:
    """Write a folder; it appears whole or not at all.

    Raises ValueError if `path` exists or a parameter is not finite in the folder's precision, and
    OSError if a file cannot be read or written.
    """
    with whole_folder(path) as part:
        save_weights(transformer, config.precision, part / WEIGHTS)
        copies = [(files.source, SOURCE), (files.target, TARGET)]
        if files.pieces:
            copies.append((files.pieces, PIECES_FILES[config.text.pieces]))
        for file, name in copies:
            shutil.copyfile(file, part / name)
        config = replace(config, sha256={name: sha256_of(part / name) for _, name in copies})
        card = model_card(config, sum(one.numel() for one in transformer.parameters()))
        (part / "README.md").write_text(card, encoding="utf-8")
        content = json.dumps(asdict(config), indent=2, ensure_ascii=False)
        # Last: what a killed run leaves has no configuration, and is no model
        (part / CONFIG).write_text(f"{content}\n", encoding="utf-8")


def read_folder(path: Path) -> Model:
    """Read a folder.

    Raises OSError for a file that is missing, and ValueError, with the file and the rule, for one
    that is damaged, of another version, or does not fit the others.
    """
    if not path.is_dir():
        raise ValueError(f"{path}: must be the folder of a model, which aiayn export writes")
    config = _read_config(path)
    source, target = (read_vocabulary(path / name) for name in (SOURCE, TARGET))
    try:
        transformer = empty_transformer(config, len(source), len(target), PADDING)
    except ValueError as error:
        raise ValueError(f"{path / CONFIG}: {error}") from None
    require_plain_file(path / WEIGHTS)
    (path / WEIGHTS).stat()  # a missing file; safetensors would say it in words of its own
    fill(transformer, read_weights(path / WEIGHTS), path / WEIGHTS)
    name = PIECES_FILES[config.text.pieces]
    return Model(config, transformer, source, target, path / name if name else None)


def _read_config(path: Path) -> Config:
    """Read the configuration; raises as `read_folder` does, and ValueError for a changed file."""
    require_plain_file(path / CONFIG)
    config = config_from_json(read_json(path / CONFIG), path / CONFIG)
    names = (SOURCE, TARGET, PIECES_FILES[config.text.pieces])
    require_unchanged(path, filter(None, names), config)
    return config


def require_unchanged(path: Path, names: Iterable[str], config: Config) -> None:
    """Raise ValueError for a file in a directory whose SHA-256 is not that of the configuration.

    A damaged model shows itself, but half of the byte pairs would silently cut text wrongly.
    """
    for name in names:
        require_plain_file(path / name)
        if config.sha256.get(name) != sha256_of(path / name):
            raise ValueError(f"{path / name}: must be as it was exported, its SHA-256 is another")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
