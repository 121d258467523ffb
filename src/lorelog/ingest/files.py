"""Read a scanned file as text, or raise SourceError with the exact reason why it cannot be read.

A few bad bytes must not hide a day of memories: a kill or a power cut leaves half a character or a run of NUL bytes at the end of a
journal. Each is replaced by U+FFFD, and a note says where. A file with many of them is not text, and is rejected. Between scan
and read a path may be replaced by a link, a pipe or a device; so links are not followed, opening never blocks, and the opened file
must still be the scanned path.
"""

from __future__ import annotations

import os
import re
import stat
import time

from msgspec import Struct

from lorelog.core.digests import sha256
from lorelog.core.document import SourceFile
from lorelog.core.errors import SourceError

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


_REPLACEMENT = "\ufffd"
_NULS = re.compile("\0+")
"""A power cut leaves a run of them; one sign stands for it."""
_ALLOWED_BAD_CHARS = 16
_ALLOWED_BAD_SHARE = 0.1
"""Of the characters of a file: Latin-1 text in any European language has less."""


PARSE_SECONDS, PARSE_SECONDS_PER_MB = 5.0, 5.0
"""Processor time to parse any file, and in addition for each million characters: ten times what the worst ones take."""


class FileText(Struct, frozen=True):
    """A file's text, the SHA-256 of its bytes in hex, and a note if some of them are not text."""

    text: str
    digest: str
    note: str = ""
    size: int = 0
    """Number of bytes."""
    has_grown: bool = False
    """True if it begins with the content that was asked for, and has more."""


def read_text(file: SourceFile, before: tuple[int, str] | None = None) -> FileText:
    r"""Return a file's text. Raise SourceError if it cannot be read, or is not text.

    `before` are the size and digest of an earlier content, to learn whether the file only grew.
    A byte order mark is dropped and `\r\n` becomes `\n`; no other character ends a line. UTF-16 with a byte order mark is decoded.
    """
    data = _read_bytes(file.path)
    text, note = _decode(data, printable_path(file.path))
    has_grown = False
    if before is not None and before[0] < len(data):
        digest = sha256(memoryview(data)[: before[0]])
        has_grown = digest.hexdigest() == before[1]
        digest.update(memoryview(data)[before[0] :])
    else:
        digest = sha256(data)
    return FileText(text.replace("\r\n", "\n"), digest.hexdigest(), note, len(data), has_grown)


class ParseTimer:
    """The processor time that the parsing of one file may take.

    Every pass over a text is linear, so an honest file needs a small part of it, even on a slow machine. It limits what a mistake
    in a parser costs: the file is refused by name, and the run goes on. It counts the time of the thread, not that of a busy machine.
    """

    def __init__(self, file: SourceFile, characters: int) -> None:
        self._path = file.path
        self._seconds = PARSE_SECONDS + PARSE_SECONDS_PER_MB * characters / 1e6
        self._end = time.thread_time() + self._seconds

    def check(self) -> None:
        """Raise SourceError if the time is over."""
        if time.thread_time() > self._end:
            raise SourceError(
                f"{printable_path(self._path)} was not indexed: parsing it took more than {self._seconds:.0f} s",
                hint="exclude it, or split it into smaller files",
            )


def _decode(data: bytes, shown: str) -> tuple[str, str]:
    if data.startswith(_UTF16_BOMS):
        try:
            return data.decode("utf-16"), ""
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{shown} begins as UTF-16 and is not valid at byte {error.start}",
                hint="convert it to UTF-8, for example with iconv",
            ) from error
    data = data.removeprefix(_BOM)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    else:
        if "\0" not in text:
            return text, ""
    text = _NULS.sub(_REPLACEMENT, text)
    bad = text.count(_REPLACEMENT)
    if bad > max(min(_ALLOWED_BAD_CHARS, len(text) / 2), len(text) * _ALLOWED_BAD_SHARE):
        raise SourceError(
            f"{shown} is not text: {bad:,} of its {len(text):,} characters are not valid UTF-8",
            hint="convert it to UTF-8, for example with iconv, or exclude it",
        )
    line = text.count("\n", 0, text.find(_REPLACEMENT)) + 1
    return text, f"{shown} has bytes that are not valid UTF-8, the first on line {line}; they are indexed as U+FFFD"


def _read_bytes(path: str) -> bytes:
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as opened:
            opened_status = os.fstat(opened.fileno())
            status = os.lstat(path)
            is_same = (status.st_dev, status.st_ino) == (opened_status.st_dev, opened_status.st_ino)
            if not stat.S_ISREG(opened_status.st_mode) or not is_same or os.path.realpath(path) != path:
                raise SourceError(
                    f"{printable_path(path)} was replaced while it was being read",
                    hint="index again when it no longer changes",
                )
            return opened.read()
    except FileNotFoundError as error:
        raise SourceError(f"{printable_path(path)} vanished before it could be read", hint="index again") from error
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{printable_path(path)} cannot be read: {os_error_text(error)}",
            hint="check its permissions, or exclude it",
        ) from error


def os_error_text(error: OSError | ValueError) -> str:
    """Return the system's message without error number and path."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def printable_path(path: str) -> str:
    """Return a path that is safe to print; bytes that are not UTF-8 are shown as escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
