"""Oversize sections: where they are cut, and what the pieces carry."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lorelog.core.document import Chunk
from lorelog.core.options import ChunkOptions
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.split_line import split_line


def pieces(text: str, size: int, overlap: int = 0) -> tuple[Chunk, ...]:
    return chunk_markdown(text, "/m/n.md", ChunkOptions(max_chunk_size=size, overlap_lines=overlap)).chunks


def ranges(text: str, size: int, overlap: int = 0) -> list[tuple[int, int]]:
    return [(piece.start_line, piece.end_line) for piece in pieces(text, size, overlap)]


def parts(line: str, limit: int) -> list[str]:
    return [line[start:end] for start, end in split_line(line, limit, limit)]


def test_a_section_that_fits_exactly_is_not_split() -> None:
    """The limit itself still fits; one character more does not."""
    text = "# H\none two\n\nthree four"
    assert ranges(text, len(text)) == [(1, 4)]
    assert ranges(text, len(text) - 1) == [(1, 2), (4, 4)]


def test_paragraphs_are_packed_whole() -> None:
    """Pieces hold as many whole paragraphs as fit, and end at their last line."""
    text = "# H\n\n" + "\n\n".join(f"para {n}\nline two" for n in range(6))
    assert ranges(text, 40) == [(1, 7), (9, 13), (15, 19)]


def test_continuations_repeat_the_last_lines() -> None:
    """A continuation begins with the last lines of the piece before, without a blank line in front."""
    text = "# H\n" + "\n".join(f"line {n}" for n in range(8))
    assert ranges(text, 31, 2) == [(1, 5), (4, 7), (6, 9)]
    assert ranges("# H\n" + "\n\n".join(f"line {n}" for n in range(8)), 31, 2) == [(1, 6), (6, 12), (12, 16)]


def test_an_overlap_that_does_not_fit_is_shortened() -> None:
    """As many of the last lines are repeated as leave room for the next block, down to none."""
    text = "# H\n" + "a" * 20 + "\n" + "b" * 5 + "\n\n" + "c" * 25
    assert ranges(text, 32, 2) == [(1, 3), (3, 5)]
    assert ranges(text, 30, 2) == [(1, 3), (5, 5)]


def test_an_overlap_never_repeats_a_whole_piece() -> None:
    """A piece is not contained in the next one, and the heading is not repeated."""
    text = "# H\nalpha\n\nbeta\n\ngamma\n\ndelta"
    for overlap in (1, 2, 5, 50):
        spans = ranges(text, 14, overlap)
        assert all(later[0] > earlier[0] for earlier, later in pairwise(spans))
        assert sum(first == 1 for first, _ in spans) == 1


def test_a_fence_that_fits_is_not_cut() -> None:
    """A fence with blank lines inside stays whole, and no overlap begins inside it."""
    fence = "```\none\n\ntwo\n\nthree\n```"
    text = f"# H\nbefore\n\n{fence}\n\nafter it comes more"
    assert ranges(text, len(fence) + 2, 3) == [(1, 2), (4, 10), (12, 12)]


def test_a_fence_that_does_not_fit_is_cut_at_lines() -> None:
    """A fence too large for one piece is cut between lines, without overlap."""
    text = "# H\n```\n" + "\n".join(f"code {n}" for n in range(10)) + "\n```\ntail"
    assert ranges(text, 30, 2) == [(1, 5), (6, 9), (10, 14)]


def test_the_heading_stays_with_the_beginning_of_its_text() -> None:
    """A heading leads the first lines of a paragraph that does not fit with it, or the first part of a long line."""
    assert ranges("# Head\n\nline one\nline two", 20) == [(1, 3), (4, 4)]
    first, *rest = pieces("# Head\n<!-- memory:m -->\n\n" + "word " * 30, 60)
    assert first.content.startswith("# Head\n<!-- memory:m -->\n\nword word")
    assert (first.start_line, first.end_line, first.context) == (1, 4, "")
    assert {(piece.start_line, piece.end_line, piece.context) for piece in rest} == {(4, 4, "Head")}


def test_a_heading_that_cannot_be_attached_is_left_to_the_context() -> None:
    """No piece is a heading alone: before a fence that fills a piece, the heading is in the context only."""
    (piece,) = pieces("# Head\n```\nthe code\n```", 16)
    assert (piece.start_line, piece.end_line, piece.context) == (2, 4, "Head")


def test_contexts_of_pieces() -> None:
    """The piece with the heading's line names the headings above, a continuation the whole path."""
    text = "# A\n## B\n" + "\n\n".join(f"paragraph {n}" for n in range(4))
    assert [piece.context for piece in pieces(text, 30)] == ["A", "A > B"]


def test_comments_are_not_pieces() -> None:
    """A comment too large for one piece is cut like text, but what shows nothing is not kept."""
    text = "# H\n<!--\n" + "note\n" * 40 + "-->\nbody"
    (piece,) = pieces(text, 50)
    assert (piece.text, piece.end_line, piece.context) == ("body", 44, "H")


@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        ("One. Two. Three.", 8, ["One.", "Two.", "Three."]),
        ("One two three. Four five", 20, ["One two three.", "Four five"]),
        ("你好。再见！真的？是；嗯", 6, ["你好。再见！", "真的？是；嗯"]),
        ("他说“好。”然后走了", 6, ["他说“好。”", "然后走了"]),
        ("他走了……然后", 6, ["他走了……", "然后"]),
        ("done.完成了 more", 8, ["done.", "完成了 more"]),
        ("v1.2.3 is out. ok", 10, ["v1.2.3 is", "out. ok"]),
        ("Yes. then no stop at all", 20, ["Yes. then no stop at", "all"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("xxe\u0301e\u0301", 3, ["xx", "e\u0301", "e\u0301"]),
        ("ab👩\u200d🚀cd", 4, ["ab", "👩\u200d🚀c", "d"]),
        ("   ", 2, []),
    ],
)
def test_long_lines_are_cut_after_sentences_then_words(line: str, limit: int, expected: list[str]) -> None:
    """A line is cut after a sentence, Latin or CJK, else after a word, else between characters, never inside one."""
    assert parts(line, limit) == expected


def test_parts_of_a_line_tell_its_number() -> None:
    """All parts of a cut line carry that line's number, and hide its comments wherever they were cut."""
    line = "word " * 20 + "<!-- " + "hidden " * 20 + "--> " + "tail " * 20
    cut = pieces(f"intro\n\n{line}\n", 60)
    assert {(piece.start_line, piece.end_line) for piece in cut[1:]} == {(3, 3)}
    assert all(piece.content in line for piece in cut[1:])
    assert all(word in ("word", "tail") for piece in cut[1:] for word in piece.text.split())


def test_a_megabyte_of_one_letter_is_two_chunks() -> None:
    """Equal parts of one line are one chunk, so that ids stay unique."""
    cut = pieces("x" * 1_000_000, 1500)
    assert [len(piece.content) for piece in cut] == [1500, 1000]


def test_a_megabyte_of_sentences_is_all_there() -> None:
    """A line of a megabyte is cut after sentences and nothing of it is lost."""
    line = " ".join(f"This is sentence number {n}." for n in range(35_000))
    cut = pieces(f"# H\n{line}", 1500)
    assert " ".join(piece.content.removeprefix("# H\n") for piece in cut) == line
    assert all(len(piece.content) <= 1500 and piece.content.endswith(".") for piece in cut)
