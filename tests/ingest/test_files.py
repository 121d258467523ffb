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
from lorelog.ingest.files import read_text
from lorelog.ingest.scan import scan


def scanned(path: Path, data: bytes) -> SourceFile:
    path.write_bytes(data)
    (file,) = scan([str(path)], ScanOptions()).files
    return file


def test_text_and_hash_of_the_bytes(tmp_path: Path) -> None:
    """The hash is that of the bytes on disk; the text is decoded."""
    data = "é 记忆\n".encode()
    assert read_text(scanned(tmp_path / "a.md", data)) == ("é 记忆\n", hashlib.sha256(data).hexdigest())


def test_only_crlf_is_a_line_end_beside_lf(tmp_path: Path) -> None:
    """CRLF becomes LF and a byte order mark is dropped; CR alone, form feed, NEL and LS stay."""
    data = "\ufeffa\r\nb\rc\x0cd\u2028e\x85f\r\n".encode()
    assert read_text(scanned(tmp_path / "a.md", data))[0] == "a\nb\rc\x0cd\u2028e\x85f\n"


def test_an_empty_file_is_empty_text(tmp_path: Path) -> None:
    """An empty file is not an error."""
    assert read_text(scanned(tmp_path / "a.md", b""))[0] == ""


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_invalid_utf8_says_where(tmp_path: Path, mark: bytes) -> None:
    """Bytes that are not UTF-8 are rejected with their offset and line."""
    file = scanned(tmp_path / "a.md", mark + b"one\r\ntwo\n\xe9t\xe9\n")
    with pytest.raises(SourceError, match=f"not valid UTF-8 at byte {len(mark) + 9}, on line 3") as caught:
        read_text(file)
    assert "iconv" in caught.value.hint


def test_nul_bytes_are_not_text(tmp_path: Path) -> None:
    """A file with NUL bytes is rejected as not text; a UTF-16 file gets its own hint."""
    with pytest.raises(SourceError, match=r"a\.md contains NUL bytes; not text"):
        read_text(scanned(tmp_path / "a.md", b"a\0b"))
    with pytest.raises(SourceError) as caught:
        read_text(scanned(tmp_path / "b.md", "text".encode("utf-16")))
    assert "UTF-16" in caught.value.hint


def test_a_vanished_file_is_named(tmp_path: Path) -> None:
    """A file deleted between scan and read is an error that says so."""
    file = scanned(tmp_path / "a.md", b"x")
    (tmp_path / "a.md").unlink()
    with pytest.raises(SourceError, match=r"a\.md vanished"):
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


def test_a_file_swapped_for_a_pipe_does_not_block(tmp_path: Path) -> None:
    """A pipe put in place of a scanned file is rejected at once."""
    file = scanned(tmp_path / "a.md", b"x")
    (tmp_path / "a.md").unlink()
    os.mkfifo(tmp_path / "a.md")
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
        from lorelog.ingest.scan import scan
        (file,) = scan([sys.argv[1]], ScanOptions()).files
        try:
            read_text(file)
        except SourceError as error:
            print(error.message.removeprefix(file.path), bool(error.hint))
    """
    assert run_unprivileged(code, str(path)) == " cannot be read: Permission denied True\n"
