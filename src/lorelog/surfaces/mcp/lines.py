"""Cutting a stream of bytes into lines, none longer than is bearable. Standard library only: the proxy uses it too."""

from __future__ import annotations

from collections.abc import Iterator

LONGEST = 16 * 1024 * 1024
"""Bytes of one message. Whatever is longer is no question to a memory."""


class LineBuffer:
    """Takes bytes as they come and gives whole lines back; of a line that is too long it keeps nothing."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0
        self._passing_over = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the lines that are complete now, without their ends; None stands for one that was too long."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._keep(end)
            line = None if self._passing_over else b"".join(self._parts)
            self._parts, self._size, self._passing_over = [], 0, False
            yield line
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._longest:
            self._parts, self._passing_over = [], True
        elif part:
            self._parts.append(part)
