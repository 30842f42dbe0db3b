"""Learn word pieces from a sample of the training text, both languages together (section 5.1).

Trains sentencepiece with bottom-up merges, as word pieces were first learned. The same text gives
the same OUTPUT.model, byte for byte.

    python -m fairseq_aiayn.corpus.learn_word_pieces --shards tokens --languages en fr \\
        --vocabulary 32000 \\
        --sample 1000000 --output pieces/model
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from sentencepiece import SentencePieceTrainer

from fairseq_aiayn.corpus.shards import add_shards_options, count_pairs, list_shards, read_shard
from fairseq_aiayn.text import script, write_whole


def learn_files(
    directory: Path, languages: tuple[str, ...], vocabulary: int, pairs: int, prefix: Path
) -> None:
    """Write PREFIX.model; raises ValueError as `sample` and `learn` do."""
    model = learn(sample(directory, languages, pairs), vocabulary)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    write_whole(prefix.with_name(f"{prefix.name}.model"), model)


def sample(directory: Path, languages: tuple[str, ...], pairs: int) -> Iterator[str]:
    """Yield both sides of every k-th pair, with the smallest k that gives at most `pairs` pairs.

    Prints their number to standard error. Raises ValueError if there is no shard or `pairs` is
    below 1.
    """
    if pairs < 1:
        raise ValueError(f"sample must be at least 1 pair, got {pairs}")
    names = list_shards(directory)
    total = count_pairs(directory, names)
    step = max(1, -(-total // pairs))
    print(f"learning from {-(-total // step):,} of {total:,} pairs", file=sys.stderr)
    ahead = 0  # lines from the start of a shard to the next pair to take
    for name in names:
        sides = [read_shard(directory, name, language) for language in languages]
        for index in range(ahead, len(sides[0]), step):
            yield from (side[index] for side in sides)
        ahead = (ahead - len(sides[0])) % step


def learn(sentences: Iterable[str], vocabulary: int, normalization: str = "nmt_nfkc") -> bytes:
    """Return a sentencepiece model of at most `vocabulary` pieces.

    `normalization` names one of sentencepiece's rules. Raises ValueError if there are no sentences
    or more distinct characters than pieces.
    """
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
            minloglevel=1,  # otherwise it logs every twentieth piece
        )
    except RuntimeError as error:
        raise ValueError(f"sentencepiece: {error}") from None
    return model.getvalue()


def main() -> None:
    with script(__doc__) as parser:
        add_shards_options(parser)
        parser.add_argument("--vocabulary", type=int, required=True, metavar="PIECES")
        parser.add_argument("--sample", type=int, required=True, metavar="PAIRS")
        parser.add_argument("--output", type=Path, required=True, metavar="PREFIX")
        given = parser.parse_args()
        languages = tuple(given.languages)
        learn_files(given.shards, languages, given.vocabulary, given.sample, given.output)


if __name__ == "__main__":
    main()
