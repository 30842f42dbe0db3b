"""The layout that CONTRIBUTING.md promises: imports run one way, functions stay short."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import fairseq_aiayn

ROOT = Path(fairseq_aiayn.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
# A module imports from layers before its own, and within its own sub-package
LAYERS = [
    {"paper", "files", "console", "configuration", "palette"},
    {"nn"},
    {"training"},
    {"decoding", "treebank", "corpus", "settings"},
    {"checkpoints", "scores", "cost"},
    {"runs", "attention_maps"},
    {"diagnosis", "inference", "repairs"},
    {"report", "plugin"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
TORCH_ONLY = {"nn", "training", "decoding"}
VAGUE = {"utils", "util", "helpers", "misc", "common"}
LISTED_BY_FAIRSEQ = {"models", "tasks"}  # fairseq imports what lies in such folders of a --user-dir
LONGEST_BODY = 40  # lines; the aim is 30
MOST_DOORS = 25  # of the rooms in WIDE; of the others, ten less
WIDE = {"inference", "nn", "runs", "treebank"}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)


def part_of(path: Path) -> str:
    """The sub-package or module of fairseq_aiayn that a file belongs to."""
    return module_of(path).split(".")[1]


def imports(path: Path) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides its layer"
            # "from fairseq_aiayn import paper" imports fairseq_aiayn.paper
            yield from ((*node.module.split("."), alias.name) for alias in node.names)


def test_imports_run_one_way() -> None:
    """A part imports from earlier layers alone; the package's __init__ registers with fairseq."""
    parts = {part_of(path) for path in TREES} - {"__init__"}
    assert parts == set(RANK)
    for path in TREES:
        for name in imports(path):
            part = part_of(path)
            if part == "__init__" or name[0] != "fairseq_aiayn" or len(name) == 1:
                continue
            other = name[1]
            earlier = other in (part, "paper") or RANK[other] < RANK[part]
            assert earlier, f"{path}: {part} imports {'.'.join(name)}"


def test_no_file_imports_itself_by_way_of_others() -> None:
    files = {module_of(path).removesuffix(".__init__"): path for path in TREES}
    graph = TopologicalSorter()
    for file, path in files.items():
        for name in map(".".join, imports(path)):
            graph.add(file, name if name in files else name.rpartition(".")[0])
    graph.prepare()


def test_other_parts_enter_a_room_by_its_doors() -> None:
    """__all__ of a room's modules has what other parts import from them, and no more."""
    doors = {
        (*module_of(path).split("."), name)
        for path, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for name in ast.literal_eval(node.value)
    }
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    entered = {name for path in TREES for name in imports(path) if name[1:2] != (part_of(path),)}
    assert doors == {
        name for name in entered if name[0] == "fairseq_aiayn" and name[1:] and name[1] in rooms
    }
    for room, count in Counter(door[1] for door in doors).items():
        assert count <= (MOST_DOORS if room in WIDE else MOST_DOORS - 10), room


def test_tests_are_in_folders_named_for_what_they_test() -> None:
    folders = {path.parent.name for path in Path(__file__).parent.glob("*/*.py")}
    assert folders - set(RANK) <= {"benchmarks", "docs", "gpu", "recipes", "system", "torture"}


def test_the_paper_part_needs_torch_only_and_the_plugin_alone_fairseq() -> None:
    users = {part_of(path) for path in TREES for name in imports(path) if name[0] == "fairseq"}
    assert users == {"plugin", "repairs"}
    for path in TREES:
        own = {"fairseq_aiayn", "torch"} if part_of(path) in TORCH_ONLY else {"fairseq_aiayn"}
        if part_of(path) in TORCH_ONLY | {"paper"}:
            assert {name[0] for name in imports(path)} <= own | sys.stdlib_module_names, path


def test_functions_are_short_and_files_have_names() -> None:
    for path, tree in TREES.items():
        assert path.stem not in VAGUE
        assert not LISTED_BY_FAIRSEQ & set(path.relative_to(ROOT).parts[:-1])
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                first = node.body[1 if ast.get_docstring(node) else 0 :][:1]
                short = not first or node.end_lineno - first[0].lineno < LONGEST_BODY
                assert short, f"{path}: {node.name}"


def headings(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page, and those that it names."""
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def test_links_lead_to_files_and_headings() -> None:
    root = ROOT.parent
    places = ("*.md", "docs/*.md", "recipes/*/*.md", "benchmarks/*.md")
    pages = [page for place in places for page in root.glob(place)]
    links = 0
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if target.startswith("http"):
                continue
            name, _, anchor = target.partition("#")
            linked = page.parent / name if name else page
            assert linked.exists(), f"{page}: {target}"
            assert not anchor or anchor in headings(linked), f"{page}: {target}"
            links += 1
    assert links > 100
