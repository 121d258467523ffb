"""What a chunk is embedded and matched as, and when its vector stays the same."""

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
    """Headings that only tell the day or the time are left out, above the text and on top of it."""
    assert embedded_text(f"{moment} > Redis", "says") == "Redis\nsays"
    assert embedded_text(moment, "says") == "says"
    assert embedded_text("", f"### {moment}\n\nsays") == "says"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_other_headings_are_embedded(subject: str) -> None:
    """Headings that tell a subject are embedded, also where a day or a time is part of them."""
    assert embedded_text(f"Notes > {subject}", "says") == f"Notes > {subject}\nsays"
    assert embedded_text("", f"### {subject}\n\nsays") == f"### {subject}\n\nsays"


@pytest.mark.parametrize("text", ["### 14:30", "### 14:30\n", "## 2026-03-05\n\n"])
def test_a_section_that_is_nothing_but_a_moment(text: str) -> None:
    """A section that says nothing but its time keeps that as its text: no text at all is embedded by no model."""
    assert embedded_text("2026-03-05", text) == text


def test_only_the_first_heading_is_a_moment() -> None:
    """Times further down are part of what is said."""
    said = "first\n\n### 15:10\n\nsecond"
    assert embedded_text("", f"### 14:30\n\n{said}") == said


def test_another_time_needs_no_other_vector() -> None:
    """The vector key stays when only clock or date change, and changes with the text or with another heading above."""
    one = chunk("/a.md", "### 14:30\n\nsays", context="2026-03-05 > Redis")
    later = chunk("/b.md", "### 16:05\n\nsays", 9, context="2026-03-06 > Redis")
    assert one.vector_key == later.vector_key
    assert one.vector_key != chunk("/a.md", "### 14:30\n\nsays more", context="2026-03-05 > Redis").vector_key
    assert one.vector_key != chunk("/a.md", "### 14:30\n\nsays", context="2026-03-05 > Valkey").vector_key


def test_words_are_matched_in_all_headings() -> None:
    """Days and times are found by words though they are not embedded."""
    one = chunk("/a.md", "### 14:30\n\nsays", context="2026-03-05 > Redis")
    assert one.matched_text == "2026-03-05 > Redis\n### 14:30\n\nsays"
    assert one.embedded_text == "Redis\nsays"
    assert chunk("/a.md", "says").matched_text == "says"
