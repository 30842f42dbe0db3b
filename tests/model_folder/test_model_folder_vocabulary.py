"""A vocabulary has the numbers that fairseq's Dictionary gives the same file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_aiayn.inference.folder import END, PADDING, UNKNOWN, read_vocabulary

FILES = {
    "plain": "the 9\nca@@ 3\nt 1\n",
    "padded to a multiple": "the 9\nmadeupword0000 0\nmadeupword0001 0\n",
    "special types replaced": "a 3\n<unk> 2 #fairseq:overwrite\n</s> 5 #fairseq:overwrite\nb 1\n",
    "a type replaced": "a 3\nb 2\na 7 #fairseq:overwrite\nc 1\n",
    "unusual spaces": "a\u2028b 2\nc\x85d 1\ne f 4\n\u00a0g 1\n",
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_numbers_and_pieces_are_fairseqs(content: str, tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    path.write_text(content)
    found, stock = read_vocabulary(path), Dictionary.load(str(path))
    assert found.types == tuple(stock.symbols) and len(found) == len(stock)
    assert (PADDING, END, UNKNOWN) == (stock.pad(), stock.eos(), stock.unk())
    pieces = ["b", "the", "</s>", "a", "nowhere", "<s>", "c", "a", "<unk>", "ca@@"]
    tokens = stock.encode_line(" ".join(pieces), add_if_not_exist=False).tolist()
    assert found.numbers(pieces) == tokens
    every = [number for number in range(len(stock)) if " " not in stock[number]]
    assert found.pieces(every) == stock.string(torch.tensor(every)).split(" ")
