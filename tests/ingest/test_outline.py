"""Headings, fences, front matter and comments of Markdown texts."""

from __future__ import annotations

import pytest

from lorelog.ingest.outline import read_outline


def headings(text: str) -> list[tuple[int, int, str]]:
    return [(heading.first + 1, heading.level, heading.title) for heading in read_outline(text).headings]


def visible(text: str) -> list[str]:
    outline = read_outline(text)
    return [outline.visible(number) for number in range(len(outline.lines))]


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("# One", (1, "One")),
        ("###### Six", (6, "Six")),
        ("   ## Indented", (2, "Indented")),
        ("#\tTab", (1, "Tab")),
        ("# 　wide", (1, "wide")),
        ("## Closed ##", (2, "Closed")),
        ("## Closed ####   ", (2, "Closed")),
        ("# C#", (1, "C#")),
        ("# a # b", (1, "a # b")),
        ("## ##", (2, "")),
        ("#", (1, "")),
        ("# With <!-- note --> comment", (1, "With  comment")),
        ("# With `<!-- code -->`", (1, "With `<!-- code -->`")),
        ("# " + "t" * 498, (1, "t" * 498)),
    ],
)
def test_hash_headings(line: str, heading: tuple[int, str]) -> None:
    """One to six hashes and a space begin a heading; its closing hashes and comments are not part of the title."""
    assert headings(line) == [(1, *heading)]


@pytest.mark.parametrize(
    "line",
    ["#tag", "####### seven", "    # code", "\t# code", "\\# no", "> # quoted", "- # item", "# " + "t" * 499, "# a\rb"],
)
def test_lines_that_look_like_headings_are_text(line: str) -> None:
    """Tags, seven hashes, indented code, quotes, list items, and lines too long for a title are text."""
    assert headings(f"{line}\ntext") == []


def test_underlined_headings() -> None:
    """A paragraph of one line with = or - below it is a heading of level 1 or 2 on two lines."""
    outline = read_outline("Title\n=====\nbody\n\nSub\n-\nmore\n\n# H\nDirect\n---  ")
    assert [(h.first, h.last, h.level, h.title) for h in outline.headings] == [
        (0, 1, 1, "Title"),
        (4, 5, 2, "Sub"),
        (8, 8, 1, "H"),
        (9, 10, 2, "Direct"),
    ]


@pytest.mark.parametrize(
    ("source", "text", "found"),
    [
        ("a.txt", "Title\n=====\nx\n\nSub\n---", [(1, 1, "Title"), (5, 2, "Sub")]),
        (
            "a.rst",
            "=====\nTitle\n=====\n\n1. Sub\n------\n\nDeep\n~~~~\nx",
            [(1, 3, "Title"), (5, 4, "1. Sub"), (8, 5, "Deep")],
        ),
        ("a.rst", "====  ===\na     b\n====  ===\n\nLong line\n---\n# no\n\n-----\n", []),
        ("A.ADOC", "= Doc\n\n== Sub\n[source]\n----\nx\n----\n====\nx\n====\n* item", [(1, 1, "Doc"), (3, 2, "Sub")]),
        ("a.org", "#+TITLE: x\n* Plan\n** Step\n * item\n*bold*\n# no\n-----", [(2, 1, "Plan"), (3, 2, "Step")]),
    ],
)
def test_headings_of_plain_text(source: str, text: str, found: list[tuple[int, int, str]]) -> None:
    """The suffix of a file decides what a heading is; the edges of blocks and tables are none."""
    outline = read_outline(text, source=source)
    assert [(heading.first + 1, heading.level, heading.title) for heading in outline.headings] == found


@pytest.mark.parametrize(
    "above",
    [
        "",
        "two\nlines",
        "- item",
        "1. item",
        "> quote",
        "| table |",
        "    code",
        "<div>",
        "[link]: /url",
        "***",
        "- item\nlazy",
        "```\ncode\n```",
        "<!-- comment -->",
        "t" * 501,
    ],
)
def test_a_rule_below_other_text_is_not_an_underline(above: str) -> None:
    """`---` below anything but a paragraph of one line is a rule, not a heading."""
    assert headings(f"{above}\n---\ntext") == []


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        # Nothing in a fence is a heading; a fence ends as in CommonMark, in a list at the latest with the list.
        ("```\n# no\n```\n# yes", ["yes"]),
        ("~~~ sh\n# no\n```\n# no\n~~~\n# yes", ["yes"]),
        ("````\n```\n# no\n````\n# yes", ["yes"]),
        ("```\n# no\n``` sh\n# no\n`````  \n# yes", ["yes"]),
        ("``` a`b\n# yes", ["yes"]),
        ("```\n# no\n\n# no", []),
        ("- ```\n  # no\n  ```\n# yes", ["yes"]),
        ("1. a\n\n   ```\n   # no\n   ```\n# yes", ["yes"]),
        ("      ```\n      never closed\n\n# yes\ntext", ["yes"]),
        ("* ~~~\n  never closed\n# yes", ["yes"]),
        ("```\nTitle\n===\n```\n# yes", ["yes"]),
        # Nothing in front matter is a heading, but a rule at the top does not open front matter.
        ("---\na: b\n# no\n---\n# yes", ["yes"]),
        ("---\na: b\nc: d\n...\n# yes", ["yes"]),
        ("+++\na = 1\n# no\n+++\n# yes", ["yes"]),
        ("---\na: b\n# never closed", ["never closed"]),
        ("---\n# Not yaml\n- text\n---\n# yes", ["Not yaml", "yes"]),
        ("text\n\n---\na: b\n# H\n---\n", ["H"]),
    ],
)
def test_fences_and_front_matter_hold_no_headings(text: str, titles: list[str]) -> None:
    """Nothing in a fence or in front matter is a heading, and what follows it is."""
    assert [title for _, _, title in headings(text)] == titles


def test_comments_hold_no_headings() -> None:
    """Nothing in a multi-line comment is a heading or opens a fence."""
    assert headings("<!-- a\n# no\n\n```\n-->\n# yes\nx <!-- y\n# no\n--> z\n# yes") == [(6, 1, "yes"), (10, 1, "yes")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <!-- b --> c<!---->d", ["a  cd"]),
        ("<!-->a<!--->b", ["ab"]),
        ("<!-- a\n\nb --> c", ["", "", " c"]),
        ("`<!-- a -->` <!-- b -->", ["`<!-- a -->` "]),
        ("``a ` <!-- b -->`` <!-- c -->", ["``a ` <!-- b -->`` "]),
        ("` <!-- a -->", ["` "]),
        ("<!-- ` --> `<!-- a -->`", [" `<!-- a -->`"]),
        ("```\n<!-- a -->\n```", ["```", "<!-- a -->", "```"]),
    ],
)
def test_comments_are_hidden_but_not_in_code(text: str, shown: list[str]) -> None:
    """Comments are hidden, also over several lines; in fences and inline code they are text."""
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "<!-- never closed\n# H\ntext",
        "x <!-- closed\n\nonly after the paragraph -->",
        "<!-- forgotten\n\n# H\n<!--\ntext",
    ],
)
def test_unclosed_comments_hide_nothing(text: str) -> None:
    """An unclosed comment and everything after it is plain text."""
    assert visible(text) == text.split("\n")


def test_an_unclosed_comment_ends_where_the_next_begins() -> None:
    """A forgotten `-->` does not hide the entries up to the next anchor."""
    text = "<!-- forgotten\n\n### 14:30\n<!-- session:a -->\nkept"
    assert visible(text) == ["<!-- forgotten", "", "### 14:30", "", "kept"]
    assert headings(text) == [(3, 3, "14:30")]
