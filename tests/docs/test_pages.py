"""Pages are made of the figures that are kept, and show the code as it is; docs/table1/measure.py:
Table 1 measured, against arithmetic; docs/tour.ipynb runs, and its outputs are those of the code as
it is."""

import importlib.util
import json
import math
import re
import shlex
import shutil
import textwrap
from pathlib import Path

import IPython.display
import matplotlib
import numpy
import pytest
import results_page
import torch
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from small_models import small_model

from fairseq_aiayn.attention_maps.page import attention_page
from fairseq_aiayn.attention_maps.weights import AttentionMap
from fairseq_aiayn.inference.pytorch import Translator
from fairseq_aiayn.nn.attention import attention
from fairseq_aiayn.palette import LINE_COLOURS

ROOT = Path(__file__).parents[2]
DOCS = Path(__file__).parents[2] / "docs"


def module_of(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


table1 = module_of(DOCS / "table1" / "measure.py")
FUSED, WRITTEN, RECURRENT, CONVOLUTION, DILATED, RESTRICTED = table1.BUILDERS
k, r = table1.k, table1.r
INKS = LINE_COLOURS[:4]


@pytest.mark.parametrize("n", [2, 9, 34])
def test_the_longest_path_is_what_the_table_prints(n: int) -> None:
    """Breaks if a layer reaches further than it may, or a stack's layers do not grow apart."""
    assert table1.path_length(FUSED, n) == table1.path_length(WRITTEN, n) == 1
    assert table1.path_length(RECURRENT, n) == n
    assert table1.path_length(CONVOLUTION, n) == math.ceil((n - 1) / (k - 1))
    assert table1.path_length(DILATED, n) == math.ceil(round(math.log(n, k), 9))
    assert table1.path_length(RESTRICTED, n) == math.ceil((n - 1) / r)


@pytest.mark.parametrize(("n", "r"), [(1, 1), (2, 3), (7, 1), (7, 3)])
def test_restricted_attention_is_equation_1_with_a_band_mask(n: int, r: int) -> None:
    Q, K, V = (torch.randn(1, 2, n, 4, dtype=torch.float64) for _ in range(3))
    pos = torch.arange(n)
    expected = attention(Q, K, V, (pos[:, None] - pos).abs() <= r)
    torch.testing.assert_close(table1.restricted_attention(Q, K, V, r), expected)


def test_flops_and_memory_are_those_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a view of a weight counts as memory, or a kernel is not counted."""
    monkeypatch.setattr(table1, "SECONDS", 0)
    n, d = 96, 64
    costs = [table1.measure(build(d, 0), n, d) for build in table1.BUILDERS]
    projections = 4 * 2 * n * d * d
    assert [cost["flops"] for cost in costs] == [
        projections + 2 * 2 * n * n * d,
        projections + 2 * 2 * n * n * d,
        4 * 2 * 2 * n * d * d,  # four gates, two matrices each
        k * 2 * n * d * d,
        k * 2 * n * d * d,
        projections + 2 * 2 * n * 3 * r * d,  # a block sees three blocks
    ]
    assert costs[1]["peak_bytes"] > 8 * n * n * 4 > costs[0]["peak_bytes"]
    assert table1.measure(torch.nn.Linear(d, d, bias=False), 1, d)["peak_bytes"] == 2 * d * 4


def test_the_page_has_the_rows_of_the_figures_that_are_kept() -> None:
    page = (DOCS / "table1.md").read_text(encoding="utf-8")
    results = json.loads((DOCS / "table1" / "table1.json").read_text(encoding="utf-8"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()]
    for name, printed in table1.PRINTED.items():
        result = results[name]
        for by in ("by length", "by width"):
            result[by] = {int(size): cost for size, cost in result[by].items()}
        assert [name, *table1.as_row(printed, result)] in cells


def test_no_curve_of_table_1_is_hidden_by_another() -> None:
    """Two kinds have the FLOPs of two others."""
    results = json.loads((DOCS / "table1" / "table1.json").read_text(encoding="utf-8"))
    figure = module_of(DOCS / "table1" / "draw.py").draw_costs(results)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = numpy.asarray(canvas.buffer_rgba())[::-1, :, :3]  # rows from below, as boxes count
    for axes in figure.axes:
        (left, bottom), (right, top) = axes.bbox.get_points().astype(int)
        panel = pixels[bottom:top, left:right]
        for line in axes.get_lines():
            colour = [round(255 * part) for part in to_rgb(line.get_color())]
            seen = (panel == colour).all(axis=-1).any(axis=0).mean()  # of the columns of pixels
            assert seen > 0.2, f"{line.get_label()}: {axes.get_title()}"
    assert [line.get_label() for line in axes.get_lines()] == [*table1.PRINTED]


def test_a_picture_of_a_word_has_no_faint_lines(tmp_path: Path) -> None:
    drawing = module_of(DOCS / "attention" / "draw.py")
    figure = drawing.draw_word(Translator(small_model(tmp_path).read(), device="cpu"))
    opacities = [row[3] for each in figure.axes[0].collections for row in each.get_colors()]
    assert opacities and min(opacities) >= 0.1


@pytest.mark.skipif(not shutil.which("chromium"), reason="pages are shown in Debian's chromium")
def test_heat_maps_are_photographed_two_beside_each_other(tmp_path: Path) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "picture.png"
    shown = AttentionMap("cross", ("a", "b"), ("c", "d"), torch.eye(2).expand(1, 4, 2, 2))
    page.write_text(attention_page([shown], "title", "", ""), encoding="utf-8")
    module_of(DOCS / "attention" / "draw.py").photograph_heat_maps(page, picture)
    pixels = (255 * pyplot.imread(picture)[..., :3]).round()
    halves = [numpy.array_split(half, 2, axis=1) for half in numpy.array_split(pixels, 2)]
    for head, part in enumerate(part for half in halves for part in half):
        found = [(part == [round(255 * c) for c in to_rgb(ink)]).all(-1).any() for ink in INKS]
        assert found == [other == head for other in range(4)]


def test_the_tables_of_results_are_those_of_their_files() -> None:
    page = DOCS / "results.md"
    assert results_page.make_page(page) == page.read_text()
    files = {path.name for path in (DOCS / "results").iterdir()}
    assert {name for _, name in results_page.PLACE.findall(page.read_text())} == files


def test_messages_that_are_explained_are_those_of_the_code() -> None:
    sources = [*ROOT.glob("fairseq_aiayn/**/*.py"), *ROOT.glob("recipes/*.sh")]
    code = "".join(path.read_text(encoding="utf-8") for path in sources)
    code = re.sub(r'"\n\s*f?"', "", code)  # a message in several lines
    ours = (DOCS / "troubleshooting.md").read_text(encoding="utf-8").partition("## Of this")[2]
    rows = re.findall(r"^\| (`.*?) \|", ours, re.MULTILINE)
    assert len(rows) > 9
    for message in re.findall("`(.+?)`", " ".join(rows)):
        assert message in code


def shows(block: str, source: str) -> bool:
    """Whether the lines of a block stand in a source, all with the same indentation before them; a
    line `...` stands for lines that the block leaves out."""
    parts = re.split(r"^ *\.\.\.\n", block, flags=re.MULTILINE)
    patterns = (
        "^" + "(?:^.*\n)*?".join(re.escape(textwrap.indent(part, " " * depth)) for part in parts)
        for depth in range(0, 16, 4)
    )
    return any(re.search(pattern, source, flags=re.MULTILINE) for pattern in patterns)


SHOWN = r'^    \$ (?:echo "(.*)" \| )?aiayn (.*)\n((?:    (?!\$ ).*\n|\n(?=    ))+)'
PAGES = [*ROOT.glob("*.md"), *DOCS.glob("*.md")]


@pytest.mark.parametrize("page", [p for p in PAGES if re.search("(?m)^    [$] ", p.read_text())])
def test_a_page_shows_what_the_program_prints(page: Path, aiayn, give, monkeypatch) -> None:
    """`...` stands for lines that the page leaves out."""
    monkeypatch.chdir(ROOT)
    text = page.read_text(encoding="utf-8")
    shown = re.findall(SHOWN, text, re.MULTILINE)
    assert len(shown) == text.count("\n    $ ")
    for given, words, output in shown:
        give(f"{given}\n")
        status, printed, _ = aiayn(*shlex.split(words))
        parts = [re.escape(" ".join(part.split())) for part in output.split("    ...\n")]
        if len(parts) == 1:  # of a search: the last digits vary
            assert numbers(printed) == pytest.approx(numbers(output), abs=0.002)
            words, printed = (NUMBER.sub("#", text) for text in (output, printed))
            parts = [re.escape(" ".join(words.split()))]
        assert status == 0 and re.fullmatch(" .* ".join(parts), " ".join(printed.split()))


def test_the_page_on_plugins_shows_the_code_of_the_files_that_it_names() -> None:
    page = (DOCS / "plugin.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    files = re.findall(r"\]\(\.\./(fairseq_aiayn/\S+\.py)\)", page)
    sources = [(DOCS.parent / file).read_text(encoding="utf-8") for file in files]
    for block in blocks:
        assert any(shows(block, source) for source in sources), f"in none of {files}:\n{block}"
    assert len(blocks) == page.count("```python") > 5


CELLS = json.loads((DOCS / "tour.ipynb").read_text("utf-8"))["cells"]
PROGRAMS = [cell for cell in CELLS if cell["source"] and cell["cell_type"] == "code"]
TRAINED = "trained"  # the tag of cells whose results depend on a training
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


def stored_texts(cell: dict) -> str:
    outputs = cell["outputs"]
    shown = [part for one in outputs for part in one.get("data", {}).get("text/markdown", [])]
    printed = [part for one in outputs for part in one.get("text", [])]
    return "".join([*shown, *printed])


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def test_programs_write_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if code that the notebook shows is changed without `make tour`."""
    shown: list[str] = []
    names: dict[str, object] = {}
    monkeypatch.setattr(IPython.display, "display", lambda markdown: shown.append(markdown.data))
    monkeypatch.setattr(
        "builtins.print", lambda *a, sep=" ": shown.append(sep.join(map(str, a)) + "\n")
    )
    monkeypatch.setattr(pyplot, "show", lambda: pyplot.close("all"))
    matplotlib.use("Agg")
    for cell in PROGRAMS:
        shown.clear()
        source = "".join(cell["source"])
        source = re.sub(r"updates, warmup = \d+, \d+", "updates, warmup = 15, 15", source)
        exec(compile(source, f"cell {cell['id']}", "exec"), names)  # noqa: S102
        if TRAINED not in cell["metadata"].get("tags", []):
            written, stored = "".join(shown), stored_texts(cell)
            assert NUMBER.sub("#", written).split() == NUMBER.sub("#", stored).split()
            assert numbers(written) == pytest.approx(numbers(stored), rel=0.02, abs=0.002)


def test_every_program_was_executed_in_order() -> None:
    assert [cell["execution_count"] for cell in PROGRAMS] == list(range(1, len(PROGRAMS) + 1))
    assert all(output["output_type"] != "error" for cell in PROGRAMS for output in cell["outputs"])


def test_kernels_and_waits_are_those_of_the_result_file() -> None:
    counts = json.loads((DOCS.parent / "benchmarks/results/gpu_counts.json").read_text())["counts"]
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    for line, of in (("update", "update"), ("batch of a", "validation"), ("step of a", "step")):
        expected = [f"{n:,}" for side in counts.values() for n in side.get(of, {}).values()]
        (row,) = re.findall(rf"^\| {line}[^|]*\|(.*)$", page, re.MULTILINE)
        assert re.findall(r"[\d,]+", row) == expected
