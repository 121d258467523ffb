"""Read a scanned file as text, or raise SourceError with the exact reason why it cannot be read.

A file that is not UTF-8 is rejected, not patched: replacement characters would be searched, shown and cited as if
someone had written them. Between scan and read a path may be replaced by a link, a pipe or a device; so links are not
followed, opening never blocks, and the opened file must still be the scanned path.
"""

from __future__ import annotations

import hashlib
import os
import stat

from lorelog.core.document import SourceFile
from lorelog.core.errors import SourceError

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def read_text(file: SourceFile) -> tuple[str, str]:
    r"""Return a file's text and the SHA-256 of its bytes in hex. Raise SourceError if it is not readable text.

    A byte order mark is dropped and `\r\n` becomes `\n`; no other character ends a line.
    """
    data = _read_bytes(file.path)
    if data.find(b"\0") >= 0:
        is_utf16 = data.startswith(_UTF16_BOMS)
        raise SourceError(
            f"{printable_path(file.path)} contains NUL bytes; not text",
            hint="it looks like UTF-16; convert it to UTF-8" if is_utf16 else "exclude it, or remove the NUL bytes",
        )
    skipped = len(_BOM) if data.startswith(_BOM) else 0
    try:
        text = data[skipped:].decode()
    except UnicodeDecodeError as error:
        offset = skipped + error.start
        line = data.count(b"\n", 0, offset) + 1
        raise SourceError(
            f"{printable_path(file.path)} is not valid UTF-8 at byte {offset}, on line {line}",
            hint="convert it to UTF-8, for example with iconv",
        ) from error
    return text.replace("\r\n", "\n"), hashlib.sha256(data).hexdigest()


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
