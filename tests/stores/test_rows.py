"""What is decided from rows as they are written is what would be decided from the values they came from."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.document import names_entry
from lorelog.stores.embedded import rows

MOMENTS = st.sampled_from(["2026-03-05", "Session 09:05", "10:40", "", " ", "T", "ſession 1:00", 'a", "b', "2026\\"])


@given(st.lists(st.text(max_size=12) | MOMENTS, max_size=4))
def test_a_heading_path_is_an_entry_in_the_table_as_in_memory(headings: list[str]) -> None:
    """Whether a path names an entry is the same for its written form and for its headings."""
    assert rows.names_entry(json.dumps(headings, ensure_ascii=False)) == names_entry(headings)
