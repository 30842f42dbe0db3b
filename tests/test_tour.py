"""docs/tour.md shows the code as it is and the results as they are; its text says what they say."""

import re
from pathlib import Path

import pytest
from cogapp import Cog
from tour.__main__ import QUICK
from tour.number_words import LARGEST, draw_pairs, names_of
from tour.show import measured
from tour.training import DEVELOPMENT, TRAINING, Options, development_loss, new_model, train
from tour.translation import translate

from fairseq_aiayn.report.document import Table

DOCS = Path(__file__).parents[1] / "docs"
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


def test_page_has_the_code_and_the_results(capfd: pytest.CaptureFixture[str]) -> None:
    """Breaks if a function that the page shows is changed and `make tour` is not run."""
    status = Cog().main(["cog", "--check", "--diff", "-P", str(DOCS / "tour.md")])
    assert status == 0, capfd.readouterr().out


def test_page_shows_every_result_and_picture() -> None:
    page = (DOCS / "tour.md").read_text(encoding="utf-8")
    shown = set(re.findall(r'(?:table|text)\("(\w+)"', page))
    assert shown == set(measured())
    pictures = set(re.findall(r"\(tour/(\w+\.png)\)", page))
    assert pictures == {path.name for path in (DOCS / "tour").glob("*.png")}


@pytest.mark.parametrize("name", QUICK)
def test_quick_experiments_give_what_is_stored(name: str) -> None:
    found, stored = QUICK[name](), measured()[name]
    if not isinstance(found, Table):
        assert found == stored
        return
    assert found.header == stored["header"]
    for row, stored_row in zip(found.rows, stored["rows"], strict=True):
        for cell, stored_cell in zip(row, stored_row, strict=True):
            assert NUMBER.sub("#", cell) == NUMBER.sub("#", stored_cell)
            assert numbers(cell) == pytest.approx(numbers(stored_cell), rel=0.02, abs=1e-6)


def numbers(cell: str) -> list[float]:
    """Return the numbers of a cell."""
    return [float(found.replace(",", "")) for found in NUMBER.findall(cell)]


def column(table: str, number: int) -> list[float]:
    """Return a column of a stored table of numbers."""
    return [numbers(row[number])[0] for row in measured()[table]["rows"]]


def test_warm_up_decides_whether_the_model_learns() -> None:
    """The text: equal highest rates; without warm-up, hardly a gradient reaches the first layer."""
    assert set(column("no_warm_up", 1)) == {max(column("warm_up", 1))}
    assert column("warm_up", 2)[-1] < 0.2
    losses = column("no_warm_up", 2)
    assert losses[1] < column("warm_up", 2)[1]
    assert losses[-1] > losses[2] > 2.83
    assert max(column("no_warm_up", 4)[1:]) < 0.01
    assert min(column("warm_up", 4)) > 0.1


def test_smoothing_makes_models_less_sure() -> None:
    perplexity, entropy = column("smoothing", 1), column("smoothing", 2)
    assert perplexity == sorted(perplexity)
    assert entropy == sorted(entropy)


def test_mean_of_weights_is_about_as_good_as_the_best_checkpoint() -> None:
    *single, mean_loss, loss_of_mean = column("averages", 1)
    assert mean_loss == pytest.approx(sum(single) / len(single), abs=1e-3)
    assert loss_of_mean < mean_loss
    assert loss_of_mean == pytest.approx(min(single), rel=0.2)


def test_beams_and_penalties_choose_different_outputs() -> None:
    """The text: a beam of 1 ends at the least probable output, one of 4 finds the best of all."""
    rows = measured()["beams"]["rows"]
    probabilities = column("beams", 2)
    assert probabilities[0] == min(probabilities)
    assert rows[2][1:] == rows[3][1:] != rows[1][1:]
    marked = [
        next(row[0] for row in measured()["penalties"]["rows"] if row[place].startswith("**"))
        for place in (3, 4)
    ]
    assert marked == ["it rains", "there is some rain"]


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (1, "one", "ein"),
        (16, "sixteen", "sechzehn"),
        (90, "ninety", "neunzig"),
        (72_041, "seventy two thousand forty one", "zwei und siebzig tausend ein und vierzig"),
        (300_100, "three hundred thousand one hundred", "drei hundert tausend ein hundert"),
    ],
)
def test_number_words(number: int, english: str, german: str) -> None:
    assert names_of(number) == (english.split(), german.split())


def test_numbers_to_learn_and_to_test_are_different() -> None:
    assert not {str(pair) for pair in TRAINING} & {str(pair) for pair in DEVELOPMENT}
    assert len({str(names_of(n)) for n in range(1, 2_000)}) == 1_999
    assert draw_pairs(3, seed=1) == draw_pairs(3, seed=1)
    assert len(names_of(LARGEST)[0]) == 9


def test_training_of_the_tour_learns() -> None:
    options = Options(N=1, updates=60, warmup=60)
    model = new_model(options)
    before = development_loss(model)
    assert list(train(model, options)) == list(range(1, 61))
    assert development_loss(model) < before / 2
    (output,) = translate(model, DEVELOPMENT[:1])
    assert set(output) <= {word for pair in DEVELOPMENT for word in pair[1]}
