"""Looking a whole ledger through, and naming what is wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lorelog.records.chain import MISSING, Entry, Position, walk
from lorelog.records.segments import Segments


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it was written. Line 0 is the file as a whole."""

    file: str
    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found."""

    lines: int
    faults: tuple[Fault, ...] = ()
    first_bad_seq: int = 0
    """From this record on nothing counts as verified; 0 when all is well."""
    torn: int = 0
    """Bytes at the end that belong to no whole batch. They were acknowledged to nobody, and are no fault."""

    @property
    def ok(self) -> bool:
        """Whether every line is as it was written."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The last line that somebody was promised."""

    seq: int
    hash: str
    segment: int


def verify(segments: Segments, promised: Acknowledged | None) -> Verification:
    """Read a ledger from its beginning, up to the last line that was promised and beyond."""
    seen: dict[str, str] = {}
    faults: list[Fault] = []
    lines = first_bad = 0
    is_known = promised is None
    if promised is not None:  # the open segment takes the number of a missing one before it
        gone = range(max(segments.sealed(), default=0) + 1, promised.segment)
        faults += [Fault(segments.sealed_path(number).name, 0, MISSING) for number in gone]
    position = Position()
    for entry in walk(segments, position):
        if entry.fault:
            first_bad = first_bad or position.seq + 1
            faults.append(Fault(entry.file, entry.line, _told(entry, seen)))
        position = entry.position
        lines += entry.line > 0
        seen.setdefault(position.hash, f"line {entry.line} of {entry.file}")
        is_known = is_known or (promised is not None and (position.seq, position.hash) == (promised.seq, promised.hash))
    if not is_known and promised is not None:
        faults += _at_the_end(segments, position, promised.seq, counted=bool(faults))
        first_bad = first_bad or min(position.seq + 1, promised.seq)
    return Verification(lines, tuple(faults), first_bad, _torn(segments, position))


def _told(entry: Entry, seen: dict[str, str]) -> str:
    before = seen.get(entry.position.hash, "") if entry.line else ""
    return f"it repeats {before}" if before else entry.fault


def _at_the_end(segments: Segments, end: Position, seq: int, *, counted: bool) -> Iterator[Fault]:
    name = segments.name(end.segment)
    if end.seq < seq:
        missing = f"record {seq} is" if seq == end.seq + 1 else f"records {end.seq + 1} to {seq} are"
        yield Fault(name, 0, f"{missing} missing at the end")
    elif not counted:
        yield Fault(name, 0, f"record {seq} is not the one that was acknowledged")


def _torn(segments: Segments, end: Position) -> int:
    if end.segment <= max(segments.sealed(), default=0) or not segments.open_path.exists():
        return 0
    return max(0, segments.open_path.lstat().st_size - end.offset)
