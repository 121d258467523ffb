"""Reading a scanned file gives its text and hash, or an error with the reason."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lorelog.core.document import SourceFile
from lorelog.core.errors import SourceError
from lorelog.core.options import ScanOptions
from lorelog.ingest.files import FileText, read_text, scan


def scanned(path: Path, data: bytes) -> SourceFile:
    path.write_bytes(data)
    (file,) = scan([str(path)], ScanOptions()).files
    return file


def test_text_and_hash_of_the_bytes(tmp_path: Path) -> None:
    """The hash is that of the bytes on disk; the text is decoded."""
    data = "é 记忆\n".encode()
    assert read_text(scanned(tmp_path / "a.md", data)) == FileText(
        "é 记忆\n", hashlib.sha256(data).hexdigest(), size=len(data)
    )


def test_only_crlf_is_a_line_end_beside_lf(tmp_path: Path) -> None:
    """CRLF becomes LF and a byte order mark is dropped; CR alone, form feed, NEL and LS stay."""
    data = "\ufeffa\r\nb\rc\x0cd\u2028e\x85f\r\n".encode()
    assert read_text(scanned(tmp_path / "a.md", data)).text == "a\nb\rc\x0cd\u2028e\x85f\n"


def test_an_empty_file_is_empty_text(tmp_path: Path) -> None:
    """An empty file is not an error."""
    assert read_text(scanned(tmp_path / "a.md", b"")).text == ""


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\r\ntwo\n\xe9t\xe9\n", "one\ntwo\n\ufffdt\ufffd\n"),
        ("one\ntwo\n记忆".encode()[:-1], "one\ntwo\n记\ufffd"),
        (b"one\ntwo\nthree" + b"\0" * 5_000, "one\ntwo\nthree\ufffd"),
        (b"one\ntwo\n" + b"\0" * 5_000 + b"\n\nthree\n", "one\ntwo\n\ufffd\n\nthree\n"),
    ],
)
def test_bad_bytes_are_replaced_and_noted(tmp_path: Path, mark: bytes, data: bytes, text: str) -> None:
    """A few bytes that are not text become U+FFFD, the rest is kept, and a note names the file and the line."""
    content = read_text(scanned(tmp_path / "a.md", mark + data))
    assert content.text == text
    assert content.note.startswith(f"{tmp_path}/a.md has bytes that are not valid UTF-8, the first on line 3")


def test_a_binary_file_is_not_text(tmp_path: Path) -> None:
    """A file with many bytes that are not UTF-8 is rejected."""
    with pytest.raises(SourceError, match=r"a\.md is not text: .* are not valid UTF-8"):
        read_text(scanned(tmp_path / "a.md", bytes(range(256)) * 40))
    with pytest.raises(SourceError, match="is not text"):
        read_text(scanned(tmp_path / "a.md", b"\xff"))


def test_utf16_is_decoded_by_its_mark(tmp_path: Path) -> None:
    """UTF-16 with a byte order mark is text; half a character of it is an error that says so."""
    data = "# 记忆\r\n".encode("utf-16")
    assert read_text(scanned(tmp_path / "a.md", data)).text == "# 记忆\n"
    with pytest.raises(SourceError, match="begins as UTF-16"):
        read_text(scanned(tmp_path / "b.md", data[:-1]))


def test_a_file_that_was_deleted_or_swapped_for_a_pipe_is_refused(tmp_path: Path) -> None:
    """A file deleted between scan and read is an error that says so; a pipe put in its place is rejected at once."""
    file = scanned(tmp_path / "a.md", b"x")
    (tmp_path / "a.md").unlink()
    with pytest.raises(SourceError, match=r"a\.md vanished"):
        read_text(file)
    os.mkfifo(tmp_path / "a.md")
    with pytest.raises(SourceError, match="was replaced"):
        read_text(file)


def test_a_file_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    """A link put in place of a scanned file or its directory does not lead out of the roots."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_text("secret")
    (tmp_path / "sub").mkdir()
    file = scanned(tmp_path / "sub" / "a.md", b"x")
    (tmp_path / "sub" / "a.md").unlink()
    (tmp_path / "sub" / "a.md").symlink_to(tmp_path / "outside" / "a.md")
    with pytest.raises(SourceError):
        read_text(file)
    (tmp_path / "sub" / "a.md").unlink()
    (tmp_path / "sub").rmdir()
    (tmp_path / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises(SourceError, match="was replaced"):
        read_text(file)


def test_an_unreadable_file_is_found_and_refused(tmp_path: Path, run_unprivileged: Callable[..., str]) -> None:
    """A file without read permission is scanned, so that it does not count as deleted, and rejected with the reason."""
    path = tmp_path / "a.md"
    path.write_text("x")
    path.chmod(0)
    code = """if True:
        import sys
        from lorelog.core.errors import SourceError
        from lorelog.core.options import ScanOptions
        from lorelog.ingest.files import read_text
        from lorelog.ingest.files import scan
        (file,) = scan([sys.argv[1]], ScanOptions()).files
        try:
            read_text(file)
        except SourceError as error:
            print(error.message.removeprefix(file.path), bool(error.hint))
    """
    assert run_unprivileged(code, str(path)) == " cannot be read: Permission denied True\n"
