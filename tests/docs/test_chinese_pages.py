"""A Chinese page has the headings, code, figures, links and tables of its English page, section by
section. Whoever changes one of the two is told what the other lacks, and in which line."""

import calendar
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
ENGLISH = [ROOT / "README.md", ROOT / "docs" / "questions.md"]
OTHER = {page: page.with_name(f"{page.stem}.zh-CN.md") for page in ENGLISH}
OTHER |= {chinese: english for english, chinese in OTHER.items()}

CODE = re.compile(r"(.*?)(?:(?:^|\s+)# (.*))?")
LINK = re.compile(r"\]\(([^)\s]+)\)|^(\[[^\]]+\]: \S+)$")
SPAN = re.compile(r"`([^`]+)`")
FIGURE = re.compile(r"(\d+(?:,\d{3})*(?:\.\d+)*)( million| 万| 亿)?")
UNITS = {" million": 10**6, " 万": 10**4, " 亿": 10**8}
MONTH = re.compile(rf"({'|'.join(calendar.month_name[1:])}) (\d{{4}})")
ORDERED = ("command", "row of a table")


class Fact(NamedTuple):
    """What both pages must have, and the line in which one has it."""

    kind: str
    value: str
    line: int


class Section(NamedTuple):
    level: int
    title: str
    line: int
    facts: list[Fact]

    def content(self) -> tuple:
        """Return what must be equal: of prose in any order, of code and tables in this one."""
        facts = [fact[:2] for fact in self.facts]
        return self.level, *sorted(facts), *(fact for fact in facts if fact[0] in ORDERED)


def figures(prose: str) -> list[str]:
    """Return the numbers of a text in one form: 3.8 million and 380 万 are 3800000."""
    prose = MONTH.sub(lambda month: f"{month[2]}-{[*calendar.month_name].index(month[1])}", prose)
    found = [(number.replace(",", ""), unit) for number, unit in FIGURE.findall(prose)]
    return [f"{Decimal(n) * UNITS[unit]:.0f}" if unit else n for n, unit in found]


def link_in_chinese(page: Path, target: str) -> str:
    """Return the target that a page's link has in Chinese. Headings differ, so that an anchor in a
    page of two languages does not count."""
    path, _, _ = target.partition("#")
    linked = (page.parent / path).resolve()
    if not path or linked not in OTHER:
        return target
    return str(Path(path).with_name(OTHER[linked].name)) if page in ENGLISH else path


def facts_of_prose(page: Path, line: str) -> Iterator[tuple[str, str]]:
    spans, line = SPAN.findall(line), SPAN.sub("`", line)
    yield from (("link", link_in_chinese(page, "".join(link))) for link in LINK.findall(line))
    line = LINK.sub("", line)
    if line.startswith("|"):
        cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
        inside = ([*(spans.pop(0) for _ in range(c.count("`"))), *figures(c)] for c in cells)
        yield "row of a table", " | ".join(map(" ".join, inside))
    else:
        yield from (("inline code", span) for span in spans)
        yield from (("figure", figure) for figure in figures(line))


def read_sections(page: Path, text: str) -> list[Section]:
    sections = [Section(0, "", 1, [])]
    fenced, unfinished = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        heading = re.match(r"(#+) (.*)", line)
        code = fenced or line.startswith(("```", "    "))
        fenced ^= line.startswith("```")
        if heading and not code:
            sections.append(Section(len(heading[1]), line, number, []))
        command, comment = CODE.fullmatch(line).groups() if code else ("", unfinished + line)
        unfinished = ""
        if not code and comment.count("`") % 2:  # inline code goes on in the next line
            unfinished = comment + " "
            continue
        facts = list(facts_of_prose(page, comment or ""))
        if command.strip():
            facts.append(("command", command.strip()))
        sections[-1].facts.extend(Fact(*fact, number) for fact in facts)
    return sections


def place(page: Path, section: Section) -> str:
    return f'{page.relative_to(ROOT)}:{section.line} "{section.title}"'


def differences(english: Path, english_text: str, chinese_text: str) -> list[str]:
    """Return what one of two pages has and the other has not, a line of text each."""
    pages = english, OTHER[english]
    ours, theirs = map(read_sections, pages, (english_text, chinese_text))
    found = []
    steps = SequenceMatcher(None, [s.content() for s in ours], [s.content() for s in theirs])
    for tag, i, i_end, j, j_end in steps.get_opcodes():
        here, there = ours[i:i_end], theirs[j:j_end]
        if [s.level for s in here] != [s.level for s in there]:
            sides = zip(pages, (here, there), strict=True)
            named = (", ".join(place(page, s) for s in part) or "none" for page, part in sides)
            found.append("headings: " + " against ".join(named))
        elif tag != "equal":
            found += [
                text for both in zip(here, there, strict=True) for text in compare(pages, both)
            ]
    return found


def compare(pages: tuple[Path, Path], sections: tuple[Section, Section]) -> list[str]:
    found = []
    counts = [Counter((fact.kind, fact.value) for fact in section.facts) for section in sections]
    for kind, value in counts[0] | counts[1]:
        if counts[0][kind, value] != counts[1][kind, value]:
            where = []
            for page, section in zip(pages, sections, strict=True):
                lines = [fact.line for fact in section.facts if fact[:2] == (kind, value)]
                at = f"{page.relative_to(ROOT)}:{','.join(map(str, lines))}"
                where.append(at if lines else f"missing in {place(page, section)}")
            found.append(f"{kind} {value!r}: {'; '.join(where)}")
    return found or ["order of code or rows: " + " and ".join(map(place, pages, sections))]


@pytest.mark.parametrize("english", ENGLISH, ids=lambda page: page.stem)
def test_a_chinese_page_says_what_the_english_page_says(english: Path) -> None:
    found = differences(english, english.read_text("utf-8"), OTHER[english].read_text("utf-8"))
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("page", OTHER, ids=lambda page: page.name)
def test_a_page_links_to_its_other_language_in_its_first_line(page: Path) -> None:
    language = "中文" if page in ENGLISH else "English"
    first = page.read_text("utf-8").partition("\n")[0]
    assert first.endswith(f" · [{language}]({OTHER[page].name})")


@pytest.mark.parametrize("page", [OTHER[page] for page in ENGLISH], ids=lambda page: page.name)
def test_no_paragraph_of_a_chinese_page_is_broken(page: Path) -> None:
    """Browsers show the end of a line as a space, which does not belong between Chinese words. So a
    paragraph or item is one line, as long as it must be."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    prose = r"(?![|#\s]|- |\[[^\]]+\]: ).+\n"
    assert not re.findall(rf"^.*\S.*\n{prose}", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"(?<=[一-鿿] )\d+(?= [一-鿿])", "1234"),
        (r"`--\w+", "`--other"),
        (r"\]\(docs/", "](elsewhere/"),
        (r"^    \w+", "    other"),
        (r"^\| (\S.*) \| (.*?) \|$", r"| \2 | \1 |"),
        (r"^## ", "### "),
    ],
    ids=["figure", "inline code", "link", "command", "row of a table", "heading"],
)
def test_what_differs_is_said_with_its_line(old: str, new: str) -> None:
    page = ENGLISH[0]
    text = OTHER[page].read_text("utf-8")
    line = text[: re.search(old, text, re.MULTILINE).start()].count("\n") + 1
    changed = re.sub(old, new, text, count=1, flags=re.MULTILINE)
    found = "\n".join(differences(page, page.read_text("utf-8"), changed))
    assert re.search(rf"README\.zh-CN\.md:(\d+,)*{line}\b", found)


def test_another_order_of_commands_is_said() -> None:
    page = ENGLISH[0]
    text = OTHER[page].read_text("utf-8")
    changed = re.sub(r"(?m)^(    .*)\n(    .*)$", r"\2\n\1", text, count=1)
    (found,) = differences(page, page.read_text("utf-8"), changed)
    assert found.startswith("order of code")
