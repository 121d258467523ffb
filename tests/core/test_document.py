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


EMBEDDED = [
    # Headings with only a day or a time are not embedded.
    *((f"{moment} > Redis", "says", "Redis\nsays") for moment in MOMENTS),
    *((moment, "says", "says") for moment in MOMENTS),
    *(("", f"### {moment}\n\nsays", "says") for moment in MOMENTS),
    # Headings with a subject are, even with a day or a time in them.
    *((f"Notes > {subject}", "says", f"Notes > {subject}\nsays") for subject in SUBJECTS),
    *(("", f"### {subject}\n\nsays", f"### {subject}\n\nsays") for subject in SUBJECTS),
    # A section that contains only a time is embedded as that time, because no model embeds an empty text.
    *(("2026-03-05", text, text) for text in ("### 14:30", "### 14:30\n", "## 2026-03-05\n\n")),
    # Times further down are part of the text.
    ("", "### 14:30\n\nfirst\n\n### 15:10\n\nsecond", "first\n\n### 15:10\n\nsecond"),
]


@pytest.mark.parametrize(("context", "text", "embedded"), EMBEDDED)
def test_moments_are_not_embedded(context: str, text: str, embedded: str) -> None:
    """Headings with only a day or a time are not embedded, unless there is nothing else; all other text is."""
    assert embedded_text(context, text) == embedded


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
