"""A Chinese page has the headings, code, figures, links and tables of its English page, section by
section."""

import calendar
import re
from decimal import Decimal
from pathlib import Path

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


def sections_of(page: Path, text: str) -> list[dict[str, list]]:
    """Return what each section must have in both languages, of prose in any order."""
    sections: list[dict[str, list]] = []
    fenced, unfinished = False, ""
    for line in f"# \n{text}".splitlines():
        code = fenced or line.startswith(("```", "    "))
        fenced ^= line.startswith("```")
        if not code and (level := re.match("#+ ", line)):
            sections.append({"level": [level[0]], "prose": [], "commands": [], "rows": []})
        command, comment = CODE.fullmatch(line).groups() if code else ("", unfinished + line)
        unfinished = ""
        if not code and comment.count("`") % 2:  # inline code goes on in the next line
            unfinished = comment + " "
            continue
        sections[-1]["commands"] += filter(None, [command.strip()])
        spans, prose = SPAN.findall(comment or ""), SPAN.sub("`", comment or "")
        links = [link_in_chinese(page, "".join(link)) for link in LINK.findall(prose)]
        facts, prose = [("link", link) for link in links], LINK.sub("", prose)
        if prose.startswith("|"):
            cells = re.split(r"(?<!\\)\|", prose.strip().strip("|"))
            inside = [[spans.pop(0) for _ in range(c.count("`"))] + figures(c) for c in cells]
            sections[-1]["rows"].append(inside)
        else:
            facts += [("code", span) for span in spans]
            facts += [("figure", figure) for figure in figures(prose)]
        sections[-1]["prose"] = sorted(sections[-1]["prose"] + facts)
    return sections


@pytest.mark.parametrize("english", ENGLISH, ids=lambda page: page.stem)
def test_a_chinese_page_says_what_the_english_page_says(english: Path) -> None:
    ours, theirs = (
        sections_of(page, page.read_text("utf-8")) for page in (english, OTHER[english])
    )
    for here, there in zip(ours, theirs, strict=True):
        assert here == there


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
        (r"^(    .*)\n(    .*)$", r"\2\n\1"),
    ],
    ids=["figure", "inline code", "link", "command", "row of a table", "heading", "order"],
)
def test_a_difference_counts(old: str, new: str) -> None:
    page = OTHER[ENGLISH[0]]
    text = page.read_text("utf-8")
    changed = re.sub(old, new, text, count=1, flags=re.MULTILINE)
    assert changed != text and sections_of(page, changed) != sections_of(page, text)
