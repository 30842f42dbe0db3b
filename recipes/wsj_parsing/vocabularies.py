"""Learn the word pieces of the source, and write both dictionaries for fairseq-preprocess.

OUTPUT/pieces.model is a sentencepiece model of the unchanged words: every word begins with a piece
that begins with U+2581. dict.words.txt has all its pieces, so that no piece is unknown.
dict.tree.txt has the symbols of the linearized trees.

    python vocabularies.py --gold trees/train --silver trees/silver --vocabulary 32000 \\
        --sample 1000000 --output pieces
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from fairseq_aiayn.corpus.subwords import learn
from fairseq_aiayn.text import script, write_whole


def sample(files: list[Path], sentences: int) -> Iterator[str]:
    """Yield every k-th line of the files, with the smallest k that gives at most `sentences`.

    Prints their number to standard error.
    """
    total = sum(sum(1 for _ in lines_of(file)) for file in files)
    step = max(1, -(-total // sentences))
    print(f"learning from {-(-total // step):,} of {total:,} sentences", file=sys.stderr)
    number = 0
    for file in files:
        for line in lines_of(file):
            if number % step == 0:
                yield line
            number += 1


def lines_of(file: Path) -> Iterator[str]:
    """Yield the lines of a file without line ends."""
    with file.open(encoding="utf-8", newline="\n") as stream:
        for line in stream:
            yield line.removesuffix("\n")


def piece_dictionary(model: bytes) -> str:
    """Return fairseq's dictionary of all pieces except sentencepiece's special symbols."""
    processor = SentencePieceProcessor(model_proto=model)
    pieces = (
        processor.id_to_piece(index)
        for index in range(len(processor))
        if not (processor.is_control(index) or processor.is_unknown(index))
    )
    return "".join(f"{piece} 1\n" for piece in pieces)


def symbol_dictionary(files: list[Path]) -> str:
    """Return fairseq's dictionary of the symbols of linearized trees, most frequent first."""
    counts: Counter[str] = Counter()
    for file in files:
        for line in lines_of(file):
            counts.update(line.split(" "))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{symbol} {count}\n" for symbol, count in ordered)


def write_vocabularies(
    corpora: list[Path], vocabulary: int, sentences: int, output: Path
) -> tuple[int, int]:
    """Write the three files for corpora PREFIX.text and PREFIX.tree; return the numbers of types.

    Raises OSError for an unreadable file, ValueError for a vocabulary or sample that is too small.
    """
    if sentences < 1:
        raise ValueError(f"sample must be at least 1 sentence, got {sentences}")
    texts = [prefix.with_name(f"{prefix.name}.text") for prefix in corpora]
    trees = [prefix.with_name(f"{prefix.name}.tree") for prefix in corpora]
    model = learn(sample(texts, sentences), vocabulary, normalization="identity")
    dictionaries = piece_dictionary(model), symbol_dictionary(trees)
    output.mkdir(parents=True, exist_ok=True)
    for name, text in zip(("dict.words.txt", "dict.tree.txt"), dictionaries, strict=True):
        write_whole(output / name, text.encode())
    write_whole(output / "pieces.model", model)
    return dictionaries[0].count("\n"), dictionaries[1].count("\n")


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--gold", type=Path, required=True, metavar="PREFIX")
        parser.add_argument("--silver", type=Path, metavar="PREFIX")
        parser.add_argument("--vocabulary", type=int, required=True, metavar="PIECES")
        parser.add_argument("--sample", type=int, required=True, metavar="SENTENCES")
        parser.add_argument("--output", type=Path, required=True, metavar="DIR")
        arguments = parser.parse_args()
        corpora = [arguments.gold, *([arguments.silver] if arguments.silver else [])]
        pieces, symbols = write_vocabularies(
            corpora, arguments.vocabulary, arguments.sample, arguments.output
        )
        print(f"{pieces:,} word pieces, {symbols:,} symbols of trees")


if __name__ == "__main__":
    main()
