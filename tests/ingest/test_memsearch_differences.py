"""Where our chunks differ from memsearch 0.4.23's, and why.

The cases were recorded with memsearch itself. Texts pass through a file, because bytes and line ends are part of some.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lorelog.core.document import chunk_id, short_hash
from lorelog.core.options import ChunkOptions, ScanOptions
from lorelog.ingest.files import read_text, scan
from lorelog.ingest.markdown import ParsedDocument, chunk_markdown

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


CASES: list[tuple[str, str, list[str], str, ChunkOptions]] = [
    ("empty", "", [], SAME, ChunkOptions()),
    ("blank", "\n\n  \n", [], SAME, ChunkOptions()),
    ("preamble only", "just text", ["0:1-1"], SAME, ChunkOptions()),
    ("body of one character", "# H\na", ["H 1:1-2"], ONE_CHARACTER, ChunkOptions()),
    ("body of two characters", "# H\nab", ["H 1:1-2"], SAME, ChunkOptions()),
    ("heading only", "# H\n", [], SAME, ChunkOptions()),
    ("comment only", "## S\n<!-- session:a turn:b transcript:c -->\n", [], SAME, ChunkOptions()),
    (
        "preamble and headings",
        "intro\n\n# A\ntext a\n\n## B\ntext b\n### C\ntext c\n# D\ntext d\n",
        ["0:1-1", "A 1:3-4", "B 2:6-7", "C 3:8-9", "D 1:10-11"],
        BLANKS,
        ChunkOptions(),
    ),
    (
        "hash in a fence",
        "# Real\ntext\n```bash\n# not a heading\necho hi\n```\nafter\n",
        ["Real 1:1-7"],
        FENCES,
        ChunkOptions(),
    ),
    ("hash in a tilde fence", "# Real\n~~~\n# no\n~~~\n", ["Real 1:1-4"], FENCES, ChunkOptions()),
    ("hash in indented code", "# Real\n\n    # four spaces\nx y\n", ["Real 1:1-4"], BLANKS, ChunkOptions()),
    ("hash without a space", "#tag line\n# Real\nbody\n", ["0:1-1", "Real 1:2-3"], BLANKS, ChunkOptions()),
    ("seven hashes", "####### seven\nbody text\n", ["0:1-2"], BLANKS, ChunkOptions()),
    ("setext", "Title\n=====\nbody\n\nSub\n---\nmore\n", ["Title 1:1-3", "Sub 2:5-7"], SETEXT, ChunkOptions()),
    ("closing hashes", "## Closed ##\nbody\n", ["Closed 2:1-2"], CLOSING, ChunkOptions()),
    ("tab after the hash", "#\tTabbed\nbody\n", ["Tabbed 1:1-2"], BLANKS, ChunkOptions()),
    ("indented heading", " # Spaced\nbody\n", ["Spaced 1:1-2"], INDENTED, ChunkOptions()),
    ("blanks after the title", "## Title   \nbody\n", ["Title 2:1-2"], BLANKS, ChunkOptions()),
    ("emphasis in the title", "## **Bold** `code`\nbody\n", ["**Bold** `code` 2:1-2"], BLANKS, ChunkOptions()),
    ("CRLF", "# A\r\nline one\r\n## B\r\nline two\r\n", ["A 1:1-2", "B 2:3-4"], CRLF, ChunkOptions()),
    ("CR only", "# A\rline\r## B\rtwo", ["0:1-1"], BARE_CR, ChunkOptions()),
    ("form feed", "# A\nx\x0cy\n## B\nz z\n", ["A 1:1-2", "B 2:3-4"], BLANKS, ChunkOptions()),
    ("NEL and LS", "# A\nfoo\u2028bar\x85baz\n## B\nzz\n", ["A 1:1-2", "B 2:3-4"], BLANKS, ChunkOptions()),
    (
        "front matter",
        "---\ntitle: x\n# comment in yaml\n---\n# H\nbody\n",
        ["0:1-4", "H 1:5-6"],
        FRONT_MATTER,
        ChunkOptions(),
    ),
    ("byte order mark", "\ufeff# H\nbody\n", ["H 1:1-2"], BOM, ChunkOptions()),
    ("blanks inside and after", "# H\n\n   indented first\nbody\n\n\n", ["H 1:1-4"], BLANKS, ChunkOptions()),
    ("comment of many lines", "# H\n<!-- a\n# inside comment\n-->\nbody\n", ["H 1:1-5"], COMMENTS, ChunkOptions()),
    ("CJK heading", "## 决策 记录\n我们选择了 Redis。\n", ["决策 记录 2:1-2"], BLANKS, ChunkOptions()),
    ("emoji", "# 🎉\nparty on\n", ["🎉 1:1-2"], BLANKS, ChunkOptions()),
    ("equal sections", "## S\nsame body\n## S\nsame body\n", ["S 2:1-2", "S 2:3-4"], BLANKS, ChunkOptions()),
    ("paragraphs", PARAGRAPHS, ["H 1:1-18", "H 1:18-28"], BLANKS, ChunkOptions()),
    ("paragraphs without overlap", PARAGRAPHS, ["H 1:1-18", "H 1:20-28"], BLANKS, ChunkOptions(overlap_lines=0)),
    ("no blank lines", LINES, ["H 1:1-15", "H 1:14-27", "H 1:26-31"], SAME, ChunkOptions()),
    (
        "one long line",
        "# H\n" + "Sentence number one is here. " * 120,
        ["H 1:1-2", "H 1:2-2", "H 1:2-2"],
        NO_LONE_HEADING,
        ChunkOptions(),
    ),
    (
        "one long line without stops",
        "# H\n" + "x" * 3300,
        ["H 1:1-2", "H 1:2-2", "H 1:2-2"],
        NO_LONE_HEADING,
        ChunkOptions(),
    ),
    (
        "one long line of CJK",
        "# H\n" + "这是一个很长的句子。" * 200,
        ["H 1:1-2", "H 1:2-2"],
        NO_LONE_HEADING,
        ChunkOptions(),
    ),
    ("exactly the limit", "# H\n" + "a" * 1496, ["H 1:1-2"], SAME, ChunkOptions()),
    ("one over the limit", "# H\n" + "a" * 1497, ["H 1:2-2"], NOT_CUT, ChunkOptions()),
    (
        "small limit",
        SMALL,
        ["H 1:1-2", "H 1:4-4", "H 1:6-6", "H 1:6-6", "H 1:8-8"],
        PIECES_FIT,
        ChunkOptions(max_chunk_size=20),
    ),
    (
        "small limit, overlap of five",
        SMALL,
        ["H 1:1-2", "H 1:4-4", "H 1:6-6", "H 1:6-6", "H 1:8-8"],
        PIECES_FIT,
        ChunkOptions(max_chunk_size=20, overlap_lines=5),
    ),
    (
        "limit of one",
        "# H\nab cd\n",
        ["H 1:2-2", "H 1:2-2", "H 1:2-2", "H 1:2-2"],
        NO_LONE_HEADING,
        ChunkOptions(max_chunk_size=1),
    ),
    ("large fence", FENCE, ["H 1:1-86", "H 1:87-124"], NO_FENCE_OVERLAP, ChunkOptions()),
]
"""Name, text, our chunks as `heading level:first-last line`, and how they differ from memsearch's."""


def parse(path: Path, text: str, options: ChunkOptions) -> ParsedDocument:
    path.write_bytes(text.encode())
    (file,) = scan([str(path)], ScanOptions()).files
    return chunk_markdown(read_text(file).text, file.path, options)


@pytest.mark.parametrize(("name", "text", "expected", "difference", "options"), CASES, ids=[case[0] for case in CASES])
def test_our_answer(
    name: str, text: str, expected: list[str], difference: str, options: ChunkOptions, tmp_path: Path
) -> None:
    """Our chunks are as recorded; the difference says why memsearch has others."""
    chunks = parse(tmp_path / "a.md", text, options).chunks
    spans = [f"{c.heading} {c.heading_level}:{c.start_line}-{c.end_line}".strip() for c in chunks]
    assert spans == expected, difference


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
