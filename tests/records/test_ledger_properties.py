"""Every written record is read back, and every change to a ledger's files is detected."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.records.any_drafts import drafts
from tests.records.drafts import draft

from lorelog.core.record import SIGNED_FIELDS, Record, RecordDraft, signed_bytes
from lorelog.records.chain import LedgerPosition
from lorelog.records.ledger import Ledger

ANY = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))


def content(source: RecordDraft | Record) -> dict[str, object]:
    """Return the fields that a draft and its record share."""
    return {name: getattr(source, name) for name in SIGNED_FIELDS if name not in {"id", "at"}}


@pytest.mark.slow
@ANY
@given(
    batches=st.lists(st.lists(drafts(), min_size=1, max_size=4), max_size=5), max_bytes=st.sampled_from([1, 900, 10**6])
)
def test_any_drafts_are_read_back_as_they_were_written(batches: list[list[RecordDraft]], max_bytes: int) -> None:
    """Batches of any drafts with any segment size give the same records in order, in an unbroken chain."""
    with TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder), max_segment_bytes=max_bytes)
        written = [record for batch in batches for record in ledger.append(batch)]
        read = list(ledger.read())

        assert [content(record) for record in read] == [content(draft) for batch in batches for draft in batch]
        assert [(record.id, record.hash, signed_bytes(record)) for record in read] == [
            (record.id, record.hash, signed_bytes(record)) for record in written
        ]
        assert [record.seq for record in read] == list(range(1, len(read) + 1))
        assert all(record.verified for record in read)
        assert ledger.verify().ok
        assert ledger.verify().lines == len(read)


@pytest.mark.slow
@ANY
@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    max_bytes=st.sampled_from([1, 700, 10**6]),
    data=st.data(),
)
def test_reading_goes_on_from_any_position(sizes: list[int], max_bytes: int, data: st.DataObject) -> None:
    """Reading from a position gives the same records as reading from the start."""
    with TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder), max_segment_bytes=max_bytes)
        for size in sizes:
            ledger.append([draft()] * size)
        entries = list(ledger.walk())
        cut = data.draw(st.integers(0, len(entries)))
        after = entries[cut - 1].position if cut else LedgerPosition()

        assert list(ledger.read(after)) == [entry.record for entry in entries[cut:]]
        assert ledger.contains(after)
        assert ledger.position() == entries[-1].position


def lay(folder: Path, max_bytes: int) -> tuple[Ledger, list[Path]]:
    """Write nine records, some in batches, and return the ledger and its files in order."""
    ledger = Ledger(folder, max_segment_bytes=max_bytes)
    for size in (1, 3, 1, 2, 1, 1):
        ledger.append([draft(agent=f"mara {size}")] * size)
    files = [*sorted(folder.glob("ledger-*.jsonl")), folder / "ledger.jsonl"]
    for file in files:
        file.chmod(0o600)
    return ledger, files


def check_found(ledger: Ledger, places: set[tuple[str, int]], first_bad: int) -> None:
    """Check that damage is reported at one of the places, and that records from there on are unverified, before and after a write."""
    report = ledger.verify()
    assert not report.ok
    assert {(fault.file, fault.line) for fault in report.faults} & places, (report, places)
    assert report.first_bad_seq == first_bad
    ledger.append([draft(agent="later")])
    after = ledger.verify()
    assert after.first_bad_seq == first_bad
    records = list(ledger.read())
    assert records[-1].agent == "later"
    assert not any(record.verified for record in records[first_bad - 1 :])
    assert all(record.verified and record.seq == number for number, record in enumerate(records[: first_bad - 1], 1))


@pytest.mark.slow
@settings(ANY, max_examples=examples(80))
@given(max_bytes=st.sampled_from([1500, 10**6]), data=st.data(), byte=st.integers(0, 255))
def test_any_changed_byte_is_found_and_its_line_named(max_bytes: int, data: st.DataObject, byte: int) -> None:
    """For any changed byte its line is named, and records from there on are unverified."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), max_bytes)
        file = data.draw(st.sampled_from(files))
        text = bytearray(file.read_bytes())
        at = data.draw(st.integers(0, len(text) - 1))
        if text[at] == byte:
            byte ^= 1
        line = text[:at].count(b"\n") + 1
        bad = sum(path.read_bytes().count(b"\n") for path in files[: files.index(file)]) + line
        text[at] = byte
        file.write_bytes(text)

        ends = file == files[-1] and at == len(text) - 1
        # Without its end the last line is torn, and missed because it had been acknowledged.
        check_found(ledger, {(file.name, 0)} if ends else {(file.name, line)}, bad)


@pytest.mark.slow
@settings(ANY, max_examples=examples(60))
@given(
    max_bytes=st.sampled_from([1500, 10**6]),
    data=st.data(),
    how=st.sampled_from(["remove", "repeat", "swap", "insert"]),
)
def test_any_removed_repeated_moved_or_inserted_line_is_found(max_bytes: int, data: st.DataObject, how: str) -> None:
    """For valid lines in the wrong place the first wrong location is named."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), max_bytes)
        file = data.draw(st.sampled_from(files))
        lines = file.read_bytes().splitlines(keepends=True)
        before = sum(path.read_bytes().count(b"\n") for path in files[: files.index(file)])
        at = data.draw(st.integers(0, len(lines) - (2 if how == "swap" and len(lines) > 1 else 1)))
        if how == "remove":
            del lines[at]
        elif how == "repeat" or (how == "swap" and len(lines) == 1):
            lines.insert(at, lines[at])
            at += 1
        elif how == "swap":
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
        else:
            other = Ledger(Path(folder, "other"))
            other.append([draft(agent="forged")] * (before + at + 1))
            lines.insert(at, other._segments.open_path.read_bytes().splitlines(keepends=True)[before + at])
        file.write_bytes(b"".join(lines))

        places = {(file.name, at + 1), (file.name, at + 2)}
        if at >= len(lines):  # what follows is in the next file, or nowhere
            following = files[files.index(file) + 1 :]
            places = {(following[0].name, 1)} if following else {(file.name, 0)}
        elif how == "insert" and at + 1 == len(lines):
            places |= {(path.name, 1) for path in files[files.index(file) + 1 :][:1]}
        # A forged line that is chained rightly to the one before it is detected by the next line.
        slack = 1 if how == "insert" and ledger.verify().first_bad_seq == before + at + 2 else 0
        check_found(ledger, places, before + at + 1 + slack)


@ANY
@given(data=st.data())
def test_a_missing_segment_is_found_and_named(data: st.DataObject) -> None:
    """A missing sealed file is named, and the records after it are readable but unverified."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), 1)
        gone = data.draw(st.sampled_from(files[:-1]))
        before = sum(file.read_bytes().count(b"\n") for file in files[: files.index(gone)])
        gone.unlink()

        check_found(ledger, {(gone.name, 0)}, before + 1)


@pytest.mark.slow
@settings(ANY, max_examples=examples(25))
@given(data=st.data())
def test_a_write_that_was_cut_anywhere_is_made_good(data: st.DataObject) -> None:
    """Readers see nothing of a partial batch, the next writer moves it aside, and nothing else is lost."""
    with TemporaryDirectory() as folder:
        ledger, files = lay(Path(folder), data.draw(st.sampled_from([1500, 10**6])))
        before, lock = files[-1].read_bytes(), Path(folder, "ledger.lock").read_bytes()
        records = list(ledger.read())
        ledger.append([draft(agent="a"), draft(agent="b"), draft(agent="c")])
        file = files[-1] if files[-1].stat().st_size > len(before) else Path(folder, "ledger.jsonl")
        whole = Path(folder, "ledger.jsonl").read_bytes()
        start = len(before) if whole.startswith(before) else 0
        cut = data.draw(st.integers(start, len(whole) - 1))
        file.write_bytes(whole[:cut])
        Path(folder, "ledger.lock").write_bytes(lock)

        assert list(ledger.read()) == records
        assert ledger.verify().ok
        assert ledger.verify().torn == cut - start
        (after,) = ledger.append([draft(agent="after")])
        assert after.seq == len(records) + 1
        assert [record.id for record in ledger.read()] == [*(record.id for record in records), after.id]
        assert ledger.verify().ok
        torn = Path(folder, "ledger.torn")
        assert (torn.read_bytes() if torn.exists() else b"") == (whole[start:cut] + b"\n" if cut > start else b"")
