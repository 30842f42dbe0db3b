"""The layout that CONTRIBUTING.md promises: imports run one way, files and functions stay short."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairseq_aiayn

ROOT = Path(fairseq_aiayn.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# A module imports from layers before its own, and within its own sub-package
LAYERS = [
    {"paper", "rows", "messages", "processes"},
    {"files", "nn", "training", "decoding", "treebank", "text"},
    {"evaluation", "inspection"},
    {"report", "plugin"},
    {"cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
TORCH_ONLY = {"nn", "training", "decoding"}
VAGUE = {"utils", "util", "helpers", "misc", "common"}
LISTED_BY_FAIRSEQ = {"models", "tasks"}  # fairseq imports what lies in such folders of a --user-dir
LONGEST_FILE, LONGEST_BODY = 275, 40  # lines; the aim is 250 and 30

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def part_of(path: Path) -> str:
    """The sub-package or module of fairseq_aiayn that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, ...]]:
    """Every import of a file, at any depth, as the parts of its dotted name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides its layer"
            # "from fairseq_aiayn import paper" imports fairseq_aiayn.paper
            yield from ((*node.module.split("."), alias.name) for alias in node.names)


@each_file
def test_imports_run_one_way(path: Path) -> None:
    """paper, nn, training, decoding, treebank → evaluation, inspection → report, plugin → cli."""
    part = part_of(path)
    if part == "__init__":  # registers with fairseq, and nothing imports from it
        return
    assert part in RANK, f"{part} is in no layer"
    for name in imports(path):
        if name[0] == "fairseq_aiayn" and len(name) > 1 and name[1] in RANK:
            other = name[1]
            allowed = other in (part, "paper", "rows") or RANK[other] < RANK[part]
            assert allowed, f"{part} imports {'.'.join(name)}"


@each_file
def test_only_the_plugin_imports_fairseq(path: Path) -> None:
    """So that the model, its training and its search can be read and used without fairseq."""
    if part_of(path) in ("plugin", "__init__"):
        return
    assert "fairseq" not in {name[0] for name in imports(path)}


@each_file
def test_the_paper_part_needs_torch_only(path: Path) -> None:
    """nn, training and decoding: torch and the standard library; paper.py not even torch."""
    if part_of(path) not in TORCH_ONLY | {"paper"}:
        return
    own = {"fairseq_aiayn"} | ({"torch"} if part_of(path) in TORCH_ONLY else set())
    assert {name[0] for name in imports(path)} <= own | sys.stdlib_module_names


@each_file
def test_dataclasses_for_fairseq_keep_their_annotations(path: Path) -> None:
    """fairseq makes options of a dataclass's annotations: as strings, which the future import makes
    of them, it cannot."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    configs = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith("Config")
    ]
    if configs:
        assert ("__future__", "annotations") not in set(imports(path)), configs


@each_file
def test_files_and_functions_are_short_and_have_names(path: Path) -> None:
    """A file is one idea; a function's body, which is what follows its docstring, fits on half a
    screen."""
    assert path.stem not in VAGUE
    assert not LISTED_BY_FAIRSEQ & set(path.relative_to(ROOT).parts[:-1])
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= LONGEST_FILE
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[1 if ast.get_docstring(node) else 0 :][:1]
            assert not first or node.end_lineno - first[0].lineno < LONGEST_BODY, node.name


def test_the_rules_see_the_package() -> None:
    """Breaks if the files are not found, so that every rule above holds of nothing."""
    assert {"paper", "nn", "training", "decoding", "plugin", "cli"} <= {part_of(p) for p in FILES}
    assert ("fairseq_aiayn", "paper", "BASE") in set(imports(ROOT / "plugin" / "criterion.py"))
