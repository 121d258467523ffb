"""Documents of a judged set become Markdown files, and hits in these files become documents again."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.quality.layout import Layout, when
from bench.quality.sets import Text
from hypothesis import given, settings
from hypothesis import strategies as st

from lorelog.core.options import ChunkOptions
from lorelog.ingest.markdown import chunk_markdown

WORDS = st.sampled_from(["otter", "# Title", "## 10:00", "- item", "", "    code", "> said", "text text text"])
TEXTS = st.lists(WORDS, min_size=1, max_size=8).map("\n".join)


def laid_out(folder: Path, *texts: Text, anchors: bool = False) -> tuple[Layout, list[Path]]:
    layout = Layout(folder, anchors=anchors)
    layout.write(texts)
    return layout, sorted(folder.rglob("*.md"))


def owners(layout: Layout, path: Path) -> list[list[str]]:
    """Return the documents of each chunk of a file, as the pipeline cuts it."""
    chunks = chunk_markdown(path.read_text("utf-8"), str(path.resolve()), ChunkOptions()).chunks
    return [layout.documents(chunk.source, chunk.start_line, chunk.end_line) for chunk in chunks]


@pytest.mark.parametrize(
    ("date", "moment"),
    [
        ("1:56 pm on 8 May, 2023", ("2023-05-08", "13:56")),
        ("12:05 am on 31 December, 2022", ("2022-12-31", "00:05")),
        ("2023/04/10 (Mon) 17:50", ("2023-04-10", "17:50")),
        ("March-15-2024", ("2024-03-15", "")),
        ("2026-02-11T15:31:21.085Z", ("2026-02-11", "15:31")),
        ("2026-02-11", ("2026-02-11", "")),
        ("", ("", "")),
        ("last week", ("", "")),
    ],
)
def test_dates_are_read_as_the_sets_write_them(date: str, moment: tuple[str, str]) -> None:
    """Each way of writing gives the ISO day and the clock, and what is neither gives nothing."""
    assert when(date) == moment


def test_a_document_is_a_file_with_its_title(tmp_path: Path) -> None:
    """Text without session or role stands alone, under its title, in a file that begins with its day."""
    layout, (path,) = laid_out(tmp_path, Text("a", "first\nsecond", title="On\notters", date="2026-03-05"))

    assert path.name.startswith("2026-03-05-")
    assert path.read_text("utf-8") == "# On otters\n\nfirst\nsecond\n"
    assert owners(layout, path) == [["a"]]


def test_turns_of_a_session_share_a_file(tmp_path: Path) -> None:
    """Each turn is a section with its clock, and an anchor where wanted; sessions and groups have files of their own."""
    at = "1:56 pm on 8 May, 2023"
    layout, (first, second, third) = laid_out(
        tmp_path,
        Text("1", "Hello", group="g", session="s1", date=at),
        Text("2", "Hi there", group="g", session="s1", date=at),
        Text("3", "Later", group="g", session="s2", date=at),
        Text("4", "Elsewhere", group="h", session="s1", date=at),
        anchors=True,
    )

    assert first.name.startswith("2023-05-08-")
    assert first.read_text("utf-8").split("\n")[:4] == ["## 13:56", "<!-- session:s1 turn:1 -->", "", "Hello"]
    assert owners(layout, first) == [["1"], ["2"]]
    assert owners(layout, second) == [["3"]]
    assert (first.parent, third.parent) == (layout.folders["g"], layout.folders["h"])


def test_without_sessions_a_day_is_a_file(tmp_path: Path) -> None:
    """A date that only the first turn of a sitting carries holds until the next one."""
    layout, paths = laid_out(
        tmp_path,
        Text("1", "one", role="user", date="March-15-2024"),
        Text("2", "two", role="assistant"),
        Text("3", "three", role="user", date="April-01-2024"),
    )

    assert [path.name[:10] for path in paths] == ["2024-03-15", "2024-04-01"]
    assert owners(layout, paths[0]) == [["1"], ["2"]]


def test_headings_in_a_document_lead_back_to_it(tmp_path: Path) -> None:
    """Chunks below a document's own headings belong to it, in a file of its own and in a conversation."""
    said = "Intro\n\n# Plan\n\nfirst\n\n## 09:00\n\nsecond"
    layout, (turns, alone) = laid_out(
        tmp_path, Text("1", said, session="s"), Text("2", "after", session="s"), Text("3", said, title="T")
    )

    assert owners(layout, turns) == [["1"], ["1"], ["1"], ["2"]]
    assert owners(layout, alone) == [["3"], ["3"], ["3"]]


def test_an_open_fence_makes_documents_share_a_chunk(tmp_path: Path) -> None:
    """What the pipeline cannot tell apart is counted for both, in order."""
    layout, (path,) = laid_out(tmp_path, Text("1", "```\ncode", session="s"), Text("2", "after", session="s"))

    assert ["1", "2"] in owners(layout, path)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_every_chunk_of_fenceless_turns_has_one_owner(
    tmp_path_factory: pytest.TempPathFactory, said: list[str]
) -> None:
    """Whatever headings turns contain, each chunk leads back to one turn, and the turns come in order."""
    folder = tmp_path_factory.mktemp("layout")
    layout, (path,) = laid_out(folder, *(Text(str(number), text, session="s") for number, text in enumerate(said)))
    found = owners(layout, path)

    assert all(len(one) == 1 for one in found)
    assert [one for (one,) in found] == sorted(one for (one,) in found)


def test_repeats_are_looked_up_by_place(tmp_path: Path) -> None:
    """The `source:first-last` that a hit names its repeats by leads to their documents; foreign files to none."""
    layout, (path,) = laid_out(tmp_path, Text("1", "a", session="s"), Text("2", "b", session="s"))

    assert layout.at(f"{path}:1-3") == ["1"]
    assert layout.at(f"{path}:3-6") == ["1", "2"]
    assert layout.at("/elsewhere.md:1-2") == []


def test_what_is_kept_is_not_written_again(tmp_path: Path) -> None:
    """A second run over kept files leaves them untouched, so that nothing is indexed twice."""
    _, (path,) = laid_out(tmp_path, Text("1", "a"))
    stamp = path.stat().st_mtime_ns
    laid_out(tmp_path, Text("1", "a"))

    assert path.stat().st_mtime_ns == stamp
