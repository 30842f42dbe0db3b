"""Where the recipes take a corpus's files from, and how wrong ones are found."""

import hashlib
import subprocess
from pathlib import Path

import mirrors
import pytest
from recipe_runs import Corpus, call, command, make_corpus, mirrored, refusal, without_torch

FILE = "dev.tgz"
DOWNLOAD_ONLY = ("--stop_stage", "1")


@pytest.fixture
def corpus(tmp_path) -> Corpus:
    return make_corpus("wmt14_en_de", tmp_path / "mirror", "de", 5)


@pytest.fixture
def fetch(tmp_path):
    """Return a function that runs a recipe's command, which downloads to EXP."""

    def run(words: list[str], **variables: str) -> subprocess.CompletedProcess:
        return call([*words, *DOWNLOAD_ONLY], **without_torch(tmp_path / "tools"), **variables)

    return run


def downloads(tmp_path: Path) -> dict[str, bytes]:
    directory = tmp_path / "exp" / "downloads"
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def assert_rejected(result: subprocess.CompletedProcess, message: str) -> None:
    """The last line says it all, and where the log is."""
    last = result.stderr.splitlines()[-1]
    assert (result.returncode, last.partition("; log: ")[0]) == (
        1,
        f"run.sh: stage 1-download: {message}",
    )


def checksum(content: bytes, kind: str = "sha256") -> str:
    return hashlib.new(kind, content).hexdigest()


# --- from a mirror ---


def test_a_mirror_named_by_the_environment_is_taken_unless_another_is_given(
    corpus, fetch, tmp_path
):
    whole = {path.name: path.read_bytes() for path in corpus.mirror.glob("*.tgz")}
    words = command(corpus, tmp_path / "exp")
    result = fetch(words, AIAYN_MIRROR=str(corpus.mirror))
    assert result.returncode == 0, result.stderr
    assert downloads(tmp_path) == whole

    (tmp_path / "empty").mkdir()
    again = mirrored(corpus, tmp_path / "exp", "--force")
    result = fetch(again, AIAYN_MIRROR=str(tmp_path / "empty"))
    assert result.returncode == 0, result.stderr


def test_a_mirror_must_be_a_directory(corpus, fetch, tmp_path):
    message = f"run.sh: --mirror must be a directory, got '{corpus.manifest}'"
    words = command(corpus, tmp_path / "exp")
    assert refusal(fetch([*words, "--mirror", corpus.manifest])) == message
    assert refusal(fetch(words, AIAYN_MIRROR=str(corpus.manifest))) == message
    assert not (tmp_path / "exp").exists()


def test_a_file_that_nobody_has_is_named_with_the_way_out(corpus, fetch, tmp_path):
    (corpus.mirror / FILE).unlink()
    failed = f"cannot download {mirrors.UNREACHABLE}/{FILE} (curl: status 7);"
    advice = "--mirror DIR takes it from a directory"
    result = fetch(mirrored(corpus, tmp_path / "exp"))
    assert_rejected(result, f"{failed} {corpus.mirror} has no {FILE}; {advice}")
    assert len(downloads(tmp_path)) == 3  # those before it
    assert_rejected(fetch(command(corpus, tmp_path / "exp")), f"{failed} {advice}")


def test_a_file_of_the_mirror_that_is_cut_short_is_named(corpus, fetch, tmp_path):
    file = corpus.file("europarl-v7")
    size = file.stat().st_size
    mirrors.truncate(file)
    result = fetch(mirrored(corpus, tmp_path / "exp"))
    assert_rejected(result, f"{file}: must have {size} bytes, has {size // 2}; replace it")
    assert file.exists() and file.name not in downloads(tmp_path)


def test_a_file_of_the_mirror_with_other_content_is_named(corpus, fetch, tmp_path):
    file = corpus.mirror / FILE
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"x")
    result = fetch(mirrored(corpus, tmp_path / "exp"))
    message = f"{file}: the sha256 checksum is not {checksum(content)}; replace it"
    assert_rejected(result, message)
    file.write_bytes(content)
    assert fetch(mirrored(corpus, tmp_path / "exp")).returncode == 0


# --- from the network ---


@pytest.fixture
def served(corpus) -> Corpus:
    """A corpus whose files are where the manifest says."""
    for file in corpus.mirror.glob("*.tgz"):
        corpus.describe(file, url(file), f'sha256 = "{checksum(file.read_bytes())}"')
    return corpus


def url(file: Path) -> str:
    return f'url = "{file.as_uri()}"'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'md5 = "{"0" * 32}"', f"the md5 checksum is not {'0' * 32}; run again"),
        (f'sha256 = "{"0" * 64}"', f"the sha256 checksum is not {'0' * 64}; run again"),
        ("size = 7", "must have 7 bytes, has {size}; run again"),
    ],
)
def test_a_wrong_download_is_refused_and_comes_anew(served, fetch, tmp_path, line, message):
    file = served.mirror / FILE
    served.describe(file, url(file), line)
    part = tmp_path / "exp" / "downloads" / f"{FILE}.part"
    words = command(served, tmp_path / "exp")
    assert_rejected(fetch(words), f"{part}: {message.format(size=file.stat().st_size)}")
    assert not [name for name in downloads(tmp_path) if name.startswith(FILE)]

    served.describe(file, url(file), f'md5 = "{checksum(file.read_bytes(), "md5")}"')
    result = fetch(words)
    assert result.returncode == 0, result.stderr
    assert downloads(tmp_path)[FILE] == file.read_bytes()


def test_an_unknown_checksum_is_kept_and_holds_from_then_on(served, fetch, tmp_path):
    file = served.mirror / FILE
    content = file.read_bytes()
    served.describe(file, url(file))
    words = command(served, tmp_path / "exp")
    first = fetch(words)
    assert first.returncode == 0, first.stderr
    downloaded = tmp_path / "exp" / "downloads" / FILE
    note = f"no checksum is known; that of this download is kept in {FILE}.sha256"
    assert f"{downloaded}: {note}" in first.stderr
    assert downloads(tmp_path)[f"{FILE}.sha256"].decode() == f"{checksum(content)}\n"
    assert first.stderr.count("no checksum is known") == 1  # of the others it is

    downloaded.write_bytes(content[:-1] + b"x")
    rule = f"the sha256 checksum is not {checksum(content)}"
    changed = fetch([*words, "--force"])
    assert_rejected(changed, f"{downloaded}: {rule}; delete it and run again")
    downloaded.unlink()
    again = fetch([*words, "--force"])
    assert again.returncode == 0, again.stderr
    assert "no checksum is known" not in again.stderr
    assert downloaded.read_bytes() == content

    # Nor is another file taken from where it was.
    downloaded.unlink()
    file.write_bytes(content + b"x")
    assert_rejected(fetch([*words, "--force"]), f"{downloaded}.part: {rule}; run again")
