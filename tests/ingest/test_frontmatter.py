"""Front matter: the flat subset that is read."""

from __future__ import annotations

import pytest

from lorelog.ingest.frontmatter import FrontMatter, front_matter_length, parse_front_matter


def parse(text: str) -> FrontMatter:
    lines = text.split("\n")
    return parse_front_matter(lines[: front_matter_length(lines)])


def test_the_four_keys_are_read() -> None:
    """Title, date, type and tags are read, whatever else is there."""
    text = (
        '---\nlayout: post\nTitle: "A: b"\ndate: 2026-03-05T10:00:00Z # UTC\ntype: decision\ntags: [x, "y z", x]\n---'
    )
    assert parse(text) == FrontMatter("A: b", "2026-03-05", "decision", ("x", "y z"))


@pytest.mark.parametrize(
    "tags",
    [
        "tags: [a, b]",
        "tags: a, b",
        "tags: ['a', \"b\"]",
        "tags:\n- a\n- b",
        "tags:\n  - a\n  - 'b'\nother: c",
        "tags: # both\n  - a\n  - b",
    ],
)
def test_lists_are_read_in_every_form(tags: str) -> None:
    """A list may stand in brackets, between commas or as dashes."""
    assert parse(f"---\nother: x\n{tags}\n---").tags == ("a", "b")


def test_toml_front_matter_is_read() -> None:
    """Between `+++` keys are assigned with an equals sign, up to the first table."""
    text = "+++\ntitle = 'T'\ndate = 2026-03-05\ntags = [\"a\"]\n[extra]\ntype = 'no'\n+++\nbody"
    assert parse(text) == FrontMatter("T", "2026-03-05", "", ("a",))


@pytest.mark.parametrize(
    "text",
    [
        "---\nparent:\n  title: nested\n---",
        "---\ntitle: >\n  folded\n---",
        "---\ndate: 2026-02-30\n---",
        "---\ndate: yesterday\n---",
        "---\ntitle:\ntags:\n---",
        "",
        "---",
        "---\n---",
        "---\ntitle: never closed",
        "--- \n\n# Heading\n---",
        "x\n---\ntitle: late\n---",
    ],
)
def test_what_is_not_in_the_subset_is_passed_over(text: str) -> None:
    """Nested keys, folded texts, impossible days and blocks that are no front matter give nothing."""
    assert parse(text) == FrontMatter()
