"""The files of a ledger: the open one that is written to, and numbered sealed ones before it.

The open file is `ledger.jsonl`; sealed ones are `ledger-000001.jsonl` and so on. The open file has the next number, which
becomes part of its name when it is sealed; so a position in it stays valid.

The hash chain of a ledger: encode and decode its lines, walk it from any position, and verify it.

A line is compact JSON with sorted keys and without empty values. It contains the hash of the previous line, which makes
the ledger a chain. `#` comes first and is a checksum of the rest of the line: without it a changed line could only be
detected through the next one, and a changed last line not at all.

A redacted line keeps the hash of the original line as `redacted`, so that the next line still follows it, and loses its
signature, which cannot be checked without the text. It counts only if a later record of kind `redaction` names the hash
of the line it was and the hash of the line it is now.

After a broken link everything counts as unverified: someone who could replace one line could have replaced the following
ones too. The lines after it are still read and shown.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, defstruct, field

from lorelog.core.atomic_file import open_regular, sync_folder
from lorelog.core.document import FileStamp
from lorelog.core.errors import StoreIncompatible, UsageError
from lorelog.core.record import MAX_NESTING, REDACTION_KIND, Record, RecordDraft, exceeds_max_nesting
from lorelog.core.serializable import Serializable
from lorelog.records.kinds import HASH_PATTERN, REDACTED_KEY, holds_text, redact_values

_SEALED = re.compile(r"ledger-(\d{6,})\.jsonl")
_BLOCK = 65536
_MAX_OPEN_ATTEMPTS = 3
SEALED_MODE = 0o400


class Segments(Struct, frozen=True):
    """The ledger files in a folder."""

    folder: Path

    @property
    def open_path(self) -> Path:
        return self.folder / "ledger.jsonl"

    def sealed_path(self, number: int) -> Path:
        return self.folder / f"ledger-{number:06d}.jsonl"

    def sealed(self) -> list[int]:
        """Return the numbers of the existing sealed segments, in order."""
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 -- before every write; Path objects cost time
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for name in names if (match := _SEALED.fullmatch(name)))

    def last_sealed(self) -> int:
        """Return the number of the last sealed segment; 0 if there is none."""
        return max(self.sealed(), default=0)

    def name(self, number: int) -> str:
        """Return the name of a segment's file, sealed or not."""
        sealed = self.last_sealed() >= number
        return (self.sealed_path(number) if sealed else self.open_path).name

    def open(self, number: int) -> IO[bytes] | None:
        """Open a segment for reading; None if it does not exist."""
        # The open file may be sealed meanwhile: it has this number only while no sealed file has it.
        for _ in range(_MAX_OPEN_ATTEMPTS):
            file = open_existing_file(self.sealed_path(number))
            if file is not None:
                return file
            file = open_existing_file(self.open_path) if self.last_sealed() < number else None
            if file is not None and self.last_sealed() < number:
                return file
            if file is not None:
                file.close()
        return None

    def raw_lines(self) -> Iterator[bytes]:
        for number in range(1, self.last_sealed() + 2):
            file = self.open(number)
            if file is not None:
                yield from (raw for raw, _, is_complete in read_lines(file) if is_complete)

    def seal(self, number: int) -> None:
        """Rename the open file to its sealed name. `restore_modes` completes an interrupted call."""
        path = self.sealed_path(number)
        self.open_path.rename(path)
        sync_folder(self.folder)
        path.chmod(SEALED_MODE)

    def restore_modes(self) -> None:
        """Make sealed segments read-only that an interrupted `seal` left writable."""
        for number in self.sealed():
            path = self.sealed_path(number)
            if stat.S_IMODE(path.lstat().st_mode) != SEALED_MODE:
                path.chmod(SEALED_MODE)


def read_lines(file: IO[bytes], offset: int = 0) -> Iterator[tuple[bytes, int, bool]]:
    """Yield each line from an offset on, the offset after it, and whether it is complete. Closes the file."""
    with file:
        file.seek(offset)
        for line in file:
            offset += len(line)
            whole = line.endswith(b"\n")
            yield (line[:-1] if whole else line), offset, whole


def read_lines_backward(file: IO[bytes], end: int) -> Iterator[tuple[bytes, int]]:
    """Yield the complete lines before an offset, last one first, each with the offset after it."""
    start, buffer = end, b""
    while True:
        stop = buffer.rfind(b"\n")
        before = buffer.rfind(b"\n", 0, max(stop, 0))
        if stop >= 0 and (before >= 0 or not start):
            yield buffer[before + 1 : stop], start + stop + 1
            buffer = buffer[: before + 1]
        elif start:
            size = min(_BLOCK, start)
            start -= size
            buffer = os.pread(file.fileno(), size, start) + buffer
        else:
            return


def open_existing_file(path: Path) -> IO[bytes] | None:
    """Open a file for reading; None if it does not exist. Links and devices raise OSError."""
    try:
        return os.fdopen(open_regular(path), "rb", _BLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None


LINE_FORMAT_VERSION = 1
GENESIS_HASH = "0" * 64
"""The previous hash in the first line."""
MAX_REDACTIONS_PER_RECORD = 1_000
MAX_RECORD_BYTES = 4 * 1024 * 1024
_CHECKSUM_CHARS = 16
_BODY_OFFSET = len('{"#":"') + _CHECKSUM_CHARS + len('",')
TEXT_FIELDS = (
    *("project", "task", "thread", "agent", "session", "reply_to", "relation", "supersedes", "origin", "status"),
    "signature",
)
"""Fields of a line that are texts and may be missing."""


class LedgerLine(Struct, frozen=True):
    values: Mapping[str, Any]
    hash: str
    """The hash by which the next line refers to it: for a redacted line, that of the original line."""
    is_intact: bool
    """True if the line's own checksum matches."""
    own_hash: str = ""
    """The hash of the line as it is now."""

    @property
    def is_redacted(self) -> bool:
        """True if the line claims to be redacted; only a redaction record proves it."""
        return self.hash != self.own_hash

    @property
    def seq(self) -> int:
        return int(self.values["seq"])

    @property
    def is_last_in_batch(self) -> bool:
        """False if lines of the same batch follow; a batch counts once its last line is written."""
        return not self.values.get("more")

    def record(self, *, verified: bool = False) -> Record:
        values = self.values
        return Record(
            **{name: values.get(name, "") for name in ("id", "kind", "at", *TEXT_FIELDS)},
            seq=values["seq"],
            supports_claim=values.get("supports_claim"),
            fields=values.get("fields", {}),
            hash=self.hash,
            verified=verified,
            redacted=self.is_redacted,
        )


def content_values(record: Record | RecordDraft) -> dict[str, Any]:
    """Return the content of a line of this record as JSON, without empty values and its position in the ledger."""
    values = {"v": LINE_FORMAT_VERSION, "id": record.id, "at": record.at, "kind": record.kind}
    values |= {name: value for name in TEXT_FIELDS if (value := getattr(record, name))}
    if record.supports_claim is not None:
        values["supports_claim"] = record.supports_claim
    if record.fields:
        values["fields"] = dict(record.fields)
    return values


def encode_line(draft: RecordDraft, seq: int, prev: str, more: int = 0) -> bytes:
    """Return the line of a complete draft, without its line end. Raise UsageError if it cannot be encoded."""
    values = content_values(draft) | {"seq": seq, "prev": prev} | ({"more": more} if more else {})
    try:
        line = encode_values(values)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"this {draft.kind} cannot be encoded: {error}",
            hint="texts must be UTF-8, numbers finite, everything else plain JSON",
        ) from error
    if (size := len(line) - _BODY_OFFSET) > MAX_RECORD_BYTES:
        raise UsageError(
            f"this {draft.kind} is too long ({size} bytes)", hint=f"the limit is {MAX_RECORD_BYTES} bytes per record"
        )
    return line


def encode_values(values: Mapping[str, Any]) -> bytes:
    """Return a line of these values with its checksum, without its line end."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    rest = text.encode()[1:]
    return _checksum_prefix(rest) + rest


def _checksum_prefix(rest: bytes) -> bytes:
    return b'{"#":"' + hashlib.sha256(rest).hexdigest()[:_CHECKSUM_CHARS].encode() + b'",'


_Hash = Annotated[str, Meta(pattern=rf"\A{HASH_PATTERN.pattern}\Z")]


class LineRedaction(Struct, frozen=True):
    """A line whose texts are removed, as its redaction record names it."""

    id: str
    seq: int
    original: _Hash
    redacted: _Hash
    texts: Mapping[str, str] = field(default_factory=dict)
    """Markers of the removed texts, by their path in the line."""


def parse_redactions(record: Record) -> list[LineRedaction]:
    """Return the entries of a redaction record; none for other records and for entries of another form."""
    entries = record.fields.get("redactions") if record.kind == REDACTION_KIND else None
    redactions: list[LineRedaction] = []
    for entry in entries if isinstance(entries, list) else ():
        with suppress(ValidationError):
            redactions.append(convert(entry, LineRedaction))
    # It must come after what it names: nothing vouches for a line before that line exists.
    return [redaction for redaction in redactions if redaction.seq < record.seq]


def redact_line(line: LedgerLine, raw: bytes) -> tuple[bytes, LineRedaction]:
    """Return a line without its texts, and the entry that a redaction record needs for it."""
    values, texts = redact_values(line.values, raw)
    redacted = encode_values(values)
    return redacted, LineRedaction(line.values["id"], line.seq, hash_line(raw), hash_line(redacted), texts)


def hash_line(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def decode_line(line: bytes) -> LedgerLine | None:
    """Decode a line; None if it is not a record. Raise StoreIncompatible if a newer version wrote it."""
    try:
        values = _DECODER.decode(line.decode())
        convert(values, LINE_SHAPE)  # anyone may have written the line
        if "seq" not in values or "prev" not in values:
            return None
        if line.count(b"{") + line.count(b"[") > MAX_NESTING and exceeds_max_nesting(values.get("fields")):
            return None  # lorelog never writes such a line, and recursion into it would not return
        if b"\\u" in line:  # possibly half a surrogate pair, which neither files nor databases accept
            json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    is_intact = line[:_BODY_OFFSET] == _checksum_prefix(line[_BODY_OFFSET:])
    if is_intact and values["v"] != LINE_FORMAT_VERSION:
        raise StoreIncompatible(
            f"record {values['seq']} was written by a newer lorelog (format {values['v']})", hint="upgrade lorelog"
        )
    own = hash_line(line)
    return LedgerLine(values, values.get(REDACTED_KEY, own) if is_intact else own, is_intact, own)


def chain_hash(raw: bytes) -> str:
    """Return the hash by which the next line refers to this one, which may be redacted."""
    line = decode_line(raw) if REDACTED_KEY.encode() in raw else None
    return hash_line(raw) if line is None else line.hash


_DECODER = json.JSONDecoder(parse_constant=int)  # which refuses NaN and Infinity
_Number = Annotated[int, Meta(ge=0, lt=2**53)]
LINE_SHAPE = defstruct(
    "LineShape",
    [
        *((name, str) for name in ("id", "at", "kind")),
        ("v", _Number),
        *((name, str, "") for name in ("prev", *TEXT_FIELDS)),
        *((name, _Number, 0) for name in ("seq", "more")),
        (REDACTED_KEY, _Hash, ""),
        ("supports_claim", bool | None, None),
        ("fields", dict, field(default_factory=dict)),
    ],
)
"""The types of a line's values; an exported line has no position in a ledger."""


MISSING_SEGMENT = "this segment is missing"


class LedgerPosition(Struct, frozen=True):
    """A position between two lines, and the state of the chain before it. The default is before the first line."""

    segment: int = 1
    offset: int = 0
    seq: int = 0
    hash: str = GENESIS_HASH
    intact: bool = True
    """True if the chain is known to be unbroken up to this position."""


class LedgerEntry(Struct, frozen=True):
    """A line of a ledger, or a missing segment (line 0)."""

    record: Record | None
    """None if the line cannot be read."""
    position: LedgerPosition
    """The position after the line."""
    file: str
    line: int
    """The line number in the file, counted from where reading began."""
    fault: str = ""


def walk_entries(segments: Segments, after: LedgerPosition) -> Iterator[LedgerEntry]:
    """Yield the lines after a position. An incomplete batch at the end is omitted."""
    chain = _ChainState(after, RedactionIndex(segments))
    number = after.segment
    while True:
        is_last = number > segments.last_sealed()
        file = segments.open(number)
        if file is not None and chain.offset:
            # The line after the last one read has moved if lines before it were redacted meanwhile.
            last = next(read_lines_backward(file, chain.offset), None)
            if last is None or last[1] != chain.offset or chain_hash(last[0]) != chain.last:
                lines = read_lines(os.fdopen(os.dup(file.fileno()), "rb"))
                chain.offset = next((end for raw, end, _ in lines if chain_hash(raw) == chain.last), chain.offset)
        if file is None and is_last:
            return
        if file is None:
            chain.intact = False
            position = LedgerPosition(number + 1, 0, chain.seq, chain.hash, intact=False)
            yield LedgerEntry(None, position, segments.sealed_path(number).name, 0, MISSING_SEGMENT)
        else:
            yield from _segment_entries(chain, segments, number, file, is_last=is_last)
            if is_last and number > segments.last_sealed():
                return
        if not is_last:  # otherwise it was sealed while it was read, and may contain more lines
            number += 1
            chain.offset = chain.count = 0


class RedactionIndex:
    """The entries of a ledger's redaction records, read when the first redacted line is met."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._stamp: object = None
        self._entries: dict[tuple[str, str, int], list[str]] = {}
        """Hashes of redacted lines, by the hash, id and number of the original line."""

    def fault(self, line: LedgerLine) -> str:
        """Return why a redacted line does not count; empty if it does."""
        found = self._fault(line)
        path = self._segments.open_path
        stamp = (self._segments.last_sealed(), FileStamp.from_stat(path.lstat()) if path.exists() else None)
        if found and stamp != self._stamp:  # never read, or a redaction was added since
            self._stamp = stamp
            self._entries = {}
            for record in iter_redaction_records(self._segments):
                for entry in parse_redactions(record):
                    self._entries.setdefault((entry.original, entry.id, entry.seq), []).append(entry.redacted)
            found = self._fault(line)
        return found

    def _fault(self, line: LedgerLine) -> str:
        hashes = self._entries.get((line.hash, line.values["id"], line.seq))
        if not hashes:
            return "it was redacted, but no later record names its redaction"
        if line.own_hash not in hashes:
            return "it is not the line that its redaction record names"
        return "it is marked as redacted, but holds text" if holds_text(line.values) else ""


def iter_redaction_records(segments: Segments) -> Iterator[Record]:
    """Yield the redaction records of the whole ledger, without decoding other lines."""
    needle = f'"kind":"{REDACTION_KIND}"'.encode()
    for raw in segments.raw_lines():
        line = decode_line(raw) if needle in raw else None
        if line is not None and line.is_intact and line.values["kind"] == REDACTION_KIND:
            yield line.record()


def _segment_entries(
    chain: _ChainState, segments: Segments, number: int, file: IO[bytes], *, is_last: bool
) -> Iterator[LedgerEntry]:
    pending: list[LedgerEntry] = []
    before = dict(vars(chain))
    name = (segments.open_path if is_last else segments.sealed_path(number)).name
    for raw, end, is_complete in read_lines(file, chain.offset):
        if not is_complete and is_last:
            break
        line = decode_line(raw)
        fault = chain.check_line(raw, line, cut=not is_complete)
        position = LedgerPosition(number, end, chain.seq, chain.last, chain.intact)
        record = None if line is None else line.record(verified=chain.intact)
        pending.append(LedgerEntry(record, position, name, chain.count, fault))
        if line is None or line.is_last_in_batch:
            chain.offset = end
            before = dict(vars(chain))
            yield from pending
            pending.clear()
    if not is_last:
        yield from pending
    else:
        vars(chain).update(before)


class _ChainState:
    """The values that the next line must match."""

    def __init__(self, after: LedgerPosition, redactions: RedactionIndex) -> None:
        self._redactions = redactions
        self.seq, self.hash, self.last, self.intact = after.seq, after.hash, after.hash, after.intact
        self.offset, self.count = after.offset, 0

    def check_line(self, raw: bytes, line: LedgerLine | None, *, cut: bool) -> str:
        """Advance by one line and return its fault, or an empty text."""
        self.count += 1
        fault = "it has no line end" if cut else self._fault(line)
        self.last = hash_line(raw) if line is None else line.hash
        if line is None or not line.is_intact:
            # The original line and its hash are unknown, so the next line is not at fault for referring to it.
            self.seq, self.hash = self.seq + 1, ""
        else:
            self.seq, self.hash = line.seq, self.last
        self.intact = self.intact and not fault
        return fault

    def _fault(self, line: LedgerLine | None) -> str:
        expected = self.seq + 1
        if line is None:
            return "it is not a record: changed, or not written by lorelog"
        if not line.is_intact:
            return "it was changed after it was written"
        if line.seq > expected:
            return f"{_format_missing(expected, line.seq - 1)} missing before it"
        if line.seq < expected:
            return f"it is record {line.seq} instead of record {expected}: repeated, moved or inserted"
        if self.hash and line.values["prev"] != self.hash:
            return f"it does not follow the previous line: one of the two was replaced, or record {self.seq} rewritten"
        return self._redactions.fault(line) if line.is_redacted else ""


def _format_missing(first: int, last: int) -> str:
    return f"record {first} is" if first == last else f"records {first} to {last} are"


class LedgerFault(Serializable, Struct, frozen=True):
    """A deviation from the written ledger. Line 0 stands for the whole file."""

    file: str
    line: int
    what: str


class UnprovenSignature(Serializable, Struct, frozen=True):
    """A signature that does not prove its writer, and why."""

    artifact_id: str
    writer: str
    state: str
    reason: str
    key: str


class LedgerVerification(Struct, frozen=True):
    lines: int
    faults: tuple[LedgerFault, ...] = ()
    first_bad_seq: int = 0
    """The first record that does not count as verified; 0 if all do."""
    torn: int = 0
    """Bytes of an incomplete batch at the end. They were never acknowledged, so they are not a fault."""
    redacted: int = 0
    """Lines whose texts were removed, with a record of it."""

    @property
    def ok(self) -> bool:
        """True if every line is as it was written."""
        return not self.faults


def verify_chain(segments: Segments, acknowledged: LedgerPosition | None) -> LedgerVerification:
    """Read the whole ledger and check every line, including the last one whose write was confirmed to a caller."""
    seen: dict[str, tuple[str, int]] = {}
    faults: list[LedgerFault] = []
    lines = first_bad = 0
    is_known = acknowledged is None
    if acknowledged is not None:  # the open segment takes the number of a missing one before it
        missing = range(segments.last_sealed() + 1, acknowledged.segment)
        faults += [LedgerFault(segments.sealed_path(number).name, 0, MISSING_SEGMENT) for number in missing]
    position = LedgerPosition()
    redacted: set[str] = set()
    redactions: list[LineRedaction] = []
    for entry in walk_entries(segments, position):
        if entry.record is not None and not entry.fault:
            redactions += parse_redactions(entry.record)
            if entry.record.redacted:
                redacted.add(entry.record.hash)
        if entry.fault:
            first_bad = first_bad or position.seq + 1
            file, line = seen.get(entry.position.hash, ("", 0)) if entry.line else ("", 0)
            what = f"it repeats line {line} of {file}" if file else entry.fault
            faults.append(LedgerFault(entry.file, entry.line, what))
        position = entry.position
        lines += entry.line > 0
        seen.setdefault(position.hash, (entry.file, entry.line))
        is_known |= acknowledged is not None and (position.seq, position.hash) == (acknowledged.seq, acknowledged.hash)
    if not is_known and acknowledged is not None:
        name = segments.name(position.segment)
        if position.seq < acknowledged.seq:
            missed = _format_missing(position.seq + 1, acknowledged.seq)
            faults.append(LedgerFault(name, 0, f"{missed} missing at the end"))
        elif not faults:
            faults.append(LedgerFault(name, 0, f"record {acknowledged.seq} is not the one that was acknowledged"))
        first_bad = first_bad or min(position.seq + 1, acknowledged.seq)
    for redaction in redactions:
        if redaction.original in seen and redaction.original not in redacted:
            faults.append(LedgerFault(*seen[redaction.original], "its text was redacted, but is there"))
            first_bad = min(filter(None, (first_bad, redaction.seq)))
    torn = 0
    if position.segment > segments.last_sealed() and segments.open_path.exists():
        torn = max(0, segments.open_path.lstat().st_size - position.offset)
    return LedgerVerification(lines, tuple(faults), first_bad, torn, len(redacted))
