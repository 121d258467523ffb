"""Registry of the memories that were written on this machine: by capture, `lorelog add`, MCP, HTTP or Python.

A journal may come with a cloned repository, and anyone can write one. So a memory counts as the user's own only if its
id is in `authored.jsonl`, in the home, and its text is still the one that was registered. Everything else is labelled as
coming with the repository, and never counts as a correction or preference of the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lorelog.core.document import short_hash
from lorelog.services.memory_state.append_log import AppendLog

AUTHORED_FILE = "authored.jsonl"
_MAX_COMPARED_CHARS = 300
"""Letters and digits of a text that are compared. A long memory is split into chunks; the first is longer than this."""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class AuthoredMemories:
    """The memories of one tenant that were written on this machine."""

    def __init__(self, folder: Path) -> None:
        self._file = AppendLog(folder / AUTHORED_FILE, _parse_line)
        self._lines: tuple[tuple[str, str], ...] = ()
        self._digests: dict[str, str] = {}

    @property
    def token(self) -> str:
        """Changes with every registered memory."""
        return "{}.{}.{}".format(*self._file.stamp())

    def exists(self) -> bool:
        """Return True if anything was ever registered, or older memories were adopted."""
        return self._file.path.exists()

    def record(self, texts: Mapping[str, str]) -> None:
        """Register memories by id, with their texts; they are on disk when this returns."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._file.append({"memory": memory, "text": author_digest(text), "at": at} for memory, text in texts.items())

    def wrote(self, memory: str, text: str) -> bool:
        """Return True if a memory was written here with this text."""
        digest = self._known().get(memory)
        return digest is not None and digest == author_digest(text)

    def knows(self, memory: str) -> bool:
        """Return True if a memory with this id was written here, whatever its text is now."""
        return memory in self._known()

    def _known(self) -> Mapping[str, str]:
        lines = self._file.lines()
        if lines is not self._lines:
            self._digests, self._lines = dict(lines), lines
        return self._digests


def author_digest(text: str) -> str:
    """Return a digest of the letters and digits at the beginning of a text: a journal may change its markup."""
    bare = "".join(char for char in _COMMENT.sub("", text) if char.isalnum())
    return short_hash(bare[:_MAX_COMPARED_CHARS])


def _parse_line(entry: Any) -> tuple[str, str]:
    return str(entry["memory"]), str(entry["text"])
