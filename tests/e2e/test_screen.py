"""What a person would read on a terminal: without this, a row could wait for a text that is in front of everybody's eyes."""

from __future__ import annotations

import pytest
from e2e.screen import Screen
from hypothesis import given
from hypothesis import strategies as st

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["\x1b[", "\x1b]11;?\x1b\\", "\x1b[6n", "\x1b[2J", "\x1b[3;5H", "\x1b[1;3r", "\x1b[K", "\n", "\r"]
        ),
        st.integers(0, 99).map(str),
        st.sampled_from("ABCDEFGHJKLMPSTXcdhlmnrsu@`;?$"),
        st.text("añ世 \t\b", max_size=5),
    ),
    max_size=40,
)


def shown(*sent: str, columns: int = 12, rows: int = 4) -> list[str]:
    screen = Screen(columns, rows)
    for piece in sent:
        screen.feed(piece.encode())
    return screen.text.split("\n")


@pytest.mark.parametrize(
    ("sent", "first"),
    [
        ("one\rtwo", "two"),
        ("answer\x1b[1;1Hanswers", "answers"),
        ("a\x1b[2Cb", "a  b"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("old words\x1b[2J\x1b[Hnew", "new"),
        ("keep this\x1b[1;5H\x1b[K", "keep"),
        ("abcd\x1b[1;2H\x1b[2P", "ad"),
        ("ad\x1b[1;2H\x1b[2@bc", "abcd"),
        ("世界!", "世界!"),
    ],
)
def test_a_line_reads_as_it_was_drawn(sent: str, first: str) -> None:
    """Moves, overwriting, erasing, wide characters; colours and titles are no text."""
    assert shown(sent)[0] == first


def test_what_is_asked_of_a_terminal_is_answered() -> None:
    """Codex leaves when nobody says where the cursor is."""
    assert Screen(80, 24).feed(b"ab\r\ncd\x1b[6n") == b"\x1b[2;3R"


@given(PIECES, st.data())
def test_it_makes_no_difference_how_the_output_is_cut(pieces: list[str], data: st.DataObject) -> None:
    """Reads end anywhere, in the middle of a character too; and nothing that is sent breaks it."""
    raw = "".join(pieces).encode()
    whole, cut = Screen(12, 4), Screen(12, 4)
    replies = whole.feed(raw)
    at = data.draw(st.integers(0, len(raw)))
    assert cut.feed(raw[:at]) + cut.feed(raw[at:]) == replies
    assert cut.text == whole.text
    assert all(len(line) <= 12 for line in whole.text.split("\n"))
