"""Our block in a person's file comes and goes without a trace."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lorelog.core.errors import ConfigError
from lorelog.services.context.blocks import BLOCK, END, START, with_block, without_block

TEXTS = st.lists(st.sampled_from(["a", "# Title", "é", " ", "\n", "\r\n", "\r", "\n\n", "<!-- x -->", "\ufeff"])).map(
    "".join
)


@given(TEXTS.map(str.encode))
@example(b"")
@example(b"a\nb\r")
@example(b"a\r\nb\r\n")
def test_taking_the_block_out_gives_every_byte_back(before: bytes) -> None:
    """Put in once or twice and taken out, a file is what it was; and what stood in it stands there meanwhile."""
    after = with_block(before, "AGENTS.md")

    assert after.startswith(before)
    assert with_block(after, "AGENTS.md") == after
    assert without_block(after, "AGENTS.md") == before


def test_a_file_that_was_made_for_the_block_goes_with_it() -> None:
    """A file that holds nothing else is gone afterwards; one in which a person wrote meanwhile stays."""
    made = with_block(None, "AGENTS.md")

    assert made.decode() == BLOCK + "\n"
    assert without_block(made, "AGENTS.md") is None
    assert without_block(made + b"\nmine\n", "AGENTS.md") == b"\nmine\n"
    assert without_block(b"no block\n", "AGENTS.md") == b"no block\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_older_block_is_brought_up_to_date_where_it_stands(end: str) -> None:
    """What stands before and after the block stays, byte for byte, and its line ends are the file's own."""
    before = end.join(["# Mine", "", START, "old words", END, "", "more of mine", ""]).encode()
    after = with_block(before, "AGENTS.md")

    assert after.decode() == end.join(["# Mine", "", *BLOCK.split("\n"), "", "more of mine", ""])
    assert with_block(after, "AGENTS.md") == after


@pytest.mark.parametrize(
    "marks", [[START], [END], [END, START], [START, START, END], [START, END, START], [START, END, START, END]]
)
def test_a_broken_block_is_refused(marks: list[str]) -> None:
    """Marks that do not make one block are told with their lines, and nothing is guessed."""
    broken = "\n".join(["text", *marks, "text"]).encode()

    for change in (with_block, without_block):
        with pytest.raises(ConfigError, match="line 2") as raised:
            change(broken, "AGENTS.md")
        assert "nothing was changed" in raised.value.hint


def test_a_mark_within_a_line_is_none() -> None:
    """Whoever writes about the marks has no block by that."""
    text = f"The mark `{START}` begins it.\n".encode()

    assert without_block(text, "AGENTS.md") == text
    assert with_block(text, "AGENTS.md").startswith(text)


def test_a_file_of_another_encoding_is_left_alone() -> None:
    """What is not UTF-8 is refused: our bytes would not be text in it."""
    with pytest.raises(ConfigError, match="not UTF-8"):
        with_block("é".encode("utf-16"), "AGENTS.md")
