"""Reading a ledger from any place on, and telling where its chain is broken.

A broken chain stays broken: whoever could exchange a line could have exchanged the next ones too. What follows is read
and shown, and counts as unverified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lorelog.core.record import Record
from lorelog.records.line import NOTHING_BEFORE, Line, decode, hash_of
from lorelog.records.segments import Segments, lines_of

MISSING = "this segment is missing"


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two lines: where it is, and what stands before it. The default is before the first line."""

    segment: int = 1
    offset: int = 0
    seq: int = 0
    hash: str = NOTHING_BEFORE
    intact: bool = True
    """Whether the chain is unbroken up to here, as far as whoever came here knows."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a ledger, or a segment that is not there (line 0)."""

    record: Record | None
    """What it says; None when that cannot be read."""
    position: Position
    """The place after it."""
    file: str
    line: int
    """Its number in the file, counted from where the reading began."""
    fault: str = ""


def walk(segments: Segments, after: Position) -> Iterator[Entry]:
    """Yield the lines after a position. A batch at the end whose last line is not there yet is left out."""
    chain = _Chain(after)
    number = after.segment
    while True:
        is_last = number > max(segments.sealed(), default=0)
        descriptor = segments.open(number)
        if descriptor is None and is_last:
            return
        if descriptor is None:
            chain.intact = False
            place = Position(number + 1, 0, chain.seq, chain.hash, intact=False)
            yield Entry(None, place, segments.sealed_path(number).name, 0, MISSING)
        else:
            yield from _entries(chain, lines_of(descriptor, chain.offset), _File(segments, number, is_last=is_last))
            if is_last and number > max(segments.sealed(), default=0):
                return
        if not is_last:  # otherwise it was sealed while we read it, and there may be more in it than we saw
            number += 1
            chain.offset = chain.count = 0


@dataclass(frozen=True, slots=True)
class _File:
    segments: Segments
    number: int
    is_last: bool

    @property
    def name(self) -> str:
        return (self.segments.open_path if self.is_last else self.segments.sealed_path(self.number)).name


def _entries(chain: _Chain, lines: Iterator[tuple[bytes, int, bool]], file: _File) -> Iterator[Entry]:
    waiting: list[Entry] = []
    before = chain.state()
    name = file.name
    for line, end, whole in lines:
        if not whole and file.is_last:
            break
        said = decode(line)
        fault = chain.take(line, said, cut=not whole)
        place = Position(file.number, end, chain.seq, chain.last, chain.intact)
        record = None if said is None else said.record(verified=chain.intact)
        waiting.append(Entry(record, place, name, chain.count, fault))
        if said is None or not said.more:
            chain.offset = end
            before = chain.state()
            yield from waiting
            waiting.clear()
    if not file.is_last:
        yield from waiting
    else:
        chain.restore(before)


class _Chain:
    """What the next line must say to follow those before it."""

    def __init__(self, after: Position) -> None:
        self.seq, self.hash, self.last, self.intact = after.seq, after.hash, after.hash, after.intact
        self.offset, self.count = after.offset, 0

    def state(self) -> tuple[int, str, str, bool, int, int]:
        return self.seq, self.hash, self.last, self.intact, self.offset, self.count

    def restore(self, state: tuple[int, str, str, bool, int, int]) -> None:
        self.seq, self.hash, self.last, self.intact, self.offset, self.count = state

    def take(self, line: bytes, said: Line | None, *, cut: bool) -> str:
        """Take the next line, and return what is wrong with it."""
        self.count += 1
        fault = "it has no end" if cut else self._fault(said)
        self.last = hash_of(line) if said is None else said.hash
        if said is None or not said.sound:
            # What it was is not known, nor is its hash: the next line is not blamed for naming what was there.
            self.seq, self.hash = self.seq + 1, ""
        else:
            self.seq, self.hash = said.seq, self.last
        self.intact = self.intact and not fault
        return fault

    def _fault(self, said: Line | None) -> str:
        due = self.seq + 1
        if said is None:
            return "it is no record: changed, or not written by lorelog"
        if not said.sound:
            return "it was changed after it was written"
        seq = said.seq
        if seq > due:
            missing = f"record {due} is" if seq == due + 1 else f"records {due} to {seq - 1} are"
            return f"{missing} missing before it"
        if seq < due:
            return f"it is record {seq} where record {due} should be: repeated, moved or inserted"
        if self.hash and said.prev != self.hash:
            return f"it does not follow the line before it: one of the two was exchanged, or record {due - 1} rewritten"
        return ""
