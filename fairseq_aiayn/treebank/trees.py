"""Constituency trees in Penn Treebank brackets, as plain immutable data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from fairseq_aiayn.files import STANDARD_INPUT, source_name, stream_lines

__all__ = [
    "Constituent",
    "input_files",
    "penn_words",
    "pretty",
    "symbols_of",
    "words_of",
    "write_tree",
]

# For use inside [] of a regular expression. No other character separates words, not even a no-break
# space; escapes (-LRB-, 1\/2) stay unchanged.
WHITE_SPACE = r" \t\r\n\f\v"
ATOM = rf"[^(){WHITE_SPACE}]"  # a character of a label, a tag or a word
NOT_WHITE = re.compile(rf"[^{WHITE_SPACE}]+")

ROOT_LABEL = "TOP"  # of every normalized tree; EVALB does not count it
WRAPPERS = frozenset(("", "ROOT", "TOP", "S1"))  # labels above a sentence in treebanks and parsers


class Word(NamedTuple):
    """A leaf: a part-of-speech tag over a word, escaped as in the treebank (-LRB-, 1\\/2)."""

    tag: str
    form: str


class Constituent(NamedTuple):
    """A labelled bracket over at least one child."""

    label: str
    children: tuple[Constituent | Word, ...]


def walk(tree: Constituent) -> Iterator[Constituent | Word | str]:
    """Yield the nodes of a tree depth first and, after all nodes of a constituent, its label."""
    pending: list[Constituent | Word | str] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, Constituent):
            pending.append(node.label)
            pending += reversed(node.children)


def words_of(tree: Constituent) -> list[Word]:
    """Return the leaves of a tree from left to right."""
    return [node for node in walk(tree) if isinstance(node, Word)]


def write_tree(tree: Constituent) -> str:
    """Return a tree in brackets on one line: (TOP (NP (DT the) (NN board)))."""
    parts: list[str] = []
    for node in walk(tree):
        if isinstance(node, str):
            parts.append(")")
        elif isinstance(node, Word):
            parts.append(f" ({node.tag} {node.form})")
        else:
            parts.append(f" ({node.label}")
    return "".join(parts).lstrip(" ")


def symbols_of(line: str) -> list[str]:
    """Return the words of a line, or the symbols of a linearized tree, split at white space."""
    return NOT_WHITE.findall(line)


# Reading brackets: a tree may span several lines, and a line may have several trees.


# Endings of file names, in lower or upper case: old disks have WSJ_0301.MRG
TREE_FILES = (".mrg", ".mrg.gz", ".ptb", ".ptb.gz")

# A whole word (its tag and form), or else "(" with or without a label, ")", or an atom by itself
TOKEN = re.compile(
    rf"\(({ATOM}+)[{WHITE_SPACE}]+({ATOM}+)[{WHITE_SPACE}]*\)|(\({ATOM}*|\)|{ATOM}+)"
)


# German treebanks tag brackets, quotes and dashes $(
GERMAN_TAG = re.compile(rf"\(\$\([{WHITE_SPACE}]+([()]|{ATOM}+)[{WHITE_SPACE}]*\)")
ESCAPED = {"(": "-LRB-", ")": "-RRB-"}


def escape_brackets(line: str) -> str:
    """Return a line with the tag $( as $*LRB*, which is NEGRA's way to write it in brackets, and
    with a bracket under this tag as -LRB- or -RRB-."""
    if "($(" not in line:
        return line
    return GERMAN_TAG.sub(lambda word: f"($*LRB* {ESCAPED.get(word[1], word[1])})", line)


def read_trees(path: str | Path) -> Iterator[Constituent]:
    """Yield the trees of a file; raises the errors of `stream_lines` and `parse_trees`."""
    return parse_trees(stream_lines(path), source_name(path))


def input_files(path: str | Path) -> list[str | Path]:
    """Return what to read for a path: the path or, of a directory, all TREE_FILES in it and below
    it, sorted. Links to directories are not followed. Raises ValueError for the name "" and for a
    directory without such files."""
    if path == "":  # an unset shell variable; Path would take it for the current directory
        raise ValueError("the name of a file must not be empty")
    if path == STANDARD_INPUT or not Path(path).is_dir():
        return [path]
    below = (file for file in Path(path).rglob("*") if file.name.lower().endswith(TREE_FILES))
    files: list[str | Path] = sorted(file for file in below if file.is_file())
    if not files:
        raise ValueError(f"{path}: expected *.mrg, *.ptb or those with .gz in or below it")
    return files


class _Bracket(NamedTuple):
    """A bracket that is not closed yet; a child that is a str is the form of a word."""

    label: str
    children: list[Constituent | Word | str]


def parse_trees(lines: Iterable[str], name: str) -> Iterator[Constituent]:
    """Yield the trees in the lines of a file; only the root of a tree may have the label "". Raises
    ValueError, "NAME:LINE: what is wrong"; of a tree that is not closed, LINE is its first."""
    stack: list[_Bracket] = []
    first = 0
    for number, line in enumerate(lines, start=1):
        for tag, form, token in TOKEN.findall(escape_brackets(line)):
            first = first if stack else number
            try:
                tree = _take(stack, tag, form, token)
            except ValueError as error:
                raise ValueError(f"{name}:{number}: {error}") from error
            if tree:
                yield tree
    if stack:
        raise ValueError(f"{name}:{first}: the tree is not closed at the end")


def _take(stack: list[_Bracket], tag: str, form: str, token: str) -> Constituent | None:
    """Take a word, if there is a tag, or another token; return the tree that it closes."""
    if token.startswith("("):
        stack.append(_Bracket(token[1:], []))
        return None
    if token == ")":
        return _close(stack)
    if not stack:
        fault = "a word without a constituent around it" if tag else "text outside of brackets"
        raise ValueError(f"{fault}: {token or f'({tag} {form})'}")
    label, children = stack[-1]
    if tag:
        children.append(Word(tag, form))
    elif label or children:
        children.append(token)  # the form of a word whose bracket spans several lines
    else:
        stack[-1] = _Bracket(token, children)  # a label after white space
    return None


def _close(stack: list[_Bracket]) -> Constituent | None:
    """Close the innermost bracket; return it if it is a root, else None."""
    if not stack:
        raise ValueError("unbalanced: a closing bracket too many")
    label, children = stack.pop()
    texts = [child for child in children if isinstance(child, str)]
    nodes = [child for child in children if not isinstance(child, str)]
    if len(texts) > 1 or bool(texts) == bool(nodes):
        inside = f"{len(texts)} words and {len(nodes)} brackets"
        raise ValueError(f"expected one word or only brackets in ({label} ...), got {inside}")
    node = Word(label, texts[0]) if texts else Constituent(label, tuple(nodes))
    if stack:
        if not label:
            raise ValueError("a bracket without a label")
        stack[-1].children.append(node)
        return None
    if isinstance(node, Word):
        raise ValueError(f"a word without a constituent around it: ({label} {node.form})")
    return node


# The uses of nltk, which is imported only when needed, because the import takes seconds


# The WSJ is ASCII; its tokenizer tells opening from closing quotes by the surrounding text
ASCII_QUOTES = str.maketrans("“”‘’", "\"\"''")


def penn_words(sentence: str) -> list[str]:
    """Return the words of one English sentence as in the Penn Treebank, without white space or
    round brackets in them.

    Contractions are split (ca n't), quotes become `` and '', and brackets become -LRB-, -RSB- and
    so on. Only a full stop at the end becomes a separate word, so pass one sentence at a time.
    """
    from nltk.tokenize import TreebankWordTokenizer

    return TreebankWordTokenizer().tokenize(
        sentence.translate(ASCII_QUOTES), convert_parentheses=True
    )


def pretty(tree: Constituent) -> str:
    """Return a drawing of a tree in characters, on several lines; the last has no line end."""
    from nltk import Tree
    from nltk.tree.prettyprinter import TreePrettyPrinter

    brackets = write_tree(tree)
    copy = Tree.fromstring(brackets, node_pattern=f"{ATOM}+", leaf_pattern=f"{ATOM}+")
    return TreePrettyPrinter(copy).text().rstrip("\n")
