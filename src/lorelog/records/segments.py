"""The files of a ledger: one that is written to, and sealed ones before it, each with its number.

The open file is `ledger.jsonl`; sealed ones are `ledger-000001.jsonl` and so on. The open one has the next number, which it
bears in its name once it is sealed: so a place in it stays the same place.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SEALED = re.compile(r"ledger-(\d{6,})\.jsonl")
_BLOCK = 65536
_LOOKS = 3
SEALED_MODE = 0o400


@dataclass(frozen=True, slots=True)
class Segments:
    """The files of the ledger in a folder."""

    folder: Path

    @property
    def open_path(self) -> Path:
        """The file that is written to."""
        return self.folder / "ledger.jsonl"

    def sealed_path(self, number: int) -> Path:
        """Return where a sealed segment lies."""
        return self.folder / f"ledger-{number:06d}.jsonl"

    def sealed(self) -> list[int]:
        """Return the numbers of the sealed segments that are there."""
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 -- asked before every write; paths would be made for nothing
        except FileNotFoundError:
            return []
        return sorted(int(found[1]) for name in names if (found := _SEALED.fullmatch(name)))

    def name(self, number: int) -> str:
        """Return what a segment's file is called, sealed or not."""
        sealed = max(self.sealed(), default=0) >= number
        return (self.sealed_path(number) if sealed else self.open_path).name

    def open(self, number: int) -> int | None:
        """Open a segment for reading; None when it is not there."""
        # The open file may be sealed while we look: only as long as no file bears its number is the open one it.
        for _ in range(_LOOKS):
            descriptor = _open(self.sealed_path(number))
            if descriptor is not None:
                return descriptor
            if max(self.sealed(), default=0) >= number:
                continue
            descriptor = _open(self.open_path)
            if descriptor is None:
                continue
            if max(self.sealed(), default=0) < number:
                return descriptor
            os.close(descriptor)
        return None

    def seal(self, number: int) -> None:
        """Give the open file its sealed name. Whoever is stopped in between is followed by `mend`."""
        path = self.sealed_path(number)
        self.open_path.rename(path)
        sync_directory(self.folder)
        path.chmod(SEALED_MODE)

    def mend(self) -> None:
        """Make sealed segments unwritable that were left writable."""
        for number in self.sealed():
            path = self.sealed_path(number)
            if stat.S_IMODE(path.lstat().st_mode) != SEALED_MODE:
                path.chmod(SEALED_MODE)


def lines_of(descriptor: int, offset: int = 0) -> Iterator[tuple[bytes, int, bool]]:
    """Yield each line from an offset on, where it ends, and whether it has an end. The descriptor is closed."""
    with os.fdopen(descriptor, "rb", _BLOCK) as file:
        file.seek(offset)
        for line in file:
            offset += len(line)
            whole = line.endswith(b"\n")
            yield (line[:-1] if whole else line), offset, whole


def lines_back(descriptor: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Yield the whole lines before an offset, last one first, each with where it ends; what has no end is passed over."""
    start, read = end, b""
    while True:
        stop = read.rfind(b"\n")
        before = read.rfind(b"\n", 0, max(stop, 0))
        if stop >= 0 and (before >= 0 or not start):
            yield read[before + 1 : stop], start + stop + 1
            read = read[: before + 1]
        elif start:
            size = min(_BLOCK, start)
            start -= size
            read = os.pread(descriptor, size, start) + read
        else:
            return


def sync_directory(directory: Path) -> None:
    """Make names in a directory as durable as what they name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is not a regular file", str(path))
