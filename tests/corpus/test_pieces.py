"""What cuts text into pieces is looked at before the first text."""

from __future__ import annotations

import pytest

from fairseq_aiayn.corpus.pieces import byte_pairs, sentence_pieces


@pytest.mark.parametrize("content", [b"", b"\0" * 1000, b"text\n", bytes(range(256))])
def test_a_file_that_is_no_sentencepiece_model_is_named(content, tmp_path):
    path = tmp_path / "pieces.model"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="pieces.model: must be a sentencepiece model, is not"):
        sentence_pieces(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"codes\n",
        b"#version: 0.2\na b c\n",
        b"#version: 9.9\na b\n",
        b"#version: x\n",
        b"\xe9 a\n",
    ],
)
def test_codes_that_are_none_are_named(content, tmp_path):
    path = tmp_path / "codes"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="codes: must be codes of subword-nmt learn-bpe, is not"):
        byte_pairs(path)


def test_codes_of_both_versions_serve(tmp_path):
    path = tmp_path / "codes"
    path.write_text("#version: 0.2\na b</w>\n")
    assert byte_pairs(path)("ab") == "ab"
    path.write_text("a b\n")
    assert byte_pairs(path)("abc") == "ab@@ c"
