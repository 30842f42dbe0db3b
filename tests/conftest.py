"""How tests run: the longest files first, so that two workers finish together, and with the same
invented examples every time. How they run `aiayn`: within their own process."""

import io
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import fork_server  # before there is another TMPDIR than its own
import pytest
from hypothesis import settings
from leftovers import left_behind

from fairseq_aiayn.cli.main import main
from fairseq_aiayn.nn.kept_shapes import keep_few_shapes

settings.register_profile(
    "reproducible", derandomize=True, deadline=None, database=None, max_examples=150
)
settings.register_profile("torture", deadline=None, database=None, max_examples=500)
settings.load_profile("reproducible")
# A test that imports a command of fairseq leaves a handler that writes to that test's own stderr,
# which is closed when the next test logs something
logging.raiseExceptions = False
# A shell lets what it starts in the background ignore Ctrl-C, and so would what a test starts
signal.signal(signal.SIGINT, signal.default_int_handler)

# fairseq sets the first, TensorBoard the last, and scikit-learn, which fairseq imports, the others
SET_BY_LIBRARIES = {"PYTHONWARNINGS": "ignore:semaphore_tracker:UserWarning"}
SET_BY_LIBRARIES |= {"KMP_DUPLICATE_LIB_OK": "True", "KMP_INIT_AT_FORK": "FALSE"}
SET_BY_LIBRARIES |= {"CRC32C_SW_MODE": "auto"}
if "PYTEST_XDIST_WORKER" in os.environ:  # of the whole suite; the server imports while it collects
    fork_server.begin()
LONGEST_FIRST = ("recipes", "system", "benchmarks")  # pytest-xdist keeps the order of files


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        folder = item.path.parent.name
        return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=rank)
    if os.environ.get("AIAYN_REPAIRS"):
        reason = pytest.mark.skip(reason="needs repairs, some of which AIAYN_REPAIRS leaves out")
        for item in items:
            if item.path.parent.name == "repairs" or item.get_closest_marker("needs_repairs"):
                item.add_marker(reason)


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The last of a run's tests has an error if any of them leaves something on the machine."""
    temporary = tmp_path_factory.mktemp("temporary")
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path_factory.getbasetemp())  # PyTorch makes it
    os.environ["XDG_CACHE_HOME"] = str(temporary.with_name("cache"))
    os.environ |= SET_BY_LIBRARIES
    keep_few_shapes()  # as the plugin does, at whatever time the first test imports it
    variables = dict(os.environ)
    yield
    os.environ["PYTEST_CURRENT_TEST"] = variables["PYTEST_CURRENT_TEST"]
    assert left_behind(temporary, variables) == []


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with one vocabulary, which no test changes."""
    from small_models import small_model

    root = tmp_path_factory.mktemp("translates")
    return small_model(root / "exp").export(root / "en-de")


@pytest.fixture(scope="session")
def parser_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of a parser."""
    from small_models import small_model

    root = tmp_path_factory.mktemp("parses")
    return small_model(root / "exp", "parser").export(root / "parser")


@pytest.fixture
def aiayn(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a subcommand: its status, its output and its errors."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([str(word) for word in words])
        return (status, *capsys.readouterr())

    return run


@pytest.fixture
def refused(aiayn: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Return a function that runs a subcommand which must refuse its input: the one line."""

    def run(*words: object) -> str:
        status, output, errors = aiayn(*words)
        assert (status, output) == (2, "")
        assert errors.count("\n") == 1 and errors.endswith("\n"), errors
        return errors.removesuffix("\n")

    return run


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes a text what standard input has."""

    def put(text: str | bytes, terminal: bool = False) -> None:
        stream = io.TextIOWrapper(io.BytesIO(text.encode() if isinstance(text, str) else text))
        stream.isatty = lambda: terminal
        monkeypatch.setattr(sys, "stdin", stream)

    return put
