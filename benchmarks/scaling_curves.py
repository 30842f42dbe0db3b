"""The curves: a training step or decoding at several sizes of one thing."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Work:
    """A batch of synthetic sentences, source and target of the same length, without padding."""

    sentences: int
    length: int  # tokens
    vocabulary: int
    beam: int | None = None  # None: a training step


@dataclass(frozen=True)
class Curve:
    """The same work at several sizes of one thing."""

    title: str
    axis: str
    points: dict[int, Work]  # by the size, in increasing order


@dataclass(frozen=True)
class Times:
    """Seconds of a curve's work, of every turn, by size and then by name of the side."""

    curve: Curve
    seconds: dict[int, dict[str, list[float]]]

    def growth(self, side: str) -> list[float]:
        """Return for every turn the time at the largest size divided by that at the smallest."""
        smallest, largest = self.seconds[min(self.seconds)], self.seconds[max(self.seconds)]
        pairs = zip(largest[side], smallest[side], strict=True)
        return [large / small for large, small in pairs]


# What a curve varies, and the usual work from which it varies that
STEP = {"cpu": Work(64, 16, 8_192), "cuda": Work(256, 32, 32_768)}
SEARCH = {"cpu": Work(8, 16, 8_192, beam=4), "cuda": Work(64, 32, 32_768, beam=4)}
LENGTHS = {"cpu": (8, 16, 32, 64, 128, 256), "cuda": (8, 16, 32, 64, 128, 256, 512)}
VOCABULARIES = {"cpu": (1_024, 4_096, 16_384, 32_768), "cuda": (1_024, 4_096, 16_384, 65_536)}
BATCHES = {"cpu": (128, 256, 512, 1_024, 2_048), "cuda": (1_024, 2_048, 4_096, 8_192, 16_384)}
BEAMS = {"cpu": (1, 2, 4, 8, 16), "cuda": (1, 2, 4, 8, 16)}
OUTPUTS = {"cpu": (8, 16, 32, 64, 128), "cuda": (8, 16, 32, 64, 128, 256)}
SENTENCES = {"cpu": (1, 4, 16, 64), "cuda": (1, 4, 16, 64, 256)}


def curves(device: str) -> list[Curve]:
    """Return three curves of a training step and three of decoding."""
    return training_curves(device) + decoding_curves(device)


def training_curves(device: str) -> list[Curve]:
    """Against sentence length, with the same tokens per batch, vocabulary, and batch."""
    step = STEP[device]
    tokens = step.sentences * step.length
    lengths = {n: replace(step, sentences=tokens // n, length=n) for n in LENGTHS[device]}
    types = {n: replace(step, vocabulary=n) for n in VOCABULARIES[device]}
    batches = {n: replace(step, sentences=n // step.length) for n in BATCHES[device]}
    return [
        Curve("training step: sentence length", f"tokens a sentence ({tokens:,} a batch)", lengths),
        Curve("training step: vocabulary", "types", types),
        Curve("training step: batch", "tokens a batch", batches),
    ]


def decoding_curves(device: str) -> list[Curve]:
    """Against beam, length of source and output, and batch."""
    search = SEARCH[device]
    beams = {n: replace(search, beam=n) for n in BEAMS[device]}
    outputs = {n: replace(search, length=n) for n in OUTPUTS[device]}
    batches = {n: replace(search, sentences=n) for n in SENTENCES[device]}
    return [
        Curve("decoding: beam", "beam size", beams),
        Curve("decoding: sentence length", "tokens a sentence", outputs),
        Curve("decoding: batch", "sentences a batch", batches),
    ]
