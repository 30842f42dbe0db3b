"""Draw the pictures of docs/attention.md with a trained English-German model, a run or a folder.

Heat maps are photographed from the page of `aiayn attention`, which takes playwright and Debian's
chromium: python docs/attention/draw.py fairseq_aiayn/help_en_de
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from fairseq_aiayn.attention_maps.picture import draw_lines, save_picture
from fairseq_aiayn.attention_maps.weights import select
from fairseq_aiayn.cli.attention import attention_maps
from fairseq_aiayn.cli.main import main
from fairseq_aiayn.console import script
from fairseq_aiayn.inference.export import folder_or_run
from fairseq_aiayn.inference.folder import read_folder
from fairseq_aiayn.inference.pytorch import Translator

TRANSLATED = "When you save the query, it is stored in the Query tab page."
NOT_TRANSLATED = (
    "Use the Navigator for rearranging and editing the subdocuments in a master document."
)
WITH_A_WORD, WORD = "Saves the form, and opens it in edit mode to change the layout.", "it"
LEAST = 0.1  # of the weights of one word: fainter lines only hide the others
HEAT_MAPS = "#kind=cross&words=whole&view=heat"
TWO_BY_TWO = """#heat-maps {
    display: grid; grid-template-columns: auto auto; width: max-content; padding: 1rem;
}"""


def draw_cross_attention(model: Path, picture: Path) -> None:
    """Draw or write what a translation attends to, by words, as `aiayn attention` does."""
    source = TRANSLATED if picture.suffix == ".png" else NOT_TRANSLATED
    words = ["--source", source, "--kind", "cross", "--merge", "--output", str(picture)]
    if main(["attention", str(model), *words]):
        raise ValueError(f"{model}: expected a model that aiayn attention can draw")


def photograph_heat_maps(page: Path, picture: Path) -> None:
    """Take a picture of the heat maps of a page, two beside each other."""
    from playwright.sync_api import sync_playwright

    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # it refuses to run as root
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
        tab = browser.new_page(device_scale_factor=2, color_scheme="light")
        tab.goto(page.resolve().as_uri() + HEAT_MAPS)
        tab.add_style_tag(content=TWO_BY_TWO)
        tab.locator("#heat-maps").screenshot(path=picture)
        browser.close()


def draw_word(translator: Translator) -> Figure:
    """Draw what a word of the source attends to, without weights below LEAST."""
    (shown,) = attention_maps(translator, [translator.cut_source(WITH_A_WORD)])
    clear = replace(shown, weights=shown.weights.where(shown.weights >= LEAST, 0))
    return draw_lines(select(clear, None, None, WORD))


if __name__ == "__main__":
    with script(__doc__) as parser:
        parser.add_argument("model", type=Path, metavar="RUN|FOLDER")
        parser.add_argument("--output", type=Path, default=Path(__file__).parent, metavar="DIR")
        arguments = parser.parse_args()
        model, output = arguments.model, arguments.output
        draw_cross_attention(model, output / "cross.png")
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            draw_cross_attention(model, page)
            photograph_heat_maps(page, output / "missing.png")
        given = folder_or_run(model)
        found = read_folder(given) if isinstance(given, Path) else given.read()
        save_picture(draw_word(Translator(found, device="cpu")), output / "word.png")
