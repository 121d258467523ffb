"""The block in an instruction file can be inserted, updated and removed without changing the rest."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lorelog.core.errors import ConfigError
from lorelog.services.context.init import BLOCK, BLOCK_END, BLOCK_START, insert_block, remove_block

TEXTS = st.lists(st.sampled_from(["a", "# Title", "é", " ", "\n", "\r\n", "\r", "\n\n", "<!-- x -->", "\ufeff"])).map(
    "".join
)


@given(TEXTS.map(str.encode))
@example(b"")
@example(b"a\nb\r")
@example(b"a\r\nb\r\n")
def test_taking_the_block_out_gives_every_byte_back(before: bytes) -> None:
    """Inserting the block once or twice and removing it restores every byte of a file."""
    after = insert_block(before, "AGENTS.md")

    assert after.startswith(before)
    assert insert_block(after, "AGENTS.md") == after
    assert remove_block(after, "AGENTS.md") == before


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_older_block_is_brought_up_to_date_where_it_stands(end: str) -> None:
    """Updating an old block keeps the text around it byte for byte, and uses the file's line ends."""
    before = end.join(["# Mine", "", BLOCK_START, "old words", BLOCK_END, "", "more of mine", ""]).encode()
    after = insert_block(before, "AGENTS.md")

    assert after.decode() == end.join(["# Mine", "", *BLOCK.split("\n"), "", "more of mine", ""])
    assert insert_block(after, "AGENTS.md") == after


@pytest.mark.parametrize(
    "marks",
    [
        [BLOCK_START],
        [BLOCK_END],
        [BLOCK_END, BLOCK_START],
        [BLOCK_START, BLOCK_START, BLOCK_END],
        [BLOCK_START, BLOCK_END, BLOCK_START],
        [BLOCK_START, BLOCK_END, BLOCK_START, BLOCK_END],
    ],
)
def test_a_broken_block_is_refused(marks: list[str]) -> None:
    """Marks that do not form one block are an error that names their lines."""
    broken = "\n".join(["text", *marks, "text"]).encode()

    for change in (insert_block, remove_block):
        with pytest.raises(ConfigError, match="line 2") as raised:
            change(broken, "AGENTS.md")
        assert "nothing was changed" in raised.value.hint


def test_a_mark_within_a_line_is_none() -> None:
    """A mark inside a line is not a block."""
    text = f"The mark `{BLOCK_START}` begins it.\n".encode()

    assert remove_block(text, "AGENTS.md") == text
    assert insert_block(text, "AGENTS.md").startswith(text)


def test_a_file_of_another_encoding_is_left_alone() -> None:
    """A file that is not UTF-8 is refused, because our bytes would not be text in it."""
    with pytest.raises(ConfigError, match="not UTF-8"):
        insert_block("é".encode("utf-16"), "AGENTS.md")
