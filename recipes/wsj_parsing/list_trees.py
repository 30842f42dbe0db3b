"""Write the lists train, valid and test of a treebank's files, one path per line.

Without --lists, these are sections 02 to 21, 22 and 23 of parsed/mrg/wsj of LDC's Treebank-3,
the sets of section 6.3. Sets consist of whole files, because sentences of a document are alike.

    python list_trees.py --treebank wsj --output lists
    python list_trees.py --treebank DIR --lists DIR --output lists
"""

from __future__ import annotations

from pathlib import Path

from fairseq_aiayn.text import script, stream_lines, write_whole
from fairseq_aiayn.treebank.trees import tree_files

SECTIONS = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
Lists = dict[str, list[str]]


def sections(treebank: Path) -> Lists:
    """Return the sets of section 6.3; raises ValueError for a section without trees."""
    found: Lists = {}
    for name, numbers in SECTIONS.items():
        found[name] = []
        for number in numbers:
            files = tree_files(treebank / f"{number:02d}")
            if not files:
                raise ValueError(f"{treebank}: must have files {number:02d}/*.mrg, has none")
            found[name] += [str(path.relative_to(treebank)) for path in files]
    return found


def given(treebank: Path, lists: Path) -> Lists:
    """Return the sets that the files in `lists` name.

    Raises ValueError for an empty list, a directory in a list, or a file that is listed twice,
    OSError for a missing file.
    """
    found: Lists = {}
    first: dict[Path, str] = {}
    for name in SECTIONS:
        found[name] = read_list(lists / name)
        if not found[name]:
            raise ValueError(f"{lists / name}: must name at least one file")
        for path in found[name]:
            real = (treebank / path).resolve(strict=True)
            if real.is_dir():  # two lists could share what is in it
                raise ValueError(f"{lists / name}: must name files, {path} is a directory")
            if real in first:
                raise ValueError(
                    f"{path}: must be in one list once, is in {first[real]} and {name}"
                )
            first[real] = name
    return found


def read_list(file: Path) -> list[str]:
    """Read paths, one per line, without the white space around them."""
    lines = (line.strip(" \t\r\n") for line in stream_lines(file))
    return [line for line in lines if line]


def write_lists(lists: Lists, directory: Path) -> None:
    """Write one file per set into a directory, which is created if missing."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, paths in lists.items():
        write_whole(directory / name, "".join(f"{path}\n" for path in paths))


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("--treebank", type=Path, required=True, metavar="DIR")
        parser.add_argument("--lists", type=Path, metavar="DIR", help="of train, valid and test")
        parser.add_argument("--output", type=Path, required=True, metavar="DIR")
        arguments = parser.parse_args()
        treebank = arguments.treebank
        lists = given(treebank, arguments.lists) if arguments.lists else sections(treebank)
        absolute = {
            name: [str((treebank / path).absolute()) for path in paths]
            for name, paths in lists.items()
        }
        write_lists(absolute, arguments.output)
        print(", ".join(f"{name}: {len(paths):,} files" for name, paths in lists.items()))


if __name__ == "__main__":
    main()
