"""Decisions from stored rows equal those from the values."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.document import is_entry_path
from lorelog.stores.embedded import rows

MOMENTS = st.sampled_from(["2026-03-05", "Session 09:05", "10:40", "", " ", "T", "ſession 1:00", 'a", "b', "2026\\"])


@given(st.lists(st.text(max_size=12) | MOMENTS, max_size=4))
def test_a_heading_path_is_an_entry_in_the_table_as_in_memory(headings: list[str]) -> None:
    """A heading path is an entry in its stored form exactly if its headings are."""
    assert rows.is_entry(json.dumps(headings, ensure_ascii=False)) == is_entry_path(headings)
