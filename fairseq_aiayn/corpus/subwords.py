"""Cut text into subwords (section 5.1): by byte-pair encoding or by a SentencePiece model.

    python -m fairseq_aiayn.corpus.subwords apply --codes codes --workers 2 < tokens > subwords
    python -m fairseq_aiayn.corpus.subwords learn --text tokens/train.en tokens/train.fr \\
        --vocabulary 32000 --sample 1000000 --output model

`apply` cuts standard input. `learn` writes a SentencePiece model of a sample of parallel text, with
bottom-up merges, as word pieces were first learned; the same text gives the same model, byte for
byte.
"""

from __future__ import annotations

import io
import math
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr
from functools import cache, lru_cache, partial
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from fairseq_aiayn.console import script
from fairseq_aiayn.corpus.workers import in_order
from fairseq_aiayn.files import STANDARD_INPUT, stream_lines, write_whole

__all__ = ["byte_pairs", "sentence_pieces"]

CutLine = Callable[[str], str]  # from a line to its subwords, separated by spaces

CACHED_WORDS = 200_000
CHUNK_LINES = 20_000  # lines per task of a worker


def byte_pairs(codes: Path) -> CutLine:
    """Return a function that does to a line what `subword-nmt apply-bpe --codes` does; raises
    OSError or ValueError if the codes cannot be read."""
    from subword_nmt.apply_bpe import BPE

    try:
        # subword-nmt prints the error, then exits.
        file = codes.open(encoding="utf-8-sig", newline="\n")
        with file, redirect_stderr(io.StringIO()):
            bpe = BPE(file)
            bpe.segment("word")  # fails for codes of an unknown version
            if all(second.removesuffix("</w>").isdecimal() for _, second in bpe.bpe_codes):
                raise ValueError
    except (ValueError, SystemExit, NotImplementedError) as error:
        got = kind_of_codes(codes)
        raise ValueError(f"{codes}: expected the codes of subword-nmt learn-bpe{got}") from error

    @lru_cache(CACHED_WORDS)
    def segment(word: str) -> str:
        bpe.cache.clear()  # it is unbounded, unlike the lru_cache around this function
        return bpe.segment(word)

    return lambda line: " ".join(segment(word) for word in line.split(" ") if word)


def kind_of_codes(path: Path) -> str:
    """Return what a file has in place of subword-nmt's codes; empty if that is not known."""
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = [line.split() for line in islice(file, 9)]
    if {len(line) for line in lines} == {3}:
        return ", got three columns, as fastBPE writes them"
    is_dictionary = lines and all(line[1:] and line[-1].isdecimal() for line in lines)
    return ", got words and their counts, as in a dictionary" if is_dictionary else ""


def sentence_pieces(model: Path) -> CutLine:
    """Return a function that cuts a line into a SentencePiece model's pieces, separated by spaces;
    raises OSError or ValueError if the model cannot be read."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()  # given an empty file, its constructor loads no model
    try:
        processor.LoadFromSerializedProto(model.read_bytes())
    except RuntimeError as error:
        raise ValueError(f"{model}: expected a SentencePiece model") from error
    return lambda line: " ".join(processor.encode(line, out_type=str))


@cache  # of a worker
def _cutter(codes: Path | None, model: Path) -> CutLine:
    return byte_pairs(codes) if codes else sentence_pieces(model)


def _cut(lines: Sequence[str], codes: Path | None, model: Path) -> list[str]:
    return [*map(_cutter(codes, model), lines)]


def sample(texts: Sequence[Path], pairs: int) -> Iterator[str]:
    """Yield all sides of every k-th line, with the smallest k that gives at most `pairs` of them,
    and print their number on standard error; raises ValueError for less than one pair."""
    if pairs < 1:
        raise ValueError(f"--sample: expected at least 1 pair, got {pairs}")
    total = sum(1 for _ in stream_lines(texts[0]))
    step = max(1, math.ceil(total / pairs))
    print(f"learning from {math.ceil(total / step):,} of {total:,} pairs", file=sys.stderr)
    for sides in islice(zip(*map(stream_lines, texts), strict=True), 0, None, step):
        yield from sides


def learn(sentences: Iterable[str], vocabulary: int, normalization: str = "nmt_nfkc") -> bytes:
    """Return a SentencePiece model of at most `vocabulary` pieces, by one of its `normalization`
    rules; raises ValueError for no sentences or more distinct characters than pieces."""
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()  # a model written to a file would contain the file's name
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocabulary,
            normalization_rule_name=normalization,
            hard_vocab_limit=False,  # a small corpus has fewer pieces
            character_coverage=1.0,  # no character of the sample becomes <unk>
            num_threads=4,  # fixed, since the model contains the number
            minloglevel=2,  # 0: every twentieth piece; 1: a warning for a small corpus
        )
    except RuntimeError as error:
        raise ValueError(f"sentencepiece: {error}") from error
    return model.getvalue()


def fairseq_dictionary(model: bytes) -> str:
    """Return a dictionary for fairseq with all subwords of a SentencePiece model, so that none is
    unknown. With fairseq's four special symbols, it has a multiple of 8 types, as fairseq's own."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=model)
    numbers = [n for n in range(len(processor)) if not processor.is_control(n)]
    subwords = [processor.id_to_piece(n) for n in numbers if not processor.is_unknown(n)]
    subwords += [f"madeupword{n:04}" for n in range(-(len(subwords) + 4) % 8)]
    return "".join(f"{subword} 1\n" for subword in subwords)


def _apply(given: Namespace) -> None:
    cut = partial(_cut, codes=given.codes, model=given.model)
    lines = stream_lines(STANDARD_INPUT)
    chunks = iter(lambda: list(islice(lines, CHUNK_LINES)), [])
    with tqdm(desc="subwords", unit=" lines", unit_scale=True, delay=1) as bar:
        for subwords in in_order(cut, chunks, given.workers):
            sys.stdout.buffer.writelines(f"{line}\n".encode() for line in subwords)
            bar.update(len(subwords))


def _learn(given: Namespace) -> None:
    model = learn(sample(given.text, given.sample), given.vocabulary, given.normalization)
    if given.dictionary:
        write_whole(given.dictionary, fairseq_dictionary(model).encode())
    write_whole(given.output, model)


def main() -> None:
    with script(__doc__) as parser:
        commands = parser.add_subparsers(required=True)
        apply = commands.add_parser("apply", help="cut standard input")
        files = apply.add_mutually_exclusive_group(required=True)
        files.add_argument("--codes", type=Path, help="codes of subword-nmt learn-bpe")
        files.add_argument("--model", type=Path, help="SentencePiece model")
        apply.add_argument("--workers", type=int, default=1, metavar="PROCESSES")
        apply.set_defaults(run=_apply)
        learning = commands.add_parser("learn", help="learn a SentencePiece model")
        learning.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE")
        learning.add_argument("--vocabulary", type=int, required=True, metavar="SUBWORDS")
        learning.add_argument("--sample", type=int, required=True, metavar="PAIRS")
        learning.add_argument("--normalization", default="nmt_nfkc", help="a rule of SentencePiece")
        learning.add_argument("--dictionary", type=Path, metavar="FILE", help="for fairseq")
        learning.add_argument("--output", type=Path, required=True)
        learning.set_defaults(run=_learn)
        given = parser.parse_args()
        given.run(given)


if __name__ == "__main__":
    main()
