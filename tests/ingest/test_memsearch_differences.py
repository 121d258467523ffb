"""Where our chunks differ from memsearch 0.4.23's, and why.

Each case holds a text, what memsearch answers as (heading, level, start line, end line), what we answer, and the
reason by name. The cases are all that were recorded from memsearch itself. Texts pass through a file, because bytes
and line ends are part of some cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lorelog.core.document import chunk_id, short_hash
from lorelog.core.options import ChunkOptions, ScanOptions
from lorelog.ingest.files import read_text, scan
from lorelog.ingest.markdown import ParsedDocument, chunk_markdown

Span = tuple[str, int, int, int]

SAME = "same"
BLANKS = "lines are exact: blank lines at the end, and the empty line after the last newline, are not counted"
ONE_CHARACTER = "a body of one character counts: in CJK it can be an answer"
FENCES = "what stands in a fence is not a heading"
FRONT_MATTER = "what stands in front matter is not a heading"
COMMENTS = "what stands in a comment is not a heading"
SETEXT = "underlined headings are headings"
CLOSING = "closing hashes are not part of a title"
INDENTED = "a heading may be indented by up to three spaces"
CRLF = "a carriage return before a newline is part of the line end"
BARE_CR = "a line with a bare carriage return inside is no title: as one, its text would not be searched"
BOM = "a byte order mark is not part of the text"
NO_LONE_HEADING = "a heading is not a piece of its own, and a part of a line tells that line's number"
NOT_CUT = "a line that fits is not cut; a heading that no longer fits with it goes to the context"
PIECES_FIT = "overlap is repeated only where it fits, never a whole piece, and long lines are cut after words"
NO_FENCE_OVERLAP = "a continuation does not start inside a fence with lines from before the cut"

PARAGRAPHS = "# H\n" + "\n\n".join(f"p{n} " + "word " * 30 for n in range(14))
LINES = "# H\n" + "\n".join(f"l{n} " + "word " * 20 for n in range(30))
FENCE = "# H\n```\n" + "".join(f"code line {n} = {n}\n" for n in range(120)) + "```\ntail\n"
SMALL = "# H\nalpha beta\n\ngamma delta\n\nepsilon zeta eta theta\n\niota\n"


@dataclass(frozen=True)
class Case:
    """A text and the chunks of both programs."""

    name: str
    text: str
    memsearch: list[Span]
    ours: list[Span]
    reason: str
    options: ChunkOptions = field(default_factory=ChunkOptions)


def _case(name: str, text: str, memsearch: list[Span], ours: list[Span] | None = None, reason: str = SAME) -> Case:
    return Case(name, text, memsearch, memsearch if ours is None else ours, reason)


CASES = [
    _case("empty", "", []),
    _case("blank", "\n\n  \n", []),
    _case("preamble only", "just text", [("", 0, 1, 1)]),
    _case("body of one character", "# H\na", [], [("H", 1, 1, 2)], ONE_CHARACTER),
    _case("body of two characters", "# H\nab", [("H", 1, 1, 2)]),
    _case("heading only", "# H\n", []),
    _case("comment only", "## S\n<!-- session:a turn:b transcript:c -->\n", []),
    _case(
        "preamble and headings",
        "intro\n\n# A\ntext a\n\n## B\ntext b\n### C\ntext c\n# D\ntext d\n",
        [("", 0, 1, 2), ("A", 1, 3, 5), ("B", 2, 6, 7), ("C", 3, 8, 9), ("D", 1, 10, 12)],
        [("", 0, 1, 1), ("A", 1, 3, 4), ("B", 2, 6, 7), ("C", 3, 8, 9), ("D", 1, 10, 11)],
        BLANKS,
    ),
    _case(
        "hash in a fence",
        "# Real\ntext\n```bash\n# not a heading\necho hi\n```\nafter\n",
        [("Real", 1, 1, 3), ("not a heading", 1, 4, 8)],
        [("Real", 1, 1, 7)],
        FENCES,
    ),
    _case(
        "hash in a tilde fence",
        "# Real\n~~~\n# no\n~~~\n",
        [("Real", 1, 1, 2), ("no", 1, 3, 5)],
        [("Real", 1, 1, 4)],
        FENCES,
    ),
    _case(
        "hash in indented code", "# Real\n\n    # four spaces\nx y\n", [("Real", 1, 1, 5)], [("Real", 1, 1, 4)], BLANKS
    ),
    _case(
        "hash without a space",
        "#tag line\n# Real\nbody\n",
        [("", 0, 1, 1), ("Real", 1, 2, 4)],
        [("", 0, 1, 1), ("Real", 1, 2, 3)],
        BLANKS,
    ),
    _case("seven hashes", "####### seven\nbody text\n", [("", 0, 1, 3)], [("", 0, 1, 2)], BLANKS),
    _case(
        "setext",
        "Title\n=====\nbody\n\nSub\n---\nmore\n",
        [("", 0, 1, 8)],
        [("Title", 1, 1, 3), ("Sub", 2, 5, 7)],
        SETEXT,
    ),
    _case("closing hashes", "## Closed ##\nbody\n", [("Closed ##", 2, 1, 3)], [("Closed", 2, 1, 2)], CLOSING),
    _case("tab after the hash", "#\tTabbed\nbody\n", [("Tabbed", 1, 1, 3)], [("Tabbed", 1, 1, 2)], BLANKS),
    _case("indented heading", " # Spaced\nbody\n", [("", 0, 1, 3)], [("Spaced", 1, 1, 2)], INDENTED),
    _case("blanks after the title", "## Title   \nbody\n", [("Title", 2, 1, 3)], [("Title", 2, 1, 2)], BLANKS),
    _case(
        "emphasis in the title",
        "## **Bold** `code`\nbody\n",
        [("**Bold** `code`", 2, 1, 3)],
        [("**Bold** `code`", 2, 1, 2)],
        BLANKS,
    ),
    _case(
        "CRLF",
        "# A\r\nline one\r\n## B\r\nline two\r\n",
        [("A", 1, 1, 2), ("B", 2, 3, 5)],
        [("A", 1, 1, 2), ("B", 2, 3, 4)],
        CRLF,
    ),
    _case("CR only", "# A\rline\r## B\rtwo", [("A\rline\r## B\rtwo", 1, 1, 1)], [("", 0, 1, 1)], BARE_CR),
    _case(
        "form feed",
        "# A\nx\x0cy\n## B\nz z\n",
        [("A", 1, 1, 2), ("B", 2, 3, 5)],
        [("A", 1, 1, 2), ("B", 2, 3, 4)],
        BLANKS,
    ),
    _case(
        "NEL and LS",
        "# A\nfoo\u2028bar\x85baz\n## B\nzz\n",
        [("A", 1, 1, 2), ("B", 2, 3, 5)],
        [("A", 1, 1, 2), ("B", 2, 3, 4)],
        BLANKS,
    ),
    _case(
        "front matter",
        "---\ntitle: x\n# comment in yaml\n---\n# H\nbody\n",
        [("", 0, 1, 2), ("comment in yaml", 1, 3, 4), ("H", 1, 5, 7)],
        [("", 0, 1, 4), ("H", 1, 5, 6)],
        FRONT_MATTER,
    ),
    _case("byte order mark", "\ufeff# H\nbody\n", [("", 0, 1, 3)], [("H", 1, 1, 2)], BOM),
    _case(
        "blanks inside and after", "# H\n\n   indented first\nbody\n\n\n", [("H", 1, 1, 7)], [("H", 1, 1, 4)], BLANKS
    ),
    _case(
        "comment of many lines",
        "# H\n<!-- a\n# inside comment\n-->\nbody\n",
        [("H", 1, 1, 2), ("inside comment", 1, 3, 6)],
        [("H", 1, 1, 5)],
        COMMENTS,
    ),
    _case(
        "CJK heading", "## 决策 记录\n我们选择了 Redis。\n", [("决策 记录", 2, 1, 3)], [("决策 记录", 2, 1, 2)], BLANKS
    ),
    _case("emoji", "# 🎉\nparty on\n", [("🎉", 1, 1, 3)], [("🎉", 1, 1, 2)], BLANKS),
    _case(
        "equal sections",
        "## S\nsame body\n## S\nsame body\n",
        [("S", 2, 1, 2), ("S", 2, 3, 5)],
        [("S", 2, 1, 2), ("S", 2, 3, 4)],
        BLANKS,
    ),
    _case("paragraphs", PARAGRAPHS, [("H", 1, 1, 19), ("H", 1, 18, 28)], [("H", 1, 1, 18), ("H", 1, 18, 28)], BLANKS),
    Case(
        "paragraphs without overlap",
        PARAGRAPHS,
        [("H", 1, 1, 19), ("H", 1, 20, 28)],
        [("H", 1, 1, 18), ("H", 1, 20, 28)],
        BLANKS,
        ChunkOptions(overlap_lines=0),
    ),
    _case("no blank lines", LINES, [("H", 1, 1, 15), ("H", 1, 14, 27), ("H", 1, 26, 31)]),
    _case(
        "one long line",
        "# H\n" + "Sentence number one is here. " * 120,
        [("H", 1, 1, 1), ("H", 1, 1, 2), ("H", 1, 1, 2), ("H", 1, 1, 2)],
        [("H", 1, 1, 2), ("H", 1, 2, 2), ("H", 1, 2, 2)],
        NO_LONE_HEADING,
    ),
    _case(
        "one long line without stops",
        "# H\n" + "x" * 3300,
        [("H", 1, 1, 1), ("H", 1, 1, 2), ("H", 1, 1, 2), ("H", 1, 1, 2)],
        [("H", 1, 1, 2), ("H", 1, 2, 2), ("H", 1, 2, 2)],
        NO_LONE_HEADING,
    ),
    _case(
        "one long line of CJK",
        "# H\n" + "这是一个很长的句子。" * 200,
        [("H", 1, 1, 1), ("H", 1, 1, 2), ("H", 1, 1, 2)],
        [("H", 1, 1, 2), ("H", 1, 2, 2)],
        NO_LONE_HEADING,
    ),
    _case("exactly the limit", "# H\n" + "a" * 1496, [("H", 1, 1, 2)]),
    _case(
        "one over the limit",
        "# H\n" + "a" * 1497,
        [("H", 1, 1, 1), ("H", 1, 1, 2), ("H", 1, 1, 2)],
        [("H", 1, 2, 2)],
        NOT_CUT,
    ),
    Case(
        "small limit",
        SMALL,
        [("H", 1, *span) for span in ((1, 3), (2, 5), (2, 5), (4, 5), (4, 7), (4, 7))]
        + [("H", 1, *span) for span in ((6, 7), (6, 7), (6, 8), (6, 8), (7, 9))],
        [("H", 1, 1, 2), ("H", 1, 4, 4), ("H", 1, 6, 6), ("H", 1, 6, 6), ("H", 1, 8, 8)],
        PIECES_FIT,
        ChunkOptions(max_chunk_size=20),
    ),
    Case(
        "small limit, overlap of five",
        SMALL,
        [("H", 1, *span) for span in ((1, 3), (1, 5), (1, 5), (1, 5), (1, 5), (1, 7), (1, 7), (1, 7))]
        + [("H", 1, *span) for span in ((3, 7), (3, 7), (3, 8), (3, 8), (3, 8), (4, 9), (4, 9), (4, 9))],
        [("H", 1, 1, 2), ("H", 1, 4, 4), ("H", 1, 6, 6), ("H", 1, 6, 6), ("H", 1, 8, 8)],
        PIECES_FIT,
        ChunkOptions(max_chunk_size=20, overlap_lines=5),
    ),
    Case(
        "limit of one",
        "# H\nab cd\n",
        [("H", 1, 1, 1), ("H", 1, 1, 1), ("H", 1, 2, 2), ("H", 1, 2, 2), ("H", 1, 2, 2), ("H", 1, 2, 2)],
        [("H", 1, 2, 2), ("H", 1, 2, 2), ("H", 1, 2, 2), ("H", 1, 2, 2)],
        NO_LONE_HEADING,
        ChunkOptions(max_chunk_size=1),
    ),
    _case(
        "large fence",
        FENCE,
        [("H", 1, 1, 86), ("H", 1, 85, 125)],
        [("H", 1, 1, 86), ("H", 1, 87, 124)],
        NO_FENCE_OVERLAP,
    ),
]


def parse(path: Path, text: str, options: ChunkOptions) -> ParsedDocument:
    path.write_bytes(text.encode())
    (file,) = scan([str(path)], ScanOptions()).files
    return chunk_markdown(read_text(file).text, file.path, options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_our_answer(case: Case, tmp_path: Path) -> None:
    """Our chunks are as recorded next to memsearch's, and only a difference has a reason."""
    chunks = parse(tmp_path / "a.md", case.text, case.options).chunks
    assert [(c.heading, c.heading_level, c.start_line, c.end_line) for c in chunks] == case.ours
    assert (case.reason == SAME) == (case.ours == case.memsearch)


def test_nul_bytes_are_replaced(tmp_path: Path) -> None:
    """Memsearch indexes a file with NUL bytes as (H, 1, 1, 3); lorelog does, too, with U+FFFD in their place."""
    (chunk,) = parse(tmp_path / "a.md", "# H\na\x00b\n", ChunkOptions()).chunks
    assert chunk.content == "# H\na\ufffdb"


def test_contents_and_hashes_agree_where_lines_are_not_cut(tmp_path: Path) -> None:
    """Where both find the same section, the stored content and its hash are the same."""
    text = "intro\n\n# A\ntext a\n\n## B\ntext b\n### C\ntext c\n# D\ntext d\n"
    chunks = parse(tmp_path / "a.md", text, ChunkOptions()).chunks
    assert [chunk.content_hash for chunk in chunks] == [
        "c432b372e0e30267",
        "9af9bc0143936e65",
        "1d32894223a52af6",
        "eb14868273f93d63",
        "598be4b7aa7c46f2",
    ]
    assert short_hash("## 决策 记录\n我们选择了 Redis。") == "d2195a5c804524f9"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("/a/b.md", 1, 2, "0123456789abcdef", "m"), "172f042aaf0551bb"),
        (("/home/u/é.md", 10, 20, "ffffffffffffffff", "gpahal/bge-m3-onnx-int8"), "13cc3f81d612e087"),
        (("", 0, 0, "", ""), "533401ec6ad4cdd3"),
    ],
)
def test_ids_agree(parts: tuple[str, int, int, str, str], expected: str) -> None:
    """From the same source, lines, hash and model both compute the same id."""
    assert chunk_id(*parts) == expected


@pytest.mark.parametrize(
    ("content", "cleaned"),
    [
        ("<!-- a -->x", "x"),
        ("a\n<!-- b\nc -->\n\n\n\nd", "a\n\nd"),
        ("  x  ", "x"),
        ("<!-- unclosed x", "<!-- unclosed x"),
        ("<!-- a --><!-- b -->\nq", "q"),
        ("", None),
        ("<!---->", None),
    ],
)
def test_cleaning_agrees(content: str, cleaned: str | None) -> None:
    """The embedded text is cleaned alike; if nothing is left, lorelog has no chunk."""
    chunks = chunk_markdown(content, "/a.md", ChunkOptions()).chunks
    assert [chunk.text for chunk in chunks] == ([] if cleaned is None else [cleaned])


def test_cleaning_differs_where_a_comment_filled_its_line() -> None:
    """Memsearch leaves an empty line in place of a comment; lorelog does not, so adding an anchor re-embeds nothing."""
    with_anchor, without = (
        chunk_markdown(text, "/a.md", ChunkOptions()).chunks[0]
        for text in ("### 14:30\n<!-- memory:m -->\n- done", "### 14:30\n- done")
    )
    assert with_anchor.text == without.text == "### 14:30\n- done"
    assert with_anchor.vector_key == without.vector_key
