"""Chunks of whole documents: sections, paths, texts, dates, anchors and titles."""

from __future__ import annotations

from lorelog.core.document import Anchor, Chunk
from lorelog.core.options import ChunkOptions
from lorelog.ingest.markdown import ParsedDocument, chunk_markdown


def parse(text: str, source: str = "/m/notes.md", fallback_date: str = "", **options: int) -> ParsedDocument:
    return chunk_markdown(text, source, ChunkOptions(**options), fallback_date=fallback_date)


def by_heading(text: str, source: str = "/m/notes.md", fallback_date: str = "") -> dict[str, Chunk]:
    return {chunk.heading: chunk for chunk in parse(text, source, fallback_date).chunks}


def test_sections_end_at_the_next_heading_of_any_level() -> None:
    """Each heading and the preamble make a section with exact lines, blank ones at its ends left out."""
    chunks = parse("\nintro\n\n# A\n\ntext a\n\n## B\ntext b\n# C\ntext c\n\n").chunks
    assert [(c.heading, c.heading_level, c.start_line, c.end_line, c.content) for c in chunks] == [
        ("", 0, 2, 2, "intro"),
        ("A", 1, 4, 6, "# A\n\ntext a"),
        ("B", 2, 8, 9, "## B\ntext b"),
        ("C", 1, 10, 11, "# C\ntext c"),
    ]


def test_heading_paths_nest_by_level() -> None:
    """A path holds the enclosing headings, own last; skipped levels and returns nest properly."""
    chunks = parse("p\n# A\na\n### B\nb\n## C\nc\n### D\nd\n# E\ne\n### \nf").chunks
    assert [c.heading_path for c in chunks] == [
        (),
        ("A",),
        ("A", "B"),
        ("A", "C"),
        ("A", "C", "D"),
        ("E",),
        ("E",),
    ]
    assert [c.context for c in chunks] == ["", "", "A", "A", "A > C", "", "E"]


def test_sections_without_visible_text_are_dropped() -> None:
    """Headings, comments and blanks alone make no chunk, but one visible character does."""
    assert parse("# A\n## B\n<!-- session:s -->\n\n# C\n  \n").chunks == ()
    assert [c.heading for c in parse("# 可以吗\n可\n# B\nx\n").chunks] == ["可以吗", "B"]


def test_text_is_content_without_comments() -> None:
    """Comments leave the text, with the lines they filled, and blank runs shrink; content keeps all of it."""
    (chunk,) = parse("### 14:30\n<!-- session:a -->\n- one <!-- x --> two\n\n \n\n\n- `<!-- y -->`\n").chunks
    assert chunk.text == "### 14:30\n- one  two\n\n- `<!-- y -->`"
    assert chunk.content == "### 14:30\n<!-- session:a -->\n- one <!-- x --> two\n\n \n\n\n- `<!-- y -->`"


def test_comments_in_fences_are_text() -> None:
    """A comment that stands in a fence is part of the program and stays in the text."""
    (chunk,) = parse("# H\n```html\n<!-- keep -->\n```\n").chunks
    assert chunk.text == "# H\n```html\n<!-- keep -->\n```"


def test_anchors_speak_for_their_own_section() -> None:
    """The first anchor of a section holds for all of its pieces and for no other section."""
    body = "\n\n".join(f"- entry {number} says something" for number in range(20))
    text = f"## A\n<!-- a note -->\n<!-- memory:m1 type:fact tags:x -->\n<!-- memory:m2 -->\n{body}\n### B\nb\n"
    *pieces, last = parse(text, max_chunk_size=200).chunks
    assert len(pieces) > 1
    assert {piece.anchor for piece in pieces} == {Anchor(memory="m1", type="fact", tags=("x",))}
    assert {(piece.type, piece.tags) for piece in pieces} == {("fact", ("x",))}
    assert (last.heading, last.anchor, last.type, last.tags) == ("B", None, "", ())


def test_anchors_in_code_are_not_anchors() -> None:
    """An anchor shown in a fence or in inline code says nothing of the section."""
    (chunk,) = parse("# How\n`<!-- session:a -->`\n```\n<!-- session:b -->\n```\n").chunks
    assert chunk.anchor is None


def test_front_matter_gives_type_and_tags_where_no_anchor_does() -> None:
    """Type and tags of the front matter hold for every chunk, but an anchor's come first, each on its own."""
    text = "---\ntype: note\ntags: [a]\n---\np\n# H\n<!-- memory:m type:fact -->\nx\n"
    assert [(c.type, c.tags) for c in parse(text).chunks] == [("note", ("a",)), ("fact", ("a",))]


def test_front_matter_is_found_with_the_preamble() -> None:
    """Front matter is part of the preamble, so what it says can be found and no line is lost."""
    chunks = parse("---\ntitle: T\n# c\n---\nintro\n# H\nx").chunks
    assert [(c.heading, c.start_line, c.end_line) for c in chunks] == [("", 1, 5), ("H", 6, 7)]


def test_titles() -> None:
    """A title is the front matter's, else the first heading of level 1, else the first heading, else the stem."""
    assert parse("---\ntitle: F\n---\n# A\n").title == "F"
    assert parse("## B\n# A\n# C\n").title == "A"
    assert parse("#\n### B\n## A\n").title == "B"
    assert parse("text", "/m/my.notes.md").title == "my.notes"
    assert parse("", "/m/2026-03-05.md").title == "2026-03-05"


def test_dates_of_a_journal() -> None:
    """In a journal the day is the file's; sessions and entries add their times, dated headings their day."""
    text = "p\n## Session 14:47\ns\n### 14:52\ne\n#### Why\nw\n## 2026-02-01\nd\n### Late\nl\n## Other\no\n"
    dates = {heading: chunk.date for heading, chunk in by_heading(text, "/m/2026-03-05.md", "2020-01-01").items()}
    assert dates == {
        "": "2026-03-05",
        "Session 14:47": "2026-03-05T14:47",
        "14:52": "2026-03-05T14:52",
        "Why": "2026-03-05T14:52",
        "2026-02-01": "2026-02-01",
        "Late": "2026-02-01",
        "Other": "2026-03-05",
    }


def test_where_a_document_gets_its_date() -> None:
    """The file's name comes before front matter, front matter before the title, the title before the fallback."""
    front = "---\ndate: 2026-02-02\n---\n# Notes of 2026-03-03\nx"
    assert parse(front, "/m/2026-01-01.md", "2020-01-01").date == "2026-01-01"
    assert parse(front, "/m/n.md", "2020-01-01").date == "2026-02-02"
    assert parse("# Notes of 2026-03-03\nx", "/m/n.md", "2020-01-01").date == "2026-03-03"
    document = parse("# 14:30\nx", "/m/n.md", "2020-01-01")
    assert (document.date, document.chunks[0].date) == ("2020-01-01", "2020-01-01")


def test_moving_a_section_keeps_its_vector() -> None:
    """Lines inserted above a section change its id and not the address of its vector."""
    (before,) = parse("# H\nbody").chunks
    after = parse("new\n\n# H\nbody").chunks[1]
    assert before.vector_key == after.vector_key
    assert before.identify("m") != after.identify("m")


def test_ten_thousand_headings() -> None:
    """A file of ten thousand headings gives one chunk for each."""
    assert len(parse("".join(f"## H{n}\ntext {n}\n" for n in range(10_000))).chunks) == 10_000


def test_ten_thousand_unclosed_comments_hide_nothing() -> None:
    """A file of ten thousand unclosed comments is all visible."""
    chunks = parse("".join(f"<!-- {n}\n\nx <!-- {n}\n" for n in range(10_000))).chunks
    assert chunks[-1].end_line == 30_000
    assert all("<!--" in chunk.text for chunk in chunks)
