"""`aiayn flags ROW --search`: the paper's search as fairseq-generate's options."""

import pytest

from fairseq_aiayn.cli.main import main


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("base", "--beam 4 --lenpen 0.6 --max-len-a 1 --max-len-b 50\n"),
        ("parsing", "--beam 21 --lenpen 0.3 --max-len-a 1 --max-len-b 300\n"),
    ],
)
def test_the_search_is_that_of_the_rows_task(row, words, capsys):
    """Breaks if parsing is searched as translations are (section 6.3)."""
    assert main(["flags", row, "--search"]) == 0
    assert capsys.readouterr().out == words


def test_a_search_has_no_budget(refused):
    line = refused("flags", "base", "--search", "--max-update", "9")
    assert line == "aiayn flags: --search has no --max-update, which is of a training"
