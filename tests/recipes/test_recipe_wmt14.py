"""The WMT 2014 recipes' text: from archives to clean tokens, and what a bad archive ends with."""

import subprocess
from pathlib import Path

import mirrors
import pytest
from recipe_runs import (
    RECIPES,
    Corpus,
    call,
    failure,
    in_front,
    lines_of,
    make_corpus,
    mirrored,
    refusal,
    with_fork_server,
    without_fork_server,
    without_torch,
    write_tool,
)

from fairseq_aiayn.paper import VOCABULARY_EN_DE, VOCABULARY_EN_FR

TARGET = {"wmt14_en_de": "de", "wmt14_en_fr": "fr"}
DROPPED = None

# Text of one archive, and the tokens that become of each pair.
GERMAN = [
    (
        "“Well-known” words,  and\u00a0more … it's 5,300.50!",
        "„Bekannte“ Wörter\u00ad und – mehr ... a/b & 5.300,50 €",
        "&quot; Well @-@ known &quot; words , and more ... it &apos;s 5,300.50 !",
        "&quot; Bekannte &quot; Wörter und - mehr ... a / b &amp; 5.300,50 €",
    ),
    ("One side is empty.", " ", DROPPED, DROPPED),
    ("One side is much longer than the other side.", "Zu kurz.", DROPPED, DROPPED),
    ("word " * 251, "Wort " * 251, DROPPED, DROPPED),
    (
        "Rates <rose> to 3 % in the U.S. today.",
        "Die Sätze stiegen auf 3 %, sagte Dr. Ä.",
        "Rates &lt; rose &gt; to 3 % in the U.S. today .",
        "Die Sätze stiegen auf 3 % , sagte Dr. Ä .",
    ),
]
FRENCH = [
    (
        "“Well-known”  words, and\tmore … & <it's>",
        "L'avion  n’est «\u00a0pas\u00a0» là\u202f! ",
        "“Well-known” words, and more … & <it's>",
        "L'avion n’est « pas » là !",
    ),
    ("", "Un côté est vide.", DROPPED, DROPPED),
    ("Five words in this sentence.", "Trois mots seulement.", DROPPED, DROPPED),
    ("word " * 251, "mot " * 251, DROPPED, DROPPED),
    ("Last one.", "Le dernier.", "Last one.", "Le dernier."),
]
# A test set is scored as it is: nothing is normalized, and no pair is too uneven.
HELD_OUT = (
    ["“R&D” costs <3 %> & more…", "One", "A\u00a0no-break space"],
    ["„F&E“ kostet <3 %> & mehr…", "Eins und noch viel mehr Wörter", "«\u00a0Là\u00a0!\u00a0»"],
)


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a recipe's mirror, with some of its texts given."""

    def make_mirror(recipe: str, **texts: mirrors.Pair) -> Corpus:
        given = {name.replace("_", "-"): pair for name, pair in texts.items()}
        return make_corpus(recipe, tmp_path / "mirror", TARGET[recipe], 5, given)

    return make_mirror


@pytest.fixture
def prepare(tmp_path):
    """Return a function that runs a recipe up to clean tokens in EXP."""

    def run(corpus: Corpus, *options: str) -> subprocess.CompletedProcess:
        words = mirrored(corpus, tmp_path / "exp", "--stop_stage", "2", *options)
        return call(words, **without_torch(tmp_path / "tools"))

    return run


@pytest.mark.parametrize(("recipe", "examples"), [("wmt14_en_de", GERMAN), ("wmt14_en_fr", FRENCH)])
def test_archives_become_clean_tokens_in_their_order(recipe, examples, make, prepare, tmp_path):
    raw = [source for source, *_ in examples], [target for _, target, *_ in examples]
    corpus = make(recipe, commoncrawl=raw, newstest2014=HELD_OUT)
    result = prepare(corpus)
    assert result.returncode == 0, result.stderr
    assert "commoncrawl            5     2      1         1      1" in result.stderr

    exp, languages = tmp_path / "exp", ("en", TARGET[recipe])
    sizes = {
        name: len(pair[0])
        for name, pair in corpus.pairs.items()
        if name[:4] != "news" or name[4] == "-"
    }
    assert len(sizes) == (3 if recipe == "wmt14_en_de" else 5)
    for side, language in enumerate(languages):
        kept = [tokens[side] for *_, first, second in examples if (tokens := (first, second))[0]]
        tokens = lines_of(exp / "tokens" / f"train.{language}")
        start = sizes["europarl-v7"]
        assert tokens[start : start + len(kept)] == kept
        assert len(tokens) == sum(sizes.values()) - 5 + len(kept)
        assert lines_of(exp / "data" / f"test.{language}") == HELD_OUT[side]
        assert lines_of(exp / "data" / f"valid.{language}") == corpus.pairs["newstest2013"][side]
        assert len(lines_of(exp / "tokens" / f"test.{language}")) == 3


@pytest.mark.parametrize(
    ("recipe", "text", "stage", "script"),
    [
        ("wmt14_en_de", "europarl-v7", "2-clean", "cleaning"),
        ("wmt14_en_de", "newstest2014", "2-held_out", "texts"),
        ("wmt14_en_fr", "giga-fren", "2-clean", "cleaning"),
    ],
)
def test_an_archive_that_is_cut_short_is_named_though_its_checksum_fits(
    recipe, text, stage, script, make, prepare, tmp_path
):
    corpus = make(recipe, **{text: mirrors.invented_pairs(1000, 1)})
    archive = corpus.file(text)
    mirrors.truncate(archive)
    corpus.publish(archive)
    downloaded = tmp_path / "exp" / "downloads" / archive.name
    message = f"{script}: {downloaded}: is cut short or not a gzip/tar archive"
    assert failure(prepare(corpus), "text.sh", stage) == message


@pytest.mark.parametrize(
    ("recipe", "text", "member", "stage", "script", "others"),
    [
        (
            *("wmt14_en_de", "newstest2013", "dev/newstest2013-ref.de.sgm"),
            *("2-held_out", "texts"),
            "dev/newstest2013-ref.cs.sgm, dev/newstest2013-src.cs.sgm, dev/newstest2013-src.en.sgm",
        ),
        (
            *("wmt14_en_fr", "un", "un/undoc.2000.fr-en.en", "2-clean", "cleaning"),
            "un/undoc.2000.cs-en.cs, un/undoc.2000.fr-en.fr",
        ),
    ],
)
def test_a_file_that_its_archive_lacks_is_named(
    recipe, text, member, stage, script, others, make, prepare, tmp_path
):
    corpus = make(recipe)
    archive = corpus.file(text)
    mirrors.drop_member(archive, member)
    corpus.publish(archive)
    downloaded = tmp_path / "exp" / "downloads" / archive.name
    message = f"{script}: {downloaded}: expected a member {member}, got {others}"
    assert failure(prepare(corpus), "text.sh", stage) == message


def test_sides_of_a_training_text_must_be_of_one_length(make, prepare):
    source, target = mirrors.invented_pairs(30, 1)
    result = prepare(make("wmt14_en_de", europarl_v7=(source, target[:-1])))
    message = "europarl-v7: expected parallel lines, got only 29 in de"
    assert failure(result, "text.sh", "2-clean") == f"cleaning: {message}"


def test_sides_of_a_held_out_text_must_be_of_one_length(make, prepare, tmp_path):
    source, target = mirrors.invented_pairs(30, 1)
    result = prepare(make("wmt14_en_fr", newstest2014=(source, [*target, "Encore une."])))
    member = "test-full/newstest2014-fren-ref.fr.sgm"
    message = f"{tmp_path}/exp/downloads/test-full.tgz: {member}: expected 30 sentences, got 31"
    assert failure(result, "text.sh", "2-held_out") == f"texts: {message}"


@pytest.mark.parametrize("recipe", TARGET)
def test_the_filtered_test_set_is_not_taken_for_the_whole(recipe, make, prepare, tmp_path):
    corpus = make(recipe, newstest2014=mirrors.invented_pairs(2737, 1))
    published = (RECIPES / recipe / "corpus.toml").read_text()
    of_the_whole = published.rpartition("\n[test]\n")[2].splitlines()[-1]
    assert of_the_whole == "sentences = 3003"
    content = corpus.manifest.read_text()
    corpus.manifest.write_text(content.replace("sentences = 2737", of_the_whole))
    member = f"test-full/newstest2014-{'deen' if recipe == 'wmt14_en_de' else 'fren'}-src.en.sgm"
    message = f"{tmp_path}/exp/downloads/test-full.tgz: {member}: expected 3,003 sentences"
    line = failure(prepare(corpus), "text.sh", "2-held_out")
    assert line == f"texts: {message}, got 2,737"


# --- a full disk ---

GERMAN_RUN = RECIPES / "wmt14_en_de" / "run.sh"
FRENCH_RUN = RECIPES / "wmt14_en_fr" / "run.sh"
PARSING_RUN = RECIPES / "wsj_parsing" / "run.sh"


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ((GERMAN_RUN,), 14000 + 6000),
        ((GERMAN_RUN, "--row", "big", "--system", "both", "--seeds", "1 2"), 14000 + 4 * 60000),
        ((GERMAN_RUN, "--row", "big", "--prepared", "absent"), 60000),
        ((GERMAN_RUN, "--row", "big", "--stop_stage", "4"), 14000),
        ((GERMAN_RUN, "--row", "big", "--system", "both", "--needs_mb", "7"), 7),
        ((PARSING_RUN, "--corpus", "gum", "--gpus", "1"), 2000 + 3 * 12000),
    ],
)
def test_the_checkpoints_of_every_run_need_disk_space(tmp_path, words, needed):
    df = write_tool(tmp_path / "tools" / "df", "echo header; echo disk 9000 9000 0 100% /")
    result = call([*words, "--exp", tmp_path / "exp"], **in_front(df, with_fork_server()))
    assert result.returncode == 1
    assert f" MB free, {needed} MB needed (--needs_mb)\n" in result.stderr


# Runs a recipe on a disk of its own, too small and then large enough; it goes with the namespace.
SMALL_DISK = """
mount -t tmpfs -o size=1200k none "$1" || exit 99
"${@:2}"
echo "status $?" >&2
mount -o remount,size=40m "$1" && "${@:2}" && cp -r "$1/exp/tokens" "$1/../tokens"
"""


def test_a_full_disk_is_named_and_with_room_the_same_command_goes_on(make, tmp_path):
    line = "word " * 240
    corpus = make("wmt14_en_fr", un=([line] * 1000, [line] * 1000))
    disk = tmp_path / "disk"
    disk.mkdir()
    words = mirrored(corpus, disk / "exp", "--stop_stage", "2", "--needs_mb", "0")
    shell = ["unshare", "--mount", "--map-root-user", "bash", "-c", SMALL_DISK, "disk", str(disk)]
    result = call([*shell, *words], **without_torch(tmp_path / "tools"), **without_fork_server())
    if result.returncode == 99 or result.stderr.startswith("unshare:"):
        pytest.skip(f"needs the right to mount a small disk: {result.stderr.strip()}")
    first, second = result.stderr.split("status 1\n")
    cause, last = first.splitlines()[-2:]
    assert cause == "cleaning: [Errno 28] No space left on device"
    assert f"stage 2-clean failed with status 1: no space left on the disk of {disk}/exp" in last
    assert result.returncode == 0, second
    assert " stage 2-clean goes on" in second
    assert "stage 2-held_out is done, skipped" in second
    assert lines_of(tmp_path / "tokens" / "train.fr").count(line.strip()) == 1000


def test_a_directory_that_cannot_be_made_is_one_line(make, tmp_path):
    words = mirrored(make("wmt14_en_fr"), Path("/proc/nothing"))
    line = refusal(call(words, **without_torch(tmp_path / "tools")))
    message = "cannot write to /proc/nothing: no permission, no space or no directory"
    assert line == f"run.sh: {message}"


@pytest.mark.parametrize(
    ("recipe", "vocabulary"), [("wmt14_en_de", VOCABULARY_EN_DE), ("wmt14_en_fr", VOCABULARY_EN_FR)]
)
def test_the_vocabulary_has_the_size_of_section_5_1(recipe, vocabulary):
    script = (RECIPES / recipe / "run.sh").read_text()
    assert f"\nvocabulary={vocabulary} " in script


@pytest.mark.parametrize("name", ["", "none.toml", "-inf"])
def test_a_manifest_that_cannot_be_read_is_named(name, tmp_path):
    manifest = f"{tmp_path}/{name}" if name != "-inf" else name
    words = [FRENCH_RUN, "--exp", f"{tmp_path}/exp", "--dry_run", "--manifest", manifest]
    refused = call(words)
    message = f"run.sh: --manifest must be a file that can be read, got '{manifest}'\n"
    assert (refused.returncode, refused.stderr) == (1, message)


def test_a_value_with_line_ends_is_refused_in_one_line(tmp_path):
    words = [FRENCH_RUN, "--exp", f"{tmp_path}/exp", "--dry_run", "--max_update", "1\n2\r3"]
    assert refusal(call(words)) == "run.sh: --max_update must be a whole number, got '1 2 3'"
