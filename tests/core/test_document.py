"""The embedded and the matched text of a chunk, and the stability of its vector key."""

from __future__ import annotations

import pytest
from tests.stores.making import chunk

from lorelog.core.document import embedded_text

MOMENTS = [
    "14:30",
    "9:05",
    "14:30:15",
    "2026-03-05",
    "2026-03-05 14:30",
    "2026-03-05T14:30",
    "Session 14:30",
    "session 2026-03-05 14:30",
]
SUBJECTS = ["Redis", "14:30 Redis", "Release 2026-03-05", "Session", "Sessions", "14:30 Uhr", "2026", "12"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_moments_are_not_embedded(moment: str) -> None:
    """Headings with only a day or a time are not embedded."""
    assert embedded_text(f"{moment} > Redis", "says") == "Redis\nsays"
    assert embedded_text(moment, "says") == "says"
    assert embedded_text("", f"### {moment}\n\nsays") == "says"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_other_headings_are_embedded(subject: str) -> None:
    """Headings with a subject are embedded, even with a day or a time in them."""
    assert embedded_text(f"Notes > {subject}", "says") == f"Notes > {subject}\nsays"
    assert embedded_text("", f"### {subject}\n\nsays") == f"### {subject}\n\nsays"


@pytest.mark.parametrize("text", ["### 14:30", "### 14:30\n", "## 2026-03-05\n\n"])
def test_a_section_that_is_nothing_but_a_moment(text: str) -> None:
    """A section that contains only a time is embedded as that time, because no model embeds an empty text."""
    assert embedded_text("2026-03-05", text) == text


def test_only_the_first_heading_is_a_moment() -> None:
    """Times further down are part of the text."""
    said = "first\n\n### 15:10\n\nsecond"
    assert embedded_text("", f"### 14:30\n\n{said}") == said


def test_another_time_needs_no_other_vector() -> None:
    """The vector key ignores dates and times, and changes with the text or with another heading."""
    one = chunk("/a.md", "### 14:30\n\nsays", context="2026-03-05 > Redis")
    later = chunk("/b.md", "### 16:05\n\nsays", 9, context="2026-03-06 > Redis")
    assert one.vector_key == later.vector_key
    assert one.vector_key != chunk("/a.md", "### 14:30\n\nsays more", context="2026-03-05 > Redis").vector_key
    assert one.vector_key != chunk("/a.md", "### 14:30\n\nsays", context="2026-03-05 > Valkey").vector_key


def test_words_are_matched_in_all_headings() -> None:
    """Days and times are matched by the lexical lane although they are not embedded."""
    one = chunk("/a.md", "### 14:30\n\nsays", context="2026-03-05 > Redis")
    assert one.matched_text == "2026-03-05 > Redis\n### 14:30\n\nsays"
    assert one.embedded_text == "Redis\nsays"
    assert chunk("/a.md", "says").matched_text == "says"
