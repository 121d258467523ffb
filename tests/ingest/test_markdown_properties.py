"""Properties of every chunked text: exact lines, no lost text, bounded pieces, unique ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lorelog.core.document import Chunk
from lorelog.core.options import ChunkOptions
from lorelog.ingest import outline
from lorelog.ingest.markdown import can_resume, chunk_markdown
from lorelog.ingest.outline import is_blank, read_outline

_FRAGMENTS = st.sampled_from(
    [
        "",
        "",
        "  ",
        "# One",
        "## Two",
        "### 14:30",
        "## 2026-03-05",
        "#",
        "---",
        "===",
        "+++",
        "title: x",
        "a = 1",
        "```",
        "~~~~",
        "- ```sh",
        "    ```",
        "  ```",
        "<!-- session:a transcript:/p q -->",
        "<!--",
        "-->",
        "a <!-- b",
        "`<!-- c -->`",
        "- item",
        "> quote",
        "A sentence. Another one! 一句话。又一句？",
        "word " * 20,
        "字" * 40,
        "x" * 130,
        "e\u0301" * 70,
        "\x0c",
        "\u2028\x85",
        "\r",
    ]
)
_TEXTS = st.lists(_FRAGMENTS | st.text(max_size=30), max_size=30).map("\n".join) | st.text()
_OPTIONS = st.builds(ChunkOptions, max_chunk_size=st.integers(1, 160), overlap_lines=st.integers(0, 4))


def chunks_of(text: str, options: ChunkOptions) -> tuple[Chunk, ...]:
    return chunk_markdown(text, "/m/2026-03-05.md", options).chunks


@given(_TEXTS, _OPTIONS, st.integers(0, 3))
def test_a_limit_of_headings_changes_nothing_before_it(text: str, options: ChunkOptions, limit: int) -> None:
    """A limit of headings loses no visible line, and changes no chunk before the first heading beyond it."""
    unlimited = chunks_of(text, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outline, "MAX_HEADINGS", limit)
        parsed = chunk_markdown(text, "/m/2026-03-05.md", options)
    first = parsed.undivided_from or len(text) + 2
    assert [chunk for chunk in parsed.chunks if chunk.end_line < first] == [
        chunk for chunk in unlimited if chunk.end_line < first
    ]
    visible = {number for number, line in enumerate(text.split("\n"), 1) if not is_blank(line)}
    found = {line for chunk in parsed.chunks for line in range(chunk.start_line, chunk.end_line + 1)}
    assert found >= visible & {line for chunk in unlimited for line in range(chunk.start_line, chunk.end_line + 1)}


@given(_TEXTS, _OPTIONS)
def test_content_is_exactly_its_lines(text: str, options: ChunkOptions) -> None:
    """Content is exactly its lines and begins and ends on non-blank ones; only a line that is too long is cut."""
    lines = text.split("\n")
    for chunk in chunks_of(text, options):
        exact = lines[chunk.start_line - 1 : chunk.end_line]
        if chunk.content == "\n".join(exact):
            assert not is_blank(exact[0])
            assert not is_blank(exact[-1])
        else:
            *whole, cut = chunk.content.split("\n")
            assert whole == exact[:-1]
            assert cut in exact[-1]
            assert len("\n".join(exact)) > options.max_chunk_size


@given(_TEXTS, _OPTIONS)
def test_no_visible_line_is_lost(text: str, options: ChunkOptions) -> None:
    """Every line with visible text beyond a heading or a comment is in a chunk completely."""
    outline = read_outline(text)
    covered: dict[int, str] = {}
    for chunk in chunks_of(text, options):
        for number in range(chunk.start_line - 1, chunk.end_line):
            covered[number] = covered.get(number, "") + chunk.text
    titles = {number for heading in outline.headings for number in range(heading.first, heading.last + 1)}
    for number in range(len(outline.lines)):
        shown = {character for character in outline.visible(number) if not character.isspace()}
        if shown and number not in titles:
            assert shown <= set(covered.get(number, ""))


@given(_TEXTS, _OPTIONS)
def test_pieces_fit_and_show_something(text: str, options: ChunkOptions) -> None:
    """No content exceeds the limit, and no chunk's text is empty."""
    for chunk in chunks_of(text, options):
        assert len(chunk.content) <= options.max_chunk_size
        assert chunk.text


@given(_TEXTS, _OPTIONS)
def test_ids_are_unique_and_repeatable(text: str, options: ChunkOptions) -> None:
    """Two chunks of a document never share an id, and the same text gives the same chunks."""
    chunks = chunks_of(text, options)
    ids = [chunk.identify("model") for chunk in chunks]
    assert len(set(ids)) == len(ids)
    assert chunks == chunks_of(text, options)


@given(_TEXTS)
def test_chunks_come_in_file_order_under_their_headings(text: str) -> None:
    """Chunks are in file order, a heading is the last of its path, and no heading is inside a chunk."""
    outline = read_outline(text)
    starts = {heading.first for heading in outline.headings}
    before = 0
    for chunk in chunks_of(text, ChunkOptions()):
        assert chunk.start_line > before
        before = chunk.end_line
        assert not chunk.heading or chunk.heading_path[-1] == chunk.heading
        assert starts.isdisjoint(range(chunk.start_line, chunk.end_line))


@given(st.lists(st.sampled_from(["<!-- a -->", "`", "``", "x", "<!--", "-->", " "])).map("".join))
def test_hiding_a_comment_hides_no_text(line: str) -> None:
    """Exactly the comments of a line are hidden."""
    outline = read_outline("x" + line)
    rest = outline.visible(0)
    hidden = [outline.lines[0][start:end] for start, end in outline.hidden.get(0, ())]
    assert len(rest) + sum(map(len, hidden)) == len(outline.lines[0])
    assert all(part.startswith("<!--") and part.endswith("-->") for part in hidden)


_NOTES = st.lists(_FRAGMENTS | st.text(max_size=12), min_size=2, max_size=14).map("\n".join)
_GROWING = st.builds(
    "{}# Title\n\n{}\n\n### 09:15\n<!-- memory:a1 -->\n{}".format,
    st.sampled_from(["", "", "---\ntags: a, b\n---\n", "---\nx\n", "<!--\n", "~~~\n~~~\n"]),
    _NOTES,
    _NOTES,
)
_ENDS = st.sampled_from(
    ["\n\n### 10:00\n<!-- memory:b2 -->\ntext\n", "-->\n\n# New\n\ntext", "\n===\nx", "```\n# x\n```"]
)
_FALLBACKS = st.sampled_from(["2026-03-05", "2026-03-06"])


@given(
    old=_GROWING,
    added=_NOTES | _ENDS,
    options=_OPTIONS,
    source=st.sampled_from(["/m/note.md", "/memory/2026-03-05.md"]),
    days=st.tuples(_FALLBACKS, _FALLBACKS),
    limit=st.sampled_from([4_000, 4_000, 3]),
)
def test_a_text_that_grew_is_parsed_from_a_heading_on(
    old: str, added: str, options: ChunkOptions, source: str, days: tuple[str, str], limit: int
) -> None:
    """The chunks before a resume point, and those parsed from it on, are the chunks of the whole text that grew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outline, "MAX_HEADINGS", limit)
        before = chunk_markdown(old, source, options, fallback_date=days[0])
        text = old + added
        whole = chunk_markdown(text, source, options, fallback_date=days[1])
        point = before.resume
        if point is None or not can_resume(point, text, days[1]):
            return
        rest = chunk_markdown(text, source, options, fallback_date=days[1], resume=point)
    kept = tuple(chunk for chunk in before.chunks if chunk.start_line <= point.line)
    assert kept + rest.chunks == whole.chunks
    assert max(((chunk.date[:10], chunk.date_source) for chunk in kept), default=("", "")) == point.latest
    assert replace(rest, chunks=whole.chunks) == whole


def test_a_journal_that_grew_is_parsed_from_its_last_entry_on() -> None:
    """Of a journal with 50 entries, an appended one costs the parse of two; an open fence or comment costs all."""
    entries = [f"### 10:{minute}\n<!-- memory:m{minute} -->\ntext {minute}\n" for minute in range(10, 60)]
    text = "# 2026-03-05\n\n" + "\n".join(entries)
    point = chunk_markdown(text, "/memory/2026-03-05.md", ChunkOptions()).resume
    assert point is not None
    assert text[point.offset :] == entries[-1]
    grown = text + "\n### 11:00\nnew\n"
    rest = chunk_markdown(grown, "/memory/2026-03-05.md", ChunkOptions(), resume=point)
    assert [chunk.text for chunk in rest.chunks] == ["### 10:59\ntext 59", "### 11:00\nnew"]
    for opened in ("<!-- x\n\n", "---\na: b\n", "~~~\n"):
        unclosed = opened + text.replace("<!--", "").replace("-->", "")
        assert chunk_markdown(unclosed, "/memory/2026-03-05.md", ChunkOptions()).resume is None


def test_a_journal_without_a_title_takes_an_appended_title() -> None:
    """Without a heading of level 1 a text is parsed on as well, and takes its title from one that comes later."""
    text = "".join(f"## 10:{minute}\ntext {minute}\n\n" for minute in range(10, 60))
    parsed = chunk_markdown(text, "/memory/2026-03-05.md", ChunkOptions())
    assert parsed.resume is not None
    assert (parsed.title, parsed.resume.has_title) == ("10:10", False)
    for added, title in (("## 11:00\n", "10:10"), ("# Plan\n", "Plan")):
        rest = chunk_markdown(text + added, "/memory/2026-03-05.md", ChunkOptions(), resume=parsed.resume)
        assert rest.title == title == chunk_markdown(text + added, "/memory/2026-03-05.md", ChunkOptions()).title
