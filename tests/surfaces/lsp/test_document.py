"""What the server knows of an open file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from lorelog.services.changes.diff import parse_diff
from lorelog.surfaces.lsp.document import OpenFile, open_file, project_root, same_line

LINES = st.lists(st.sampled_from("abc"), max_size=12)


@given(LINES, LINES)
def test_a_line_is_found_where_it_is_now(start: list[str], end: list[str]) -> None:
    """Lines before and after an edit are found where they are now, and what is found has the same text."""
    before, after = [*start, "old", *end], [*start, "new", "newer", *end]
    behind = range(len(start) + 2, len(after))
    assert [same_line(number, before, after) for number in range(len(before))] == [*range(len(start)), None, *behind]
    found = [(number, same_line(number, start, end)) for number in range(-1, len(start) + 2)]
    assert all(other is None or start[number] == end[other] for number, other in found)


@given(LINES, LINES)
def test_the_patch_of_an_edit_makes_one_state_of_the_other(opened: list[str], lines: list[str]) -> None:
    """The patch of an edit leads from the text that was opened to the one in the editor; without an edit it is empty."""
    edited = OpenFile("/work/src/a.py", "/work", [*opened, "end"], [*lines, "end"])
    found = list(parse_diff(edited.patch()))

    assert (found == []) == (opened == lines)
    for file in found:
        file.old_text = "\n".join(edited.opened)
        assert (file.path, file.new_text) == ("src/a.py", "\n".join(edited.lines))


@pytest.mark.parametrize("marker", ["git", ".lorelog.toml", ".lorelog"])
def test_a_file_of_a_project_is_opened(tmp_path: Path, marker: str) -> None:
    """A file of a repository, or below a folder that is set up as a project, is answered about; another is not."""
    file = tmp_path / "src" / "a.py"
    file.parent.mkdir()
    file.write_text("x = 1\n", "utf-8")
    assert open_file(str(file), "x = 1\n") is None
    if marker == "git":
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    else:
        (tmp_path / marker).mkdir()

    assert project_root(str(file.parent)) == str(tmp_path)
    assert open_file(str(file), "x = 1\n") is not None
    assert open_file(str(file), "\0") is None
    assert open_file(str(file), "x" * 3_000_000) is None
    assert open_file(str(tmp_path / "new.py"), "") is not None
    assert [open_file(str(path), "") for path in (file.parent, Path("/etc/passwd"))] == [None, None]


TEXT = st.text("a_\n\f\u2028é😀", max_size=12)


@given(TEXT, TEXT, st.data(), st.sampled_from([("utf-8", 1), ("utf-16-le", 2), ("utf-32-le", 4)]))
def test_an_edit_changes_the_text_as_in_the_editor(
    before: str, new: str, data: st.DataObject, codec: tuple[str, int]
) -> None:
    """An edit changes the same characters as in the editor, whatever they are, and whatever unit counts its columns; beyond the end it adds."""
    ends = sorted(data.draw(st.tuples(*[st.integers(0, len(before))] * 2)))

    def place(offset: int) -> lsp.Position:
        line = before[:offset].rpartition("\n")[2]
        return lsp.Position(before[:offset].count("\n"), len(line.encode(codec[0])) // codec[1])

    lines = before.split("\n")
    for start, end, text in (
        (place(ends[0]), place(ends[1]), before[: ends[0]] + new + before[ends[1] :]),
        (lsp.Position(len(lines), 0), lsp.Position(len(lines), 9), before + new),
    ):
        file = OpenFile("/work/a.py", "/work", lines, lines)
        file.change(lsp.TextDocumentContentChangePartial(lsp.Range(start, end), new), codec[0].removesuffix("-le"))
        assert "\n".join(file.lines) == text


def test_a_word_is_found_by_the_columns_of_the_editor() -> None:
    """The word under the cursor is found behind characters of two units, also in letters that are not ASCII."""
    file = OpenFile("/work/a.py", "/work", [], ["x = '😀' + größe_1(3)"])
    words = [file.word_at(lsp.Position(0, column), "utf-16") for column in (0, 10, 12, 18, 99)]
    assert words == ["x", "", "größe_1", "größe_1", ""]


def test_the_patch_of_a_hostile_name_is_about_that_file() -> None:
    """A file whose name has line ends, quotes and tabs is the one that its patch names."""
    name = 'a\n+++ b/x.py\t"q"\\ ü'
    (file,) = parse_diff(OpenFile(f"/work/{name}", "/work", ["a"], ["b"]).patch())
    assert (file.old_path, file.new_path, [line.text for line in file.added]) == (name, name, ["b"])
