"""Say what fits a text of one's own; with --output, write its training, validation and test set.

    python own_text.py --corpus DIR --source-lang en --target-lang de --held-out 1000 [--device cpu]

DIR has train.en and train.de, or train.tsv with a source, a tab and a target in each line, and with
the name of its document if there is a third column; perhaps valid.* (or dev.*) and test.*; all may
end in .gz. A set that is missing is held out of train, in whole documents or in blocks of
consecutive lines, because lines that are alike stand together. Left out are pairs with an empty
side, in test and valid those that are too long, and in valid and train those that have a side in
common with test or valid.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fairseq_aiayn.console import note, script
from fairseq_aiayn.files import read_line_pairs, stream_lines, whole_file
from fairseq_aiayn.inference.description import read_config
from fairseq_aiayn.inference.export import folder_or_run
from fairseq_aiayn.paper import BASE, VOCABULARY_EN_DE, find_row
from fairseq_aiayn.scores import is_unspaced
from fairseq_aiayn.settings import FITS, SIZE_OPTIONS, Fit, fitting, option

SETS = {"test": ("test",), "valid": ("valid", "dev"), "train": ("train",)}
LONGEST = {"words": 250, "characters": 1_000}  # of a sentence
HELD_OUT_SHARE = 0.05  # the largest share of train for each set that is held out
DOCUMENT_SHARE, SHORT = 0.1, 10  # of such a set, lines: a document with more of both stays in train
CPU_TOKENS = 4_000  # per second, of multi30k_tiny in float32 on two cores of an AMD EPYC, about
TUNING = 0.1  # of the updates of a training from the beginning, and of its highest learning rate

Pair = tuple[str, str]


@dataclass(frozen=True)
class Corpus:
    """A text: the files of each set, none for one that is to be held out, and counts of train."""

    files: dict[str, list[Path]]
    pairs: int
    unit: str  # of lengths: characters if a side has no spaces between words, or else words
    expected: float  # units of a target for each of its source
    characters: int  # different ones
    block: int  # lines that are a document; 0 if documents have names
    set_of: dict[str, str]  # documents that are not in train

    def read(self, name: str) -> Iterator[Pair]:
        """Yield the pairs of a set that is given, or of the documents of train that are in it."""
        is_given = name != "train" and self.files[name]
        lines = read_lines(self.files[name] or self.files["train"])
        for number, (source, target, document) in enumerate(lines):
            document = str(number // self.block) if self.block else document
            if is_given or self.set_of.get(document, "train") == name:
                yield source, target


def survey(directory: Path, languages: Pair, held_out: int) -> Corpus:
    """Read train; raises OSError or ValueError for files that cannot be used."""
    files = {name: files_of(directory, name, languages) for name in SETS}
    characters, words = (Counter[str](), Counter[str]()), [0, 0]
    documents, pairs = Counter[str](), 0
    for pairs, (*sides, document) in enumerate(read_lines(files["train"]), start=1):
        documents[document] += 1
        for side, line in enumerate(sides):
            characters[side].update(line.replace(" ", ""))
            words[side] += len(line.split())
    if not all(characters):
        raise ValueError(f"{files['train'][0]}: expected sentences in both languages, got none")
    unit = "characters" if any(map(is_unspaced, characters)) else "words"
    totals = [side.total() for side in characters] if unit == "characters" else words
    expected = float(f"{totals[1] / totals[0]:.2g}")
    size = max(1, min(held_out, int(HELD_OUT_SHARE * pairs)))
    block = 0 if documents.keys() != {""} else max(SHORT, int(DOCUMENT_SHARE * size))
    if block:
        documents = Counter({str(number): block for number in range(pairs // block)})
    missing = [name for name in SETS if not files[name]]
    set_of = held_out_documents(documents, size, missing)
    if lacking := [name for name in missing if name not in set_of.values()]:
        raise ValueError(
            f"{directory}: expected {' and '.join(lacking)}, too: train has too few lines, or too "
            "long documents, to hold any out of it"
        )
    return Corpus(files, pairs, unit, expected, len(characters[0] | characters[1]), block, set_of)


def held_out_documents(lines: Mapping[str, int], size: int, sets: list[str]) -> dict[str, str]:
    """Give whole documents to each of the sets until it has `size` lines.

    Documents are ordered by a hash of their names. This order is the same on every machine and
    unrelated to the order of the corpus, in which neighbouring documents are alike.
    """
    order = sorted(lines, key=lambda name: hashlib.sha256(name.encode()).digest())
    most = max(SHORT, DOCUMENT_SHARE * size)
    waiting = (name for name in order if lines[name] <= most)
    set_of = {}
    for each in sets:
        taken = 0
        while taken < size and (name := next(waiting, None)):
            set_of[name] = each
            taken += lines[name]
    return set_of


def files_of(directory: Path, name: str, languages: Pair) -> list[Path]:
    """Return the files of a set, none if it is not there; raises ValueError for other files."""
    found: dict[str, list[Path]] = {}
    for kind in ("tsv", *languages):
        paths = [directory / f"{stem}.{kind}{end}" for stem in SETS[name] for end in ("", ".gz")]
        if there := [path for path in paths if path.exists()]:
            found[kind] = there
    files = [path for paths in found.values() for path in paths]
    is_whole = [*found] in (["tsv"], [*languages]) and len(files) == len(found)
    if not is_whole and (files or name == "train"):
        sides = " and ".join(f"{name}.{language}" for language in languages)
        got = ", ".join(path.name for path in files) or "none"
        raise ValueError(f"{directory}: expected {sides}, or {name}.tsv, plain or .gz, got {got}")
    return files


def read_lines(files: list[Path]) -> Iterator[tuple[str, str, str]]:
    """Yield source, target, both with single spaces, and document of each line of two files or a
    table; raises what `read_line_pairs` does, and ValueError for another number of columns."""
    table = (line.split("\t") for line in stream_lines(files[0]))
    lines = read_line_pairs(*files) if len(files) == 2 else table
    for number, columns in enumerate(lines, start=1):
        if len(columns) not in (2, 3):
            expected = "expected a source, a tab and a target"
            raise ValueError(f"{files[0]}:{number}: {expected}, got {len(columns)} columns")
        source, target = (" ".join(side.split()) for side in columns[:2])
        yield source, target, "".join(columns[2:])


def write_sets(corpus: Corpus, languages: Pair, output: Path) -> None:
    """Write all sets and say what each has; raises ValueError for one without a pair."""
    output.mkdir(parents=True, exist_ok=True)
    held: list[Pair] = []  # pairs of test and valid
    for name in SETS:
        seen, counts = [{pair[side] for pair in held} for side in (0, 1)], Counter[str]()
        paths = [output / f"{name}.{language}" for language in languages]
        with whole_file(paths[0]) as first, whole_file(paths[1]) as second:
            for pair in corpus.read(name):
                units = [side.split() if corpus.unit == "words" else side for side in pair]
                if not all(units):
                    counts["with an empty side"] += 1
                elif name != "train" and max(map(len, units)) > LONGEST[corpus.unit]:
                    counts[f"of more than {LONGEST[corpus.unit]:,} {corpus.unit}"] += 1
                elif pair[0] in seen[0] or pair[1] in seen[1]:
                    counts["with a side of test or valid"] += 1
                else:
                    counts["kept"] += 1
                    counts["same"] += pair[0] == pair[1]
                    first.write(f"{pair[0]}\n")
                    second.write(f"{pair[1]}\n")
                    held += [pair] if name != "train" else []
            kept, same = counts.pop("kept", 0), counts.pop("same", 0)
            out = ", ".join(f"{number:,} {why}" for why, number in counts.items())
            out = out and f"; left out: {out}"
            if not kept:
                raise ValueError(f"{name}: expected pairs, got none{out}")
        origin = "" if corpus.files[name] else ", held out of train in blocks of lines or documents"
        alike = f", {same:,} of them with one text on both sides" if same else ""
        note(f"{name}: {kept:,} pairs{alike}{origin}{out}")


# --- what fits --------------------------------------------------------------------------------


def choices(corpus: Corpus, is_cpu: bool) -> tuple[str, int, float, int, int]:
    """Return what fits the text: its row, updates, dropout and vocabulary, and minutes on a CPU."""
    fit = fitting(corpus.pairs) or Fit(corpus.pairs, BASE, VOCABULARY_EN_DE)
    row = FITS[0].row if is_cpu else fit.row  # on a CPU, the others take weeks
    # SentencePiece counts characters among its pieces, subword-nmt only what it merges
    vocabulary = fit.vocabulary + corpus.characters * (corpus.unit == "characters")
    minutes = round(row.steps * row.batch_tokens / CPU_TOKENS / 60)
    return row.name, row.steps, row.P_drop, vocabulary, minutes


def tuning(model: Path, languages: Pair, steps: int) -> list[object]:
    """Return how a model's text is cut, its row and other sizes than the row's, and updates,
    warm-up and factor of a learning rate to go on for so many steps; raises ValueError for a
    parser, a model of text in pieces or of other languages, and what `folder_or_run` does."""
    given = folder_or_run(model)
    config = read_config(given) if isinstance(given, Path) else given.read().config
    row, text = find_row(config.row), config.text
    if config.task != "translation" or text.pieces == "none":
        raise ValueError(f"{model}: expected a translation model that cuts text itself")
    models = config.source_lang, config.target_lang
    if [name.split("_")[0] for name in models] != [name.split("_")[0] for name in languages]:
        given_pair = " to ".join(languages)
        raise ValueError(f"{model}: translates {' to '.join(models)}, the text is {given_pair}")
    warmup = max(1, steps // 10)
    factor = f"{TUNING * row.lr_factor * math.sqrt(warmup / row.warmup):.3g}"
    sizes = [  # which fairseq would otherwise take from the row
        f"{option(name)} {config.options[name]}"
        for name, symbol in SIZE_OPTIONS.items()
        if config.options.get(name, getattr(row, symbol)) != getattr(row, symbol)
    ]
    return [text.pieces, text.normalize, text.lowercase, row.name, steps, warmup, factor, *sizes]


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--corpus", type=Path, required=True)
        parser.add_argument("--source-lang", required=True)
        parser.add_argument("--target-lang", required=True)
        parser.add_argument("--held-out", type=int, required=True, metavar="PAIRS")
        parser.add_argument("--output", type=Path)
        parser.add_argument("--device", default="cuda", help="that will train")
        parser.add_argument("--model", type=Path, help="folder or run to fine-tune")
        parser.add_argument("--max-update", type=int, default=0, help="to tune it; 0: what fits")
        given = parser.parse_args()
        languages = given.source_lang, given.target_lang
        corpus = survey(given.corpus, languages, given.held_out)
        if given.output:
            write_sets(corpus, languages, given.output)
            return
        fits = choices(corpus, given.device == "cpu")
        print(corpus.pairs, corpus.unit, corpus.expected, *fits)
        if given.model:
            steps = given.max_update or max(1, int(TUNING * fits[1]))
            print(*tuning(given.model, languages, steps))


if __name__ == "__main__":
    main()
