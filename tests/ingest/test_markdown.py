"""Chunks of Markdown documents: exact lines, no lost text, bounded pieces, unique ids, and how oversize sections are split."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lorelog.core.document import Anchor, Chunk
from lorelog.core.options import ChunkOptions
from lorelog.ingest import outline
from lorelog.ingest.markdown import ParsedDocument, can_resume, chunk_markdown, split_line
from lorelog.ingest.outline import MAX_HEADINGS, is_blank, read_outline, section_bounds
from lorelog.services.memory_state.tombstones import deletion_keys


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
    """A path has the enclosing headings, the own one last, also across skipped levels."""
    chunks = parse("p\n# A\na\n### B\nb\n## C\nc\n### D\nd\n# E\ne\n### \nf").chunks
    assert [c.heading_path for c in chunks] == [(), ("A",), ("A", "B"), ("A", "C"), ("A", "C", "D"), ("E",), ("E",)]
    assert [c.context for c in chunks] == ["", "", "A", "A", "A > C", "", "E"]


def test_sections_without_visible_text_are_dropped() -> None:
    """Headings, comments and blanks alone make no chunk, but one visible character does."""
    assert parse("# A\n## B\n<!-- session:s -->\n\n# C\n  \n").chunks == ()
    assert [c.heading for c in parse("# 可以吗\n可\n# B\nx\n").chunks] == ["可以吗", "B"]


def test_text_is_content_without_comments() -> None:
    """The text omits comments and the lines they fill, and shrinks blank runs; the content keeps everything, the text those in code."""
    (chunk,) = parse("### 14:30\n<!-- session:a -->\n- one <!-- x --> two\n\n \n\n\n- `<!-- y -->`\n").chunks
    assert chunk.text == "### 14:30\n- one  two\n\n- `<!-- y -->`"
    assert chunk.content == "### 14:30\n<!-- session:a -->\n- one <!-- x --> two\n\n \n\n\n- `<!-- y -->`"
    in_code = "# How\n`<!-- session:a -->`\n```html\n<!-- session:b -->\n```"
    (chunk,) = parse(f"{in_code}\n").chunks
    assert (chunk.text, chunk.anchor) == (in_code, None)


def test_anchors_apply_to_their_own_section() -> None:
    """The first anchor of a section applies to all of its pieces and to no other section."""
    body = "\n\n".join(f"- entry {number} says something" for number in range(20))
    text = f"## A\n<!-- a note -->\n<!-- memory:m1 type:fact tags:x -->\n<!-- memory:m2 -->\n{body}\n### B\nb\n"
    *pieces, last = parse(text, max_chunk_size=200).chunks
    assert len(pieces) > 1
    assert {piece.anchor for piece in pieces} == {Anchor(memory="m1", type="fact", tags=("x",))}
    assert {(piece.type, piece.tags) for piece in pieces} == {("fact", ("x",))}
    assert (last.heading, last.anchor, last.type, last.tags) == ("B", None, "", ())


def test_front_matter_gives_type_and_tags_where_no_anchor_does() -> None:
    """Type and tags of the front matter apply to every chunk unless an anchor has its own."""
    text = "---\ntype: note\ntags: [a]\n---\np\n# H\n<!-- memory:m type:fact -->\nx\n"
    assert [(c.type, c.tags) for c in parse(text).chunks] == [("note", ("a",)), ("fact", ("a",))]


def test_front_matter_is_found_with_the_preamble() -> None:
    """Front matter is part of the preamble, so it is searchable and no line is lost."""
    chunks = parse("---\ntitle: T\n# c\n---\nintro\n# H\nx").chunks
    assert [(c.heading, c.start_line, c.end_line) for c in chunks] == [("", 1, 5), ("H", 6, 7)]


def test_titles() -> None:
    """The title is the front matter's, else the first heading of level 1, else the first heading, else the file stem."""
    assert parse("---\ntitle: F\n---\n# A\n").title == "F"
    assert parse("## B\n# A\n# C\n").title == "A"
    assert parse("#\n### B\n## A\n").title == "B"
    assert parse("text", "/m/my.notes.md").title == "my.notes"
    assert parse("", "/m/2026-03-05.md").title == "2026-03-05"


def test_dates_of_a_journal() -> None:
    """In a journal the day is the file's; sessions and entries add times, dated headings their day."""
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
    """The file name takes precedence over front matter, then the title, then the fallback."""
    front = "---\ndate: 2026-02-02\n---\n# Notes of 2026-03-03\nx"
    assert parse(front, "/m/2026-01-01.md", "2020-01-01").date == "2026-01-01"
    assert parse(front, "/m/n.md", "2020-01-01").date == "2026-02-02"
    assert parse("# Notes of 2026-03-03\nx", "/m/n.md", "2020-01-01").date == "2026-03-03"
    document = parse("# 14:30\nx", "/m/n.md", "2020-01-01")
    assert (document.date, document.chunks[0].date) == ("2020-01-01", "2020-01-01")


def test_a_date_has_its_source() -> None:
    """A date in the file's name, the front matter or a heading above is the text's; any other is that of the file."""
    by_title = by_heading("# A\na\n## 2026-03-05\nb\n### C\nc", fallback_date="2020-01-01")
    assert {title: chunk.date_source for title, chunk in by_title.items()} == {
        "A": "file",
        "2026-03-05": "text",
        "C": "text",
    }
    dated = parse("---\ndate: 2026-03-05\n---\n# A\na", fallback_date="2020-01-01")
    assert {dated.date_source, *(chunk.date_source for chunk in dated.chunks)} == {"text"}
    assert parse("# A\na", fallback_date="2020-01-01").date_source == "file"
    assert parse("# A\na", "/m/2026-03-05.md").date_source == "text"


def test_lists_of_link_targets_are_dropped() -> None:
    """Pieces of a long section that hold link definitions only are dropped; a section of nothing else, and footnotes, stay."""
    targets = "\n".join(f"[`fs.read{n}`]: https://example.org/fs{n} 'Read'" for n in range(20))
    footnotes = "\n".join(f"[^{n}]: footnote {n}" for n in range(20))
    prose = "word " * 30
    chunks = parse(f"# A\n\n{prose}\n\n{targets}\n\n{footnotes}", max_chunk_size=200, overlap_lines=0).chunks

    assert not [chunk for chunk in chunks if "https" in chunk.content]
    assert "footnote 19" in chunks[-1].content
    assert parse(f"# Links\n\n{targets}", max_chunk_size=200).chunks[-1].content.endswith("fs19 'Read'")
    assert "fs19" in parse(f"# A\n\nprose\n\n{targets}", max_chunk_size=5000).chunks[0].text


def test_moving_a_section_keeps_its_vector() -> None:
    """Lines inserted above a section change its id but not its vector key."""
    (before,) = parse("# H\nbody").chunks
    after = parse("new\n\n# H\nbody").chunks[1]
    assert before.vector_key == after.vector_key
    assert before.identify("m") != after.identify("m")


def test_headings_beyond_the_limit_are_text() -> None:
    """Each heading up to the limit gives a chunk, with its anchor; beyond it all text is found in chunks of the usual size."""
    entries = [f"## H{n}\n<!-- memory:m{n} -->\ntext {n}\n" for n in range(MAX_HEADINGS + 6_000)]
    full = parse("".join(entries[:MAX_HEADINGS]))
    assert [chunk.anchor and chunk.anchor.memory for chunk in full.chunks] == [f"m{n}" for n in range(MAX_HEADINGS)]
    assert full.undivided_from == 0

    more = parse("".join(entries))
    assert more.undivided_from == 3 * MAX_HEADINGS + 1
    assert more.chunks[:MAX_HEADINGS] == full.chunks  # ids stay when a file grows beyond the limit
    beyond = more.chunks[MAX_HEADINGS:]
    assert len(beyond) < 500
    assert {(chunk.heading_path, chunk.anchor) for chunk in beyond} == {((), None)}
    lines = {line for chunk in beyond for line in chunk.text.split("\n")}
    assert lines == {line for n in range(MAX_HEADINGS, len(entries)) for line in (f"## H{n}", f"text {n}")}


def test_the_section_of_a_chunk_beyond_the_limit_of_headings() -> None:
    """Beyond the limit of headings, sections are merged whole: each is deleted and expanded with its neighbours only."""
    text = "".join(f"## H{n}\ntext {n}\n" for n in range(MAX_HEADINGS + 1_000))
    beyond = parse(text).chunks[MAX_HEADINGS:]
    assert len(beyond) > 10
    assert len(set(deletion_keys(beyond, "p"))) == len(beyond)
    for chunk in beyond:
        assert chunk.text.startswith("## H")
        assert section_bounds(text, "a.md", chunk.end_line, chunk.heading_level) == (chunk.start_line, chunk.end_line)
    assert section_bounds(text, "a.md", 2 * MAX_HEADINGS, 2) == (2 * MAX_HEADINGS - 1, 2 * MAX_HEADINGS)


def test_ten_thousand_unclosed_comments_hide_nothing() -> None:
    """A file of ten thousand unclosed comments stays visible."""
    chunks = parse("".join(f"<!-- {n}\n\nx <!-- {n}\n" for n in range(10_000))).chunks
    assert chunks[-1].end_line == 30_000
    assert all("<!--" in chunk.text for chunk in chunks)


def pieces(text: str, size: int, overlap: int = 0) -> tuple[Chunk, ...]:
    return chunk_markdown(text, "/m/n.md", ChunkOptions(max_chunk_size=size, overlap_lines=overlap)).chunks


def ranges(text: str, size: int, overlap: int = 0) -> list[tuple[int, int]]:
    return [(piece.start_line, piece.end_line) for piece in pieces(text, size, overlap)]


def parts(line: str, limit: int) -> list[str]:
    return [line[start:end] for start, end in split_line(line, limit, limit)]


FITTING = "# H\none two\n\nthree four"
LINES = [f"line {number}" for number in range(8)]
WIDE = f"# H\n{'a' * 20}\n{'b' * 5}\n\n{'c' * 25}"
FENCED = "# H\nbefore\n\n```\none\n\ntwo\n\nthree\n```\n\nafter it comes more"
SPLITS: dict[str, tuple[str, int, int, list[tuple[int, int]]]] = {
    "the limit itself fits": (FITTING, 23, 0, [(1, 4)]),
    "one character more does not": (FITTING, 22, 0, [(1, 2), (4, 4)]),
    "whole paragraphs": ("# H\n\n" + "\n\n".join(["para n\nline two"] * 6), 40, 0, [(1, 7), (9, 13), (15, 19)]),
    "the last lines are repeated": ("\n".join(["# H", *LINES]), 31, 2, [(1, 5), (4, 7), (6, 9)]),
    "but no leading blank line": ("# H\n" + "\n\n".join(LINES), 31, 2, [(1, 6), (6, 12), (12, 16)]),
    "as many of them as fit": (WIDE, 32, 2, [(1, 3), (3, 5)]),
    "down to none": (WIDE, 30, 2, [(1, 3), (5, 5)]),
    "a fence that fits is whole, and no overlap begins in it": (FENCED, 25, 3, [(1, 2), (4, 10), (12, 12)]),
    "a large fence is cut at lines": (
        "\n".join(["# H", "```", *(f"code {number}" for number in range(10)), "```", "tail"]),
        30,
        2,
        [(1, 5), (6, 9), (10, 14)],
    ),
}


@pytest.mark.parametrize(("text", "size", "overlap", "expected"), SPLITS.values(), ids=SPLITS)
def test_a_long_section_is_split(text: str, size: int, overlap: int, expected: list[tuple[int, int]]) -> None:
    """Pieces hold as many whole paragraphs and fences as fit; a continuation repeats the last lines."""
    assert ranges(text, size, overlap) == expected


def test_an_overlap_never_repeats_a_whole_piece() -> None:
    """A piece is not contained in the next one, and the heading is not repeated."""
    text = "# H\nalpha\n\nbeta\n\ngamma\n\ndelta"
    for overlap in (1, 2, 5, 50):
        spans = ranges(text, 14, overlap)
        assert all(later[0] > earlier[0] for earlier, later in pairwise(spans))
        assert sum(first == 1 for first, _ in spans) == 1


def test_the_heading_stays_with_the_beginning_of_its_text() -> None:
    """A heading leads the first lines of a paragraph that does not fit with it, or the first part of a long line."""
    assert ranges("# Head\n\nline one\nline two", 20) == [(1, 3), (4, 4)]
    first, *rest = pieces("# Head\n<!-- memory:m -->\n\n" + "word " * 30, 60)
    assert first.content.startswith("# Head\n<!-- memory:m -->\n\nword word")
    assert (first.start_line, first.end_line, first.context) == (1, 4, "")
    assert {(piece.start_line, piece.end_line, piece.context) for piece in rest} == {(4, 4, "Head")}


def test_a_heading_that_cannot_be_attached_is_left_to_the_context() -> None:
    """No piece is a heading alone: before a fence that fills a piece it is in the context only."""
    (piece,) = pieces("# Head\n```\nthe code\n```", 16)
    assert (piece.start_line, piece.end_line, piece.context) == (2, 4, "Head")


def test_contexts_of_pieces() -> None:
    """The context of the piece with the heading has the headings above it; a continuation has the whole path."""
    text = "# A\n## B\n" + "\n\n".join(f"paragraph {n}" for n in range(4))
    assert [piece.context for piece in pieces(text, 30)] == ["A", "A > B"]


def test_comments_are_not_pieces() -> None:
    """A comment too large for one piece is cut like text, but parts without visible text are dropped."""
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
    """All parts of a cut line have that line's number, and comments in it stay hidden."""
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
    """A line of a megabyte is cut after sentences and nothing is lost."""
    line = " ".join(f"This is sentence number {n}." for n in range(35_000))
    cut = pieces(f"# H\n{line}", 1500)
    assert " ".join(piece.content.removeprefix("# H\n") for piece in cut) == line
    assert all(len(piece.content) <= 1500 and piece.content.endswith(".") for piece in cut)


def test_every_entry_of_a_large_journal_is_a_chunk_with_its_id() -> None:
    """A journal with more entries than the limit of headings of other files keeps an anchor for each."""
    count = MAX_HEADINGS + 50
    text = "".join(f"### 10:00\n<!-- memory:m{number} -->\nx{number}\n\n" for number in range(count))

    journal = chunk_markdown(text, "/p/.lorelog/memory/2026-03-05.md", ChunkOptions())
    note = chunk_markdown(text, "/p/notes/2026-03-05.md", ChunkOptions())

    assert [chunk.anchor.memory for chunk in journal.chunks if chunk.anchor] == [
        f"m{number}" for number in range(count)
    ]
    assert len(note.chunks) < count


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
