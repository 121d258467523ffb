"""What is checked out, and whether a checkout is under way, read from Git's own files without a process.

`git checkout` changes the files of the working tree, then writes the index, and at last HEAD. It holds `index.lock`
until the index is written.
"""

from __future__ import annotations

import os
import time

from msgspec import Struct

from lorelog.services.places.git import git_folders, read_head

_MAX_LOCK_AGE_S = 600.0
"""An older lock was left behind by a process that died."""
_YOUNG_S = 20.0
"""Git moves HEAD within this time after it has written the index, also on a busy machine."""


class CheckoutState(Struct, frozen=True):
    """HEAD and the index of a working tree at one moment."""

    branch: str = ""
    commit: str = ""
    index: tuple[int, int, int] = (0, 0, 0)
    """Time of modification in nanoseconds, size and inode; zeros if there is none."""
    is_changing: bool = False
    """Git holds the lock of the index."""

    @classmethod
    def read(cls, root: str) -> CheckoutState:
        """Return the present state."""
        folders = git_folders(root)
        folder = folders[0]
        if not folder:
            return cls()
        is_changing = _is_locked(folder)  # before the rest: the lock ends when the index is replaced
        return cls(*read_head(root, folders), _stamp(os.path.join(folder, "index")), is_changing)  # noqa: PTH118

    @property
    def key(self) -> tuple[str, int]:
        """Changes with every commit and with staging."""
        return self.commit, self.index[0]

    @property
    def is_young(self) -> bool:
        """Whether the index was written just now, so that HEAD may not be written yet."""
        return time.time() - self.index[0] / 1e9 < _YOUNG_S


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_size, status.st_ino


def _is_locked(folder: str) -> bool:
    try:
        locked_s = os.stat(os.path.join(folder, "index.lock")).st_mtime  # noqa: PTH116, PTH118
    except OSError:
        return False
    return time.time() - locked_s < _MAX_LOCK_AGE_S
