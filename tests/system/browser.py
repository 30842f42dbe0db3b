"""Headless Chromium for the tests of HTML pages, which name it in `pytest_plugins`."""

import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from patience import PATIENCE
from PIL import Image

HEIGHT = 800  # pixels of the window; a page may be longer


class OpenPage:
    """One HTML file in a tab of its own; `tab` is playwright's Page."""

    def __init__(self, context, path: Path, fragment: str) -> None:
        self.complaints: list[str] = []  # also of whatever was asked for besides the file
        self.address = path.resolve().as_uri()
        self.tab = context.new_page()
        self.tab.set_default_timeout(1000 * PATIENCE)  # milliseconds
        self.tab.on("console", self._note_message)
        self.tab.on("pageerror", lambda error: self.complaints.append(f"page: {error}"))
        self.tab.on("request", self._note_request)
        self.tab.goto(self.address + fragment)

    def _note_message(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _note_request(self, request) -> None:
        if request.url.split("#")[0] != self.address:
            self.complaints.append(f"request: {request.url}")

    def assert_quiet(self) -> None:
        """Nothing went wrong on the page, and nothing but the file was asked for."""
        assert self.complaints == []

    def assert_fits(self) -> None:
        """The page does not scroll sideways."""
        needed, there = self.tab.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert needed <= there, f"the page needs {needed} px, the window has {there}"

    def colours(self) -> int:
        """Count the colours of the whole page; a blank one has 1."""
        png = self.tab.screenshot(full_page=True, animations="disabled")
        picture = Image.open(io.BytesIO(png)).convert("RGB")
        return len(picture.getcolors(maxcolors=picture.width * picture.height))


@pytest.fixture(scope="module")
def _browser() -> Iterator:
    """One browser for a module; skips where Debian's chromium or playwright is not installed."""
    reason = "pages are tested with playwright, which is not installed"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("pages are tested in Debian's chromium, which is not on the PATH")
    # Chromium's sandbox refuses to run as root, which containers are
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def show(_browser, tmp_path: Path) -> Iterator[Callable[..., OpenPage]]:
    """Return a function that opens HTML text in a window of a fresh profile without network."""

    def show_text(text, width=1200, scheme="light", fragment=""):
        path = tmp_path / f"page-{len(_browser.contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = _browser.new_context(
            viewport={"width": width, "height": HEIGHT},
            color_scheme=scheme,
            reduced_motion="reduce",
            offline=True,
        )
        return OpenPage(context, path, fragment)

    yield show_text
    for context in _browser.contexts:
        context.close()
