"""SectionPeek sees about the same section as the parser, and tolerates changed files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lorelog.core.options import ChunkOptions
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.outline import section_bounds
from lorelog.ingest.section_peek import SectionPeek

WORDS = st.text(alphabet="abcdefgh äé", min_size=1, max_size=60).filter(lambda text: bool(text.strip()))
FENCE = "```sh\n# not a heading\nmake\n```"


@st.composite
def pages(draw: st.DrawFn) -> str:
    """Pages with sections of different depths, some long enough to be split, some with fences; every paragraph is unique."""
    parts = [draw(st.sampled_from(["", "a preamble"]))]
    for number in range(draw(st.integers(1, 8))):
        level = draw(st.integers(1, 4))
        body = [
            f"{number} {draw(WORDS)} {'word ' * draw(st.sampled_from([1, 80]))}" for _ in range(draw(st.integers(1, 3)))
        ]
        body = [f"{at}: {text}" for at, text in enumerate(body)]
        fence = [FENCE] if draw(st.booleans()) else []
        parts.append("\n\n".join([f"{'#' * level} Title {number}", *body, *fence]))
    return "\n\n".join(parts) + "\n"


def sections_of(text: str, line: int, level: int) -> str:
    """Return the section as the parser sees it."""
    start, end = section_bounds(text, "a.md", line, level)
    return "\n".join(text.split("\n")[start - 1 : end])


def assert_seen(path: Path, text: str) -> None:
    """Compare SectionPeek with the parser for every chunk of a file."""
    with SectionPeek(str(path)) as file:
        for chunk in chunk_markdown(text, str(path), ChunkOptions(300, 2)).chunks:
            seen = file.section(chunk.content, chunk.start_line, chunk.heading_level)
            assert seen == sections_of(text, chunk.start_line, chunk.heading_level).rstrip()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(pages())
def test_sections_equal_those_of_the_parser(tmp_path: Path, text: str) -> None:
    """For a page with `#` headings and fences, every chunk's section is the one that `expand` shows."""
    path = tmp_path / "page.md"
    path.write_text(text, "utf-8")

    assert_seen(path, text)


def _line(number: int, width: int) -> str:
    return " ".join(f"{number}-{at}" for at in range(max(width // 8, 1)))


def long_page(widths: Iterable[int]) -> str:
    return "# Top\n\n" + "".join(f"## Part {n}\n\n{_line(n, width)}\n\nend {n}\n\n" for n, width in enumerate(widths))


@pytest.mark.slow
@pytest.mark.parametrize(
    "widths", [[400] * 1000, [10] * 2000 + [2000] * 400, [3000] * 300 + [10] * 1500], ids=["even", "grows", "shrinks"]
)
def test_a_large_file_is_not_read_from_the_top(tmp_path: Path, widths: list[int]) -> None:
    """Chunks anywhere in a file of half a megabyte or more are found, whatever the line lengths."""
    text = long_page(widths)
    path = tmp_path / "long.md"
    path.write_text(text, "utf-8")
    chunks = chunk_markdown(text, str(path), ChunkOptions()).chunks
    with SectionPeek(str(path)) as file:
        for chunk in [chunks[0], *chunks[5 :: len(chunks) // 20], chunks[-1]]:
            seen = file.section(chunk.content, chunk.start_line, 2)
            assert seen == sections_of(text, chunk.start_line, 2).rstrip()


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    """A chunk of several lines is found in a file with CRLF line ends."""
    path = tmp_path / "page.md"
    path.write_bytes(b"# A\r\n\r\none\r\ntwo\r\n\r\n## B\r\n\r\nthree\r\n\r\n# C\r\n\r\nfour\r\n")

    with SectionPeek(str(path)) as file:
        seen = file.section("# A\n\none\ntwo", 1, 1)

    assert seen.split() == ["#", "A", "one", "two", "##", "B", "three"]


def test_the_line_decides_between_repeats(tmp_path: Path) -> None:
    """If the text occurs twice, the line decides; without a matching line the first one counts."""
    path = tmp_path / "page.md"
    path.write_text("# Same\n\ntext\n\nfirst\n\n# Same\n\ntext\n\nsecond\n", "utf-8")

    with SectionPeek(str(path)) as file:
        assert file.section("# Same\n\ntext", 1, 1).endswith("first")
        assert file.section("# Same\n\ntext", 7, 1).endswith("second")
        assert file.section("# Same\n\ntext", 99, 1).endswith("first")


def test_the_line_decides_in_a_large_file(tmp_path: Path) -> None:
    """If the text occurs twice far apart in a large file, the line decides."""
    filler = "".join(f"filler {n}\n" for n in range(60_000))
    path = tmp_path / "page.md"
    path.write_text(f"{filler}# Same\n\ntext\n\nfirst\n{filler}# Same\n\ntext\n\nsecond\n", "utf-8")

    with SectionPeek(str(path)) as file:
        assert file.section("# Same\n\ntext", 120_006, 1).endswith("second")


@pytest.mark.parametrize("thing", ["gone", "changed", "directory", "link", "pipe", "nul"])
def test_another_kind_of_file_is_empty(tmp_path: Path, thing: str) -> None:
    """A file that is missing, changed, or replaced by a directory, link or pipe reads as empty."""
    path = tmp_path / "page.md"
    real = tmp_path / "real.md"
    real.write_text("# A\n\nsecret\n", "utf-8")
    if thing == "changed":
        path.write_text("# B\n\nother\n", "utf-8")
    elif thing == "directory":
        path.mkdir()
    elif thing == "link":
        path.symlink_to(real)
    elif thing == "pipe":
        os.mkfifo(path)

    with SectionPeek(f"{path}\0" if thing == "nul" else str(path)) as file:
        assert file.section("# A\n\nsecret", 1, 1) == ""


def test_a_section_without_end_ends(tmp_path: Path) -> None:
    """At most a quarter of a section of a megabyte is read."""
    path = tmp_path / "page.md"
    path.write_text("# A\n\nbegin\n\n" + "word\n" * 200_000, "utf-8")

    with SectionPeek(str(path)) as file:
        assert len(file.section("# A\n\nbegin", 1, 1)) == pytest.approx(1 << 18, rel=0.01)
