"""Text in columns: line breaks, wide characters, short ids and links."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.surfaces.text import break_lines, cell_width, join_fields, link_file, shorten, shorten_ids, supports_links

TEXT = st.text(st.sampled_from("ab -/.«»数据，。é\u0301👍\t"), max_size=80)


@given(TEXT, st.integers(1, 40))
def test_lines_keep_every_word_and_fit(text: str, width: int) -> None:
    """Lines hold all of the text but for blanks, in order, and only a single word may be wider than the line."""
    lines = [text[start:end] for start, end in break_lines(text, width)]

    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(line == line.strip() for line in lines)
    assert all(cell_width(line) <= width or len(break_lines(line, 1)) == 1 for line in lines)


def test_wide_characters_take_two_columns() -> None:
    """A wide character counts as two columns and a combining one as none; a line may end between two wide ones."""
    assert [cell_width(text) for text in ("ab", "数据", "e\u0301", "👍")] == [2, 4, 1, 2]
    assert break_lines("数据，库", 6) == [(0, 3), (3, 4)]
    assert shorten("the otter swims", 11) == "the otter …"


def test_short_ids_tell_apart() -> None:
    """An id is shown by 8 characters, or by as many as tell it from the other hits."""
    assert shorten_ids(["aec73b0a4b2245e2", "aec73b0a4b99aaaa", "0123456789abcdef"], 8) == {
        "aec73b0a4b2245e2": "aec73b0a4b2",
        "aec73b0a4b99aaaa": "aec73b0a4b9",
        "0123456789abcdef": "01234567",
    }


def test_fields_of_a_head_are_never_divided() -> None:
    """Fields share a line if they fit; else the first has a line of its own. Into a pipe they always share one line."""
    fields = [("a.md:1", "a.md:1", 2), ("", "", 2), ("fact", "fact", 2), ("#tag", "#tag", 1)]

    assert join_fields(fields, "   ", 20) == "a.md:1  fact #tag"
    assert join_fields(fields, "   ", 15) == "a.md:1\n   fact #tag"
    assert join_fields(fields, "   ", None) == "a.md:1  fact #tag"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM_PROGRAM": "iTerm.app"}, True),
        ({"VTE_VERSION": "7600"}, True),
        ({"VTE_VERSION": "4600"}, False),
        ({"TERM": "xterm-256color", "FORCE_HYPERLINK": "1"}, True),
        ({"TERM": "xterm-kitty", "FORCE_HYPERLINK": "0"}, False),
        ({"TERM": "xterm-kitty", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb", "FORCE_HYPERLINK": "1"}, False),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "iTerm.app"}, False),
    ],
)
def test_links_only_where_they_are_supported(
    environment: dict[str, str], expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links are shown by terminals known to support them, or forced to; never without colour, and never in a pipe."""
    for name in ("TERM", "TERM_PROGRAM", "VTE_VERSION", "FORCE_HYPERLINK", "NO_COLOR", "TMUX", "WT_SESSION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert supports_links(_Terminal()) is expected
    assert not supports_links(io.StringIO())
    monkeypatch.setattr("sys.stdout", _Terminal())
    linked = link_file("/notes/a b.md", "a")
    assert (linked != "a") is expected
    assert not expected or "/notes/a%20b.md\x1b\\a\x1b]8;;\x1b\\" in linked
