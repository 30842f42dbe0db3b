"""Damaged binarized data is refused before it is used, and sound data loads as before."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
import torch
from building import dictionary
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.data_utils import load_indexed_dataset
from faults import fault_of

from fairseq_aiayn import plugin  # noqa: F401  (guards fairseq's loading)

SENTENCES = [[5, 6, 2], [2], [7, 4, 5, 6, 2], [6, 2]]
IMPLEMENTATIONS = ["mmap", "cached", "lazy"]


def vocabulary(words: int) -> Dictionary:
    return dictionary(f"w{word}" for word in range(words))


def write(directory: Path, impl: str, sentences: list[list[int]] = SENTENCES) -> str:
    """Binarize sentences as fairseq-preprocess does; return the path without an ending."""
    path = str(directory / "train.en-de.en")
    builder = indexed_dataset.make_builder(f"{path}.bin", impl, vocab_size=8)
    for sentence in sentences:
        builder.add_item(torch.tensor(sentence))
    builder.finalize(f"{path}.idx")
    return path


def read(path: str, impl: str | None, words: int = 4) -> list[list[int]]:
    """The sentences, as fairseq's tasks load them."""
    dataset = load_indexed_dataset(path, vocabulary(words), impl)
    if impl == "cached":
        dataset.prefetch(range(len(dataset)))
    return [dataset[number].tolist() for number in range(len(dataset))]


def change(file: str, at: int, data: bytes) -> None:
    content = bytearray(Path(file).read_bytes())
    at %= len(content)
    content[at : at + len(data)] = data
    Path(file).write_bytes(content)


def cut(file: str, kept: int) -> None:
    Path(file).write_bytes(Path(file).read_bytes()[:kept])


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_sound_data_loads(impl, tmp_path):
    assert read(write(tmp_path, impl), impl) == SENTENCES
    if impl == "mmap":
        assert read(write(tmp_path, impl), None) == SENTENCES


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("ending", ["idx", "bin"])
def test_every_cut_is_refused(impl, ending, tmp_path):
    path = write(tmp_path, impl)
    file = f"{path}.{ending}"
    for kept in range(len(Path(file).read_bytes())):
        write(tmp_path, impl)
        cut(file, kept)
        message = fault_of(read, path, impl)
        assert message.startswith(f"{file}: ") and "run fairseq-preprocess again" in message


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_a_changed_byte_of_an_index_is_refused_or_changes_nothing(impl, tmp_path):
    rng = random.Random(1)
    path = write(tmp_path, impl)
    size = len(Path(f"{path}.idx").read_bytes())
    refused = 0
    for at in range(size):
        write(tmp_path, impl)
        change(f"{path}.idx", at, bytes([rng.randrange(256)]))
        try:
            assert read(path, impl) == SENTENCES
        except ValueError as error:
            refused += 1
            message = str(error)
            assert message.startswith(path) and message.endswith("run fairseq-preprocess again")
    assert refused > 0.9 * size


@pytest.mark.parametrize(
    ("ending", "at", "data", "message"),
    [
        ("idx", 0, b"GARBAGE", "damaged or cut short (not an index of this --dataset-impl)"),
        ("idx", 17, b"\x06", "damaged or cut short (its tokens are of the unknown type 6)"),
        ("idx", 18, b"\xff" * 8, "bytes after its header, has 48)"),
        ("idx", 26, b"\0\0\0\0", "damaged or cut short (sentences do not follow each other)"),
        ("idx", -1, b"\x70", "damaged or cut short (sentences do not follow each other)"),
        ("bin", 6, b"\x08", "dictionary's 8 types, sentence 2 has number 8"),
        ("bin", -2, b"\xff\xff", "dictionary's 8 types, sentence 4 has number 65,535"),
    ],
)
def test_what_is_damaged_is_said(ending, at, data, message, tmp_path):
    path = write(tmp_path, "mmap")
    change(f"{path}.{ending}", at, data)
    line = fault_of(read, path, None if ending == "bin" else "mmap")
    assert line.startswith(f"{path}.{ending}: ") and message in line


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_tokens_must_be_the_dictionarys(impl, tmp_path):
    path = write(tmp_path, impl)
    assert f"{path}.bin: the tokens must be of the dictionary's 6 types" in fault_of(
        read, path, impl, 2
    )
    assert read(path, impl, 5) == SENTENCES


def test_a_negative_token_is_none(tmp_path):
    path = write(tmp_path, "mmap")
    change(f"{path}.idx", 17, struct.pack("<B", 3))  # int16 instead of uint16
    change(f"{path}.bin", 0, b"\xff\xff")
    assert "sentence 1 has number -1" in fault_of(read, path, "mmap")


def test_more_bytes_than_sentences_are_refused(tmp_path):
    path = write(tmp_path, "mmap")
    with open(f"{path}.bin", "ab") as file:
        file.write(b"more")
    assert "train.en-de.en.bin: must have 22 bytes by its .idx, has 26" in fault_of(
        read, path, "mmap"
    )


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_an_empty_set_and_an_empty_sentence_are_refused(impl, tmp_path):
    path = write(tmp_path, impl, [])
    assert fault_of(read, path, impl) == f"{path}.idx: must have at least one sentence, has none"
    path = write(tmp_path, impl, [[2], []])
    assert "damaged (a sentence without tokens)" in fault_of(read, path, impl)


def test_alignments_may_be_empty_and_of_any_numbers(tmp_path):
    path = write(tmp_path, "mmap", [[0, 70], []])
    assert [pair.tolist() for pair in load_indexed_dataset(path, None, "mmap")] == [[0, 70], []]


@pytest.mark.parametrize("ending", ["idx", "bin"])
def test_one_file_without_the_other_is_named(ending, tmp_path):
    path = write(tmp_path, "mmap")
    Path(f"{path}.{ending}").unlink()
    expected = f"{path}.{ending}: missing; run fairseq-preprocess again"
    assert fault_of(read, path, "mmap") == expected
    with pytest.raises(ValueError, match="missing; run fairseq-preprocess again"):
        indexed_dataset.dataset_exists(path, "mmap")


def test_no_files_are_no_data_as_before(tmp_path):
    assert load_indexed_dataset(str(tmp_path / "none"), vocabulary(4), "mmap") is None
    assert not indexed_dataset.dataset_exists(str(tmp_path / "none"), "mmap")


def test_text_that_is_not_utf_8_is_named(tmp_path):
    (tmp_path / "train").write_bytes("Wörter\n".encode("latin-1"))
    assert fault_of(read, str(tmp_path / "train"), "raw").startswith(
        f"{tmp_path}/train: must be UTF-8"
    )


def test_another_implementation_than_the_files_is_named(tmp_path):
    path = write(tmp_path, "mmap")
    assert fault_of(read, path, "fasta") == f"{path}.idx: not an index of --dataset-impl fasta"
