"""What translating and parsing with a model folder share: a device, batches, options, lengths.

Shape letters as in fairseq_aiayn.nn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from fairseq_aiayn.decoding.beam_search import SearchOptions
from fairseq_aiayn.decoding.candidates import Symbols
from fairseq_aiayn.decoding.maximum_length import MaximumLength
from fairseq_aiayn.model_folder.config import Config
from fairseq_aiayn.model_folder.vocabulary import END, PADDING
from fairseq_aiayn.nn.precision import PRODUCT_TYPES
from fairseq_aiayn.paper import PARSING_DECODING

LONGEST = 1_024  # tokens of a sentence; attention and the search take far more time for more
SYMBOLS = Symbols(end=END, padding=PADDING)


def find_device(name: str | None) -> torch.device:
    """Return the device; without a name, a GPU if there is one.

    Raises ValueError for a device that PyTorch does not have, or that computes nothing.
    """
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name}: {str(error).splitlines()[0]}") from None
    return device


def find_product_type(precision: str) -> torch.dtype | None:
    """Return the type of a search's matrix products, None for that of the weights.

    Raises ValueError for a precision that the search does not have.
    """
    if precision not in PRODUCT_TYPES:
        raise ValueError(f"precision must be one of {', '.join(PRODUCT_TYPES)}, got {precision}")
    return PRODUCT_TYPES[precision]


def longest_sentence(config: Config, side: int) -> int:
    """Return how many tokens a source (side 0) or a target (side 1) may have."""
    lengths = config.learned_lengths
    return LONGEST if lengths is None else lengths[side] - 1  # the end takes one


def in_pieces(
    sentences: Sequence[str], cut: Callable[[str], list[str]], longest: int, first: int = 1
) -> list[list[str]]:
    """Return the pieces of each sentence; raises ValueError for too many, with the sentence's
    number, counted from `first`."""
    found = [cut(sentence) for sentence in sentences]
    for number, pieces in enumerate(found, start=first):
        if len(pieces) > longest:
            raise ValueError(
                f"sentence {number} must have at most {longest:,} tokens, has {len(pieces):,}"
            )
    return found


def batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Yield the places of sentences with tokens, in batches of similar lengths."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not lengths[place]:
            break
        if batch and lengths[batch[0]] * (len(batch) + 1) > most_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def padded(
    sentences: Sequence[Sequence[int]], device: torch.device, is_source: bool = True
) -> Tensor:
    """Return the tokens of a batch [B, L]; sources are padded on the left, as fairseq's are."""
    longest = max(map(len, sentences))
    rows = []
    for tokens in sentences:
        room = [PADDING] * (longest - len(tokens))
        rows.append([*room, *tokens] if is_source else [*tokens, *room])
    return torch.tensor(rows, device=device)


def parts(sentences: Iterable[str], at_once: int) -> Iterator[tuple[int, list[str]]]:
    """Yield `at_once` sentences at a time, with the number of the first, counted from 1."""
    sentences, first = iter(sentences), 1
    while part := list(islice(sentences, at_once)):
        yield first, part
        first += len(part)


def search_options(
    config: Config, V: int, beam: int | None = None, alpha: float | None = None, nbest: int = 1
) -> SearchOptions:
    """Return the options of a search over V target types; None is the default of the model's task.

    Raises ValueError for a value that is out of range.
    """
    beam = config.search.beam if beam is None else beam
    alpha = config.search.alpha if alpha is None else alpha
    largest = max(V, PARSING_DECODING.beam)  # the paper's largest; each beam takes memory
    if beam > largest:
        raise ValueError(
            f"the beam size must be at most {largest:,}, the types of the target vocabulary, "
            f"got {beam:,}"
        )
    return SearchOptions(beam, alpha, nbest=nbest)


def longest_output(config: Config, source_tokens: int) -> int:
    """Return how many tokens the output of a source may have before its end token (section 6.1)."""
    longest = source_tokens + config.search.extra_length
    if config.learned_lengths is None:
        return longest
    return min(longest, longest_sentence(config, side=1))


def longest_outputs(config: Config, source: Tensor) -> Tensor:
    """source [B, S] → the `longest_output` [B] of each sentence."""
    longest = MaximumLength(1, config.search.extra_length).of(source, SYMBOLS)
    return (
        longest
        if config.learned_lengths is None
        else longest.clamp(max=longest_sentence(config, side=1))
    )
