"""One large JSON document, member by member: an export is a single object, and may be larger than the memory should be.

The document's own braces are read by hand; each member, and each element of the arrays that are asked for, is decoded
once enough of it is there. The buffer doubles when it was not enough, so that the work stays in proportion to the size.
"""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Iterator
from typing import IO, Any

from lorelog.ingest.transcripts.building import Tally
from lorelog.ingest.transcripts.lines import open_stream

VALUE_CHARS = 64 * 1024 * 1024
"""The longest single value that is decoded; reading ends at a longer one."""
_PIECE = 65_536
_SPACE = " \t\r\n\ufeff"


class _Cut(Exception):
    """The document ends, or stops being JSON, before it is complete."""


def read_members(path: str, arrays: frozenset[str], tally: Tally) -> Iterator[tuple[str, Any]]:
    """Yield the members of a document's object by name, and those of `arrays` element by element, until it breaks."""
    with open_stream(path) as stream:
        reader = _Reader(stream)
        try:
            reader.expect("{")
            while not reader.accept("}"):
                key = reader.key()
                if key in arrays and reader.accept("["):
                    for element in _elements(reader):
                        yield key, element
                else:
                    yield key, reader.value()
                reader.accept(",")
        except (_Cut, EOFError, zlib.error, RecursionError):
            tally.broken += 1


def _elements(reader: _Reader) -> Iterator[Any]:
    while not reader.accept("]"):
        yield reader.value()
        reader.accept(",")


class _Reader:
    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._scan = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._ended = False

    def expect(self, character: str) -> None:
        """Pass over a character that must come next."""
        if not self.accept(character):
            raise _Cut

    def accept(self, character: str) -> bool:
        """Pass over a character if it comes next."""
        if self._next() != character:
            return False
        self._at += 1
        return True

    def key(self) -> str:
        """Return the name of the member that comes next, and pass over the colon behind it."""
        key = self.value()
        if not isinstance(key, str):
            raise _Cut
        self.expect(":")
        return key

    def value(self) -> Any:
        """Return the value that comes next."""
        self._next()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except (json.JSONDecodeError, IndexError):
                end = len(self._text)
            except ValueError as error:  # a number of too many digits
                raise _Cut from error
            else:
                # A number at the end of the buffer may go on behind it.
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            if self._ended or end - self._at > VALUE_CHARS:
                raise _Cut
            self._grow()

    def _next(self) -> str:
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                raise _Cut
            self._grow()

    def _grow(self) -> None:
        rest = self._text[self._at :]
        data = self._stream.read(max(_PIECE, len(rest)))
        self._ended = not data
        self._text = rest + self._decode(data, final=self._ended)
        self._at = 0
