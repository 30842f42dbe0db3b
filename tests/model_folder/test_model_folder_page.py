"""The Python of docs/model_folder.md runs, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_models import SENTENCES, small_model

import fairseq_aiayn

ROOT = Path(fairseq_aiayn.__file__).parents[1]


def test_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_model(tmp_path / "exp").export(tmp_path / "demo-en-de")
    (tmp_path / "text.en").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "model_folder.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", page)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/model_folder.md", "exec"), names)  # noqa: S102
    printed = capsys.readouterr().out.splitlines()
    assert len(blocks) == 5 and len(printed) == 2 + len(SENTENCES)
    translator = names["translator"]
    assert printed[2:] == translator.translate(SENTENCES)
    (source,) = translator.tokens(["Select the cells."])
    assert names["rows"].shape == (len(source), 16)
    assert names["weights"]["cross"].shape[-1] == len(source)
