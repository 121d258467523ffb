"""Editing a memory's section in its file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import SourceChanged, UsageError
from lorelog.services.memories.edit import SectionEdit

SECTION = "## B\n<!-- memory:b -->\n- one"
FILE = f"# A\n\ntext\n\n{SECTION}\n\n## C\n\n- one more\n"


def test_every_other_byte_stays() -> None:
    """Only the section is replaced; line ends and a byte order mark stay as they are."""
    edit = SectionEdit(SECTION, SECTION.replace("one", "two"))
    assert edit.apply(FILE.encode()) == FILE.replace("- one\n", "- two\n").encode()
    windows = b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode()
    assert edit.apply(windows) == windows.replace(b"- one\r\n", b"- two\r\n")
    with pytest.raises(UsageError, match="mixed line ends"):
        edit.apply(FILE.encode() + b"\r\n")


def test_a_changed_or_doubtful_section_is_refused() -> None:
    """A section that is different by now, or that is there twice, is not replaced; the same edit again changes nothing."""
    edit = SectionEdit(SECTION, SECTION.replace("one", "two"))
    for content in (FILE.replace("- one\n", "- uno\n"), FILE + FILE, ""):
        with pytest.raises(SourceChanged):
            edit.apply(content.encode())
    done = edit.apply(FILE.encode())
    assert edit.apply(done) == done


@given(before=st.text(max_size=60), after=st.text(max_size=60))
def test_text_around_is_never_touched(before: str, after: str) -> None:
    """Whatever stands around a section is the same after an edit."""
    around = [text.replace("\r", "").replace("## B", "").replace("\n\n", "\n") for text in (before, after)]
    data = f"{around[0]}\n{SECTION}\n{around[1]}".encode("utf-8", "surrogatepass")
    edited = SectionEdit(SECTION, "## B\n<!-- memory:b -->\nnew").apply(data)
    assert edited == f"{around[0]}\n## B\n<!-- memory:b -->\nnew\n{around[1]}".encode("utf-8", "surrogatepass")
