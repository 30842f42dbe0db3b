"""The curves: the time of a training step or of decoding against one size at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from side_by_side import Spread, ratios, spread
from workers import Answer

from fairseq_aiayn.files.whole import write_whole

SPECIAL_TYPES = 4  # that fairseq adds to a dictionary


@dataclass(frozen=True)
class Work:
    """A batch of synthetic sentences, source and target of the same length, without padding."""

    sentences: int
    length: int  # tokens
    vocabulary: int
    beam: int | None = None  # None: a training step

    def order(self, dictionaries: Path) -> dict[str, object]:
        """The order for scaling_worker.py."""
        return {
            "sentences": self.sentences,
            "length": self.length,
            "beam": self.beam,
            "data": str(dictionaries / str(self.vocabulary)),
        }


@dataclass(frozen=True)
class Curve:
    """The same work at several sizes of one thing."""

    title: str
    axis: str
    points: dict[int, Work]  # by the size

    def first(self, count: int | None) -> Curve:
        """Return the curve's `count` smallest points; None: all."""
        return Curve(self.title, self.axis, dict(sorted(self.points.items())[:count]))


@dataclass(frozen=True)
class Sizes:
    """The sizes of all curves on a device; where one varies, the others have their usual value."""

    vocabulary: int
    length: int
    tokens: int  # of a training batch, on either side
    sentences: int  # of a batch to decode
    beam: int
    training_lengths: Sequence[int]
    vocabularies: Sequence[int]
    batch_tokens: Sequence[int]
    beams: Sequence[int]
    decoding_lengths: Sequence[int]
    batch_sentences: Sequence[int]


SIZES = {
    "cpu": Sizes(
        vocabulary=8_192,
        length=16,
        tokens=1_024,
        sentences=8,
        beam=4,
        training_lengths=(8, 16, 32, 64, 128, 256),
        vocabularies=(1_024, 4_096, 16_384, 32_768),
        batch_tokens=(128, 256, 512, 1_024, 2_048),
        beams=(1, 2, 4, 8, 16),
        decoding_lengths=(8, 16, 32, 64, 128),
        batch_sentences=(1, 4, 16, 64),
    ),
    "cuda": Sizes(
        vocabulary=32_768,
        length=32,
        tokens=8_192,
        sentences=64,
        beam=4,
        training_lengths=(8, 16, 32, 64, 128, 256, 512),
        vocabularies=(1_024, 4_096, 16_384, 65_536),
        batch_tokens=(1_024, 2_048, 4_096, 8_192, 16_384),
        beams=(1, 2, 4, 8, 16),
        decoding_lengths=(8, 16, 32, 64, 128, 256),
        batch_sentences=(1, 4, 16, 64, 256),
    ),
}


def curves(device: str) -> list[Curve]:
    """Return the six curves: three of a training step, three of decoding."""
    of = SIZES[device]

    def step(tokens: int = of.tokens, length: int = of.length, types: int = of.vocabulary) -> Work:
        return Work(max(1, tokens // length), length, types)

    def search(beam: int = of.beam, length: int = of.length, batch: int = of.sentences) -> Work:
        return Work(batch, length, of.vocabulary, beam)

    training, decoding = "training step", "decoding"
    return [
        Curve(
            f"{training}: sentence length",
            f"tokens a sentence ({of.tokens:,} a batch)",
            {length: step(length=length) for length in of.training_lengths},
        ),
        Curve(
            f"{training}: vocabulary",
            "types",
            {types: step(types=types) for types in of.vocabularies},
        ),
        Curve(
            f"{training}: batch",
            "tokens a batch",
            {tokens: step(tokens=tokens) for tokens in of.batch_tokens},
        ),
        Curve(f"{decoding}: beam", "beam size", {beam: search(beam=beam) for beam in of.beams}),
        Curve(
            f"{decoding}: sentence length",
            "tokens a sentence",
            {length: search(length=length) for length in of.decoding_lengths},
        ),
        Curve(
            f"{decoding}: batch",
            "sentences a batch",
            {batch: search(batch=batch) for batch in of.batch_sentences},
        ),
    ]


def write_dictionaries(folder: Path, types: int) -> None:
    """Write dictionaries of a language pair with so many types, as fairseq-preprocess would."""
    directory = folder / str(types)
    directory.mkdir(parents=True, exist_ok=True)
    text = "".join(f"w{number} 1\n" for number in range(types - SPECIAL_TYPES))
    for language in ("en", "de"):
        write_whole(directory / f"dict.{language}.txt", text)


@dataclass(frozen=True)
class Times:
    """Seconds of a piece of work, of every turn, by size and then by name of the side."""

    curve: Curve
    seconds: dict[int, dict[str, list[float]]]

    def add(self, size: int, answers: dict[str, list[Answer]]) -> None:
        """Keep what the workers answered for a size."""
        self.seconds[size] = {
            name: [turn["seconds"] for turn in turns] for name, turns in answers.items()
        }

    def of(self, name: str) -> list[Spread]:
        """Return a side's seconds by size."""
        return [spread(sides[name]) for _, sides in sorted(self.seconds.items())]

    def growth(self, name: str) -> list[float]:
        """Return for every turn the time at the largest size divided by that at the smallest."""
        smallest, largest = self.seconds[min(self.seconds)], self.seconds[max(self.seconds)]
        pairs = zip(largest[name], smallest[name], strict=True)
        return [large / small for large, small in pairs]

    def growth_ratio(self, name: str, rival: str) -> Spread:
        """Return one side's growth over another's."""
        return ratios(self.growth(name), self.growth(rival))
